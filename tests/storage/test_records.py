"""What belongs to a memory, found by its owner."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from storage.embed import Fingerprint
from storage.engine import Point
from storage.model import Version, point_id
from storage.records import RECORDS, Records


def version(memory: str, number: int, **fields: object) -> Version:
    told = {
        "memory": memory, "number": number, "content": f"text {number}", "context": "", "type": "semantic",
        "tags": ("x", "ü"), "metadata": {"a": [1, None]}, "sensitivity": "personal", "change_summary": "content changed",
        "created_at": 1.5, "replaced_at": 2.5,
    }  # fmt: skip
    return Version(**told | fields)


@pytest.fixture
def records(opened) -> Records:
    return opened.stores.records


def test_b18_every_former_text_is_kept_newest_first(records) -> None:
    for number in (2, 1, 10):
        records.add_version(version("m", number))
    records.add_version(version("other", 1))

    assert records.versions("m") == [version("m", number) for number in (10, 2, 1)]
    assert records.versions("nobody") == []
    assert records.with_history() == {"m": 3, "other": 1}


def test_the_same_number_again_is_the_same_version(records) -> None:
    records.add_version(version("m", 1))
    records.add_version(version("m", 1, content="said again after a crash"))

    assert [one.content for one in records.versions("m")] == ["said again after a crash"]


def test_what_belongs_to_erased_memories_goes_and_the_rest_stays(opened, records) -> None:
    for memory in ("a", "b", "c"):
        records.add_version(version(memory, 1))
        records.add_version(version(memory, 2))

    records.erase(["a", "c", "nobody"])

    assert records.with_history() == {"b": 2}
    assert opened.engine.count(RECORDS) == 2


def test_the_fingerprint_is_kept_for_good(opened, records) -> None:
    assert records.fingerprint() is None
    fingerprint = opened.embedder.fingerprint

    records.set_fingerprint(fingerprint)
    opened.reopen()

    assert opened.stores.records.fingerprint() == Fingerprint(**asdict(fingerprint))
    assert opened.stores.records.with_history() == {}


def test_b11_a_record_of_a_kind_that_we_do_not_know_is_kept_until_its_owner_is_erased(opened, records) -> None:
    opened.engine.upsert(
        RECORDS, [Point(point_id("x"), {"owner": "m", "text": "a"}), Point(point_id("y"), {"kind": "dream"})]
    )
    records.add_version(version("m", 1))

    assert [one.number for one in records.versions("m")] == [1]
    assert records.with_history() == {"m": 1}
    records.erase(["m"])
    assert opened.engine.count(RECORDS) == 1
