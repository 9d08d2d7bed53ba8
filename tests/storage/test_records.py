"""What belongs to a memory, found by its owner."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import pytest

from storage.embed import Fingerprint
from storage.engine import Point
from storage.model import Version, point_id
from storage.records import RECORDS, Records, owner_of, record_key


def version(memory: str, number: int, **fields: object) -> Version:
    told = {
        "memory": memory, "number": number, "content": f"text {number}", "context": "", "type": "semantic",
        "tags": ("x", "ü"), "metadata": {"a": [1, None]}, "sensitivity": "personal", "change_summary": "content changed",
        "created_at": 1.5, "replaced_at": 2.5,
    }  # fmt: skip
    return Version(**told | fields)


def owners(records: Records) -> dict[str, int]:
    """How many former texts each memory has."""
    return Counter(owner for batch in records.levels() for owner, _ in batch)


@pytest.fixture
def records(opened) -> Records:
    return opened.stores.records


def test_b18_every_former_text_is_kept_newest_first(records) -> None:
    for number in (2, 1, 10):
        records.add_version(version("m", number))
    records.add_version(version("other", 1))

    assert records.versions("m") == [version("m", number) for number in (10, 2, 1)]
    assert records.versions("nobody") == []
    assert owners(records) == {"m": 3, "other": 1}


def test_the_levels_of_former_texts_are_read_in_batches_between_which_other_calls_may_come(opened, records) -> None:
    """Stats of many edits must hold neither the lane nor every text at once."""
    for number in range(1, 701):
        records.add_version(version("m", number, sensitivity="secret" if number % 7 == 0 else "public"))

    batches = records.levels()
    first = next(batches)
    records.add_version(version("other", 1))
    rest = [one for batch in batches for one in batch if one[0] == "m"]

    assert 0 < len(first) < 700
    assert Counter([*first, *rest])["m", "secret"] == 100
    assert Counter(one for one in [*first, *rest] if one[0] == "m")["m", "public"] == 600


def test_the_same_number_again_is_the_same_version(records) -> None:
    records.add_version(version("m", 1))
    records.add_version(version("m", 1, content="said again after a crash"))

    assert [one.content for one in records.versions("m")] == ["said again after a crash"]


def test_what_belongs_to_erased_memories_goes_and_the_rest_stays(opened, records) -> None:
    for memory in ("a", "b", "c"):
        records.add_version(version(memory, 1))
        records.add_version(version(memory, 2))

    records.erase(["a", "c", "nobody"])

    assert owners(records) == {"b": 2}
    assert opened.engine.count(RECORDS) == 2


def test_what_was_taken_from_a_memory_is_found_until_it_goes_or_is_given_back(opened, records) -> None:
    """Of any kind, also of one that we do not know, and over a restart."""
    note = {"kind": "note", "owner": "c", "text": "x"}
    keys = [record_key("a", name) for name in ("one", "two", "three", "own")]
    records.put({keys[0]: {**note, "origins": ["a"]}, keys[1]: {**note, "origins": ["a", "b"]}})
    records.put({keys[2]: {"owner": "c", "kind": "dream", "origins": ["a", "b"]}, keys[3]: note})

    def found(*memories: str) -> set[str]:
        return set(opened.stores.records.taken_from(memories))

    assert (found("a"), found("b"), found("c")) == (set(keys[:3]), set(keys[1:3]), set())
    assert len(opened.stores.records.taken_from(["a", "b", "nobody"])) == 3
    opened.reopen()
    assert (found("a"), found("b")) == (set(keys[:3]), set(keys[1:3]))
    opened.stores.records.put({keys[1]: {**note, "origins": ["a"]}, keys[0]: {**note, "owner": "a"}})
    opened.stores.records.drop([keys[2], keys[3]])
    assert (found("a"), found("b")) == ({keys[1]}, set())


def test_the_fingerprint_is_kept_for_good(opened, records) -> None:
    assert records.fingerprint() is None
    fingerprint = opened.embedder.fingerprint

    records.set_fingerprint(fingerprint)
    opened.reopen()

    assert opened.stores.records.fingerprint() == Fingerprint(**asdict(fingerprint))
    assert owners(opened.stores.records) == {}


def test_b11_a_record_of_a_kind_that_we_do_not_know_is_kept_until_its_owner_is_erased(opened, records) -> None:
    opened.engine.upsert(
        RECORDS, [Point(point_id("x"), {"owner": "m", "text": "a"}), Point(point_id("y"), {"kind": "dream"})]
    )
    records.add_version(version("m", 1))

    assert [one.number for one in records.versions("m")] == [1]
    assert owners(records) == {"m": 1}
    records.erase(["m"])
    assert opened.engine.count(RECORDS) == 1


def test_what_belongs_to_a_scope_is_told_apart_from_what_belongs_to_its_memories(records) -> None:
    of_scopes = {}
    for scope in ("a", "a/b", "a/b/c", "a/bc", "ab"):
        owner = owner_of("facts", scope)
        of_scopes[scope] = record_key(owner, "k")
        records.put(
            {of_scopes[scope]: {"kind": "note", "owner": owner, "scope": scope, "text": "x", "sensitivity": "public"}}
        )
    records.put({record_key("m", "c"): {"kind": "note", "owner": "m", "scope": "a/b", "sensitivity": "public"}})
    records.add_version(version("m", 1))

    found = {key: payload for batch in records.within("a/b") for key, payload in batch.items()}

    assert found.keys() == {of_scopes["a/b"], of_scopes["a/b/c"]}
    assert {name for payload in found.values() for name in payload} == {"owner", "scope", "sensitivity"}
    assert {key for batch in records.within("*") for key in batch} == set(of_scopes.values())
    assert records.of("m").keys() == {record_key("m", "c"), record_key("m", "version:1")}
