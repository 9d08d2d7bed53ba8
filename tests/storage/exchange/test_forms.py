"""How our own formats tell what is stored, and the way back from it."""

from __future__ import annotations

import math
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.engine import Point
from storage.exchange.forms import DERIVED, MEMORY_FIELDS, as_read, of_memory, to_json, told_instant, told_number
from storage.exchange.items import Item
from storage.exchange.telling import item_of
from storage.instants import EARLIEST, LATEST, parse_instant
from storage.model import FIELDS, Memory
from storage.records import RECORDS

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
def test_a_number_that_is_told_stays_as_it_is_told(value: float) -> None:
    told = told_number(value)

    assert told_number(told) == told
    assert math.isclose(told, value, rel_tol=1e-14, abs_tol=0.0) or value == told


@given(st.decimals(-(10**6), 10**6, places=6))
def test_a_number_of_few_digits_is_told_as_it_is(value) -> None:
    assert told_number(float(value)) == float(value)


def test_numbers_come_back_from_the_engine_as_they_are_told(opened) -> None:
    """The engine alters the last digit of one float in ten, and `as_read` knows which."""
    dice = opened.clock.rng(3)
    values = [dice.random() * 10.0 ** dice.randint(-12, 12) for _ in range(2_000)]
    point = str(uuid.UUID(int=7))

    def stored(numbers: list[float]) -> list[float]:
        opened.engine.upsert(RECORDS, [Point(point, {"kind": "x", "owner": "x", "numbers": numbers})])
        return list(opened.engine.retrieve(RECORDS, [point])[point].payload["numbers"])

    assert stored(values) == [as_read(value) for value in values]
    assert stored(values) != values
    assert stored(told_number(values)) == told_number(values)


def test_numbers_in_lists_and_objects_are_told_likewise_and_whole_ones_left_alone() -> None:
    altered = 0.38120423768821243
    assert as_read(altered) != altered

    told = told_number({"a": [altered, 2**53 + 1, True, None, "0.1"], "b": (1.5,)})

    assert told == {"a": [told_number(altered), 2**53 + 1, True, None, "0.1"], "b": [1.5]}
    assert isinstance(told["a"][2], bool)


@given(st.floats(EARLIEST, LATEST))
def test_an_instant_that_is_told_is_told_the_same_again(seconds: float) -> None:
    told = told_instant(seconds)

    assert told is not None
    assert told_instant(as_read(parse_instant(told))) == told


@pytest.mark.parametrize("seconds", [0.0, 1_767_225_600.123456, -62_135_596_800.0, 253_402_300_799.0])
def test_an_instant_is_told_exactly(seconds: float) -> None:
    assert parse_instant(told_instant(seconds)) == seconds


def test_every_field_of_a_memory_is_told_but_for_those_that_only_the_store_needs() -> None:
    assert set(FIELDS) - set(MEMORY_FIELDS) == {"seq", "asks"}
    assert set(MEMORY_FIELDS) - set(FIELDS) == {"state"}


def test_a_memory_comes_back_with_all_its_fields() -> None:
    memory = Memory(
        id="m", content="a\r\nb", context="c", author="Ada", scope="x/y", session="s", type="episodic", subtype="t",
        tags=("a", "b"), entities=("Bob",), metadata={"n": None, "f": 0.1}, tier="long", heat="cold", pinned=True, emotion=0.7,
        importance=0.25, confidence=0.5, source="learned", provenance="sync", sensitivity="secret", source_turns=("t1",),
        redactions={"jwt": 1}, version=3, change_summary="tags changed", created_at=1.5, updated_at=2.0, event_at=3.0,
        accessed_at=4.0, access_count=5, access_days=2, cooled_at_count=1, expires_at=6.0, invalid_at=7.0, superseded_by="n",
        forgotten_at=8.0, forgotten_reason="request", content_hash="h",
    )  # fmt: skip

    item = item_of(of_memory(memory, "n"), "line 1")

    assert isinstance(item, Item)
    assert (item.kind, item.place) == ("memory", "line 1")
    for name in set(MEMORY_FIELDS) - DERIVED:
        kept = item.fields[name]
        assert (tuple(kept) if isinstance(kept, list) else kept) == getattr(memory, name), name


def test_json_is_on_one_line_and_in_every_script() -> None:
    assert to_json({"text": "a\n\u2028é", "none": None}) == '{"text":"a\\n\u2028é","none":null}'
