"""The one filter: what it admits, and what of it the engine can check by itself."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.engine import Condition
from storage.errors import Invalid
from storage.model import HEATS, SENSITIVITIES, SOURCES, TIERS, TYPES, Memory, prefixes
from storage.where import Where, check_metadata_filter

NOW = 1_767_225_600.0

NAMES = ("Ann", "bob")
TAGS = ("x", "y", "z")
words = st.lists(st.sampled_from(TAGS), max_size=3, unique=True).map(tuple)
instants = st.sampled_from([NOW - 10, NOW, NOW + 10])
maybe_instants = st.none() | instants
shares = st.sampled_from([0.0, 0.4, 1.0])
scalars = st.sampled_from([None, True, 1, 0, 1.5, "a", "b"])
operators = st.fixed_dictionaries(
    {},
    optional={
        "ne": scalars, "gt": scalars, "gte": scalars, "lt": scalars, "lte": scalars,
        "in": st.lists(scalars, max_size=2), "exists": st.booleans(),
    },
).filter(bool)  # fmt: skip

memories = st.builds(
    Memory,
    id=st.just("m"), scope=st.sampled_from(["a", "a/b", "ab"]), tags=words, type=st.sampled_from(TYPES),
    subtype=st.sampled_from(["", "note"]), author=st.sampled_from(["", *NAMES]),
    entities=st.lists(st.sampled_from(NAMES), max_size=2).map(tuple), tier=st.sampled_from(TIERS),
    heat=st.sampled_from(HEATS), source=st.sampled_from(SOURCES), sensitivity=st.sampled_from(SENSITIVITIES),
    pinned=st.booleans(), confidence=shares, created_at=instants, event_at=maybe_instants, expires_at=maybe_instants,
    invalid_at=maybe_instants, forgotten_at=maybe_instants, metadata=st.dictionaries(st.sampled_from("kl"), scalars),
)  # fmt: skip


def some_of(options: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(options), max_size=2, unique=True).map(tuple)


wheres = st.builds(
    Where,
    now=st.just(NOW), scope=st.sampled_from(["*", "a", "a/b", "b"]), clearance=st.sampled_from(SENSITIVITIES),
    state=st.sampled_from(["live", "superseded", "forgotten"]), tags=words, tags_any=words, type=some_of(TYPES),
    subtype=some_of(("", "note")), author=some_of(NAMES), entity=st.sampled_from(["", "ANN", "Bob"]), tier=some_of(TIERS),
    heat=some_of(HEATS), source=some_of(SOURCES), sensitivity=some_of(SENSITIVITIES), pinned=st.none() | st.booleans(),
    min_confidence=st.none() | shares, since=maybe_instants, until=maybe_instants,
    metadata=st.dictionaries(st.sampled_from("kl"), scalars | operators, max_size=2),
)  # fmt: skip


@given(memories, wheres)
def test_a_conjunction_admits_what_each_of_its_parts_admits(memory, where) -> None:
    nothing_asked = Where(now=NOW, state=where.state)
    parts = [replace(nothing_asked, **{one.name: getattr(where, one.name)}) for one in fields(Where)]

    assert where.admits(memory) == all(part.admits(memory) for part in parts)


def meets(condition: Condition, memory: Memory) -> bool:
    """What the engine does with a condition."""
    tags = set(memory.tags)
    return (
        (condition.scope is None or condition.scope in prefixes(memory.scope))
        and set(condition.tags) <= tags
        and (not condition.tags_any or bool(set(condition.tags_any) & tags))
        and (condition.sensitivities is None or memory.sensitivity in condition.sensitivities)
    )


@given(memories, wheres)
def test_the_engines_part_of_a_filter_never_loses_what_is_admitted(memory, where) -> None:
    if where.admits(memory):
        assert meets(where.condition(), memory)


@given(memories, wheres)
def test_an_indexed_filter_is_all_in_the_engines_part_but_state_and_expiry(memory, where) -> None:
    where = replace(where, state="live")
    lasting = replace(memory, expires_at=None, invalid_at=None, forgotten_at=None)

    if where.indexed:
        assert where.admits(lasting) == meets(where.condition(), lasting)


ONE = Memory(
    id="m", scope="alice/coder", tags=("work", "käse"), type="semantic", subtype="note", author="Ann",
    entities=("Bob",), tier="long", heat="hot", source="inferred", sensitivity="personal", pinned=True, confidence=0.6,
    created_at=NOW - 100, event_at=NOW - 1000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "admitted"),
    [
        ({}, True),
        ({"scope": "alice"}, True),
        ({"scope": "alice/coder"}, True),
        ({"scope": "alice/coder/session-7"}, False),
        ({"scope": "ali"}, False),
        ({"scope": "default"}, False),
        ({"clearance": "personal"}, True),
        ({"clearance": "public"}, False),
        ({"state": "forgotten"}, False),
        ({"tags": ("work", "käse")}, True),
        ({"tags": ("work", "home")}, False),
        ({"tags_any": ("home", "work")}, True),
        ({"tags_any": ("home",)}, False),
        ({"type": ("episodic", "semantic")}, True),
        ({"subtype": ("fact",)}, False),
        ({"author": ("Bob",)}, False),
        ({"entity": "bob"}, True),
        ({"entity": "ann"}, True),
        ({"entity": "an"}, False),
        ({"tier": ("core",)}, False),
        ({"heat": ("hot", "warm")}, True),
        ({"source": ("stated",)}, False),
        ({"sensitivity": ("public",)}, False),
        ({"pinned": True}, True),
        ({"pinned": False}, False),
        ({"min_confidence": 0.6}, True),
        ({"min_confidence": 0.61}, False),
        ({"since": NOW - 1000}, True),
        ({"since": NOW - 999}, False),
        ({"until": NOW - 1000}, True),
        ({"until": NOW - 1001}, False),
    ],
)
def test_each_part_of_the_filter_tests_its_field(asked, admitted) -> None:
    assert Where(now=NOW, **asked).admits(ONE) == admitted


def test_a_memory_without_an_event_is_dated_by_its_creation() -> None:
    undated = replace(ONE, event_at=None)

    assert Where(now=NOW, since=NOW - 100, until=NOW - 100).admits(undated)


def test_a_memory_past_its_end_is_admitted_to_no_live_read_and_pinning_does_not_save_it() -> None:
    ended = replace(ONE, expires_at=NOW, pinned=True, tier="core")

    assert not Where(now=NOW).admits(ended)
    assert Where(now=NOW - 0.001).admits(ended)
    assert Where(now=NOW, state="forgotten").admits(replace(ended, forgotten_at=NOW))


@pytest.mark.parametrize(
    ("metadata", "wanted", "holds"),
    [
        ({"k": 1}, 1, True),
        ({"k": 1}, 1.0, True),
        ({"k": True}, 1, False),
        ({"k": 1}, True, False),
        ({"k": None}, None, True),
        ({}, None, False),
        ({"k": "1"}, 1, False),
        ({"k": [1, 2]}, [1, 2], True),
        ({"k": "b"}, {"gt": "a", "lt": "c"}, True),
        ({"k": "b"}, {"gt": 1}, False),
        ({"k": 2}, {"gt": 1, "lte": 2}, True),
        ({"k": 2}, {"gte": 2.5}, False),
        ({"k": 2}, {"lt": 2}, False),
        ({"k": True}, {"gte": 1}, False),
        ({"k": None}, {"lte": 1}, False),
        ({}, {"lt": 1}, False),
        ({"k": 1}, {"ne": 1}, False),
        ({"k": True}, {"ne": 1}, True),
        ({}, {"ne": 1}, True),
        ({"k": "a"}, {"in": ["a", "b"]}, True),
        ({"k": True}, {"in": [1]}, False),
        ({"k": "a"}, {"in": []}, False),
        ({}, {"in": [None]}, False),
        ({"k": None}, {"exists": True}, True),
        ({}, {"exists": True}, False),
        ({}, {"exists": False}, True),
    ],
)
def test_metadata_is_compared_as_the_json_it_is(metadata, wanted, holds) -> None:
    check_metadata_filter({"k": wanted})

    assert Where(now=NOW, metadata={"k": wanted}).admits(Memory(id="m", metadata=metadata)) == holds


@pytest.mark.parametrize(
    "wanted", [{}, {"near": 1}, {"in": "ab"}, {"exists": "false"}, {"exists": 1}, {"gt": 1, "and": 2}]
)
def test_a_metadata_filter_which_would_restrict_nothing_or_not_as_meant_is_refused(wanted: Any) -> None:
    with pytest.raises(Invalid) as refused:
        check_metadata_filter({"fine": 1, "k": wanted})

    assert refused.value.extra["field"] == "where.k"
    assert refused.value.hint


def test_true_is_not_one_at_any_depth_of_a_metadata_filter() -> None:
    memory = Memory(id="m", metadata={"list": [True], "object": {"a": [1]}})

    assert not Where(now=0.0, metadata={"list": [1]}).admits(memory)
    assert Where(now=0.0, metadata={"list": [True]}).admits(memory)
    assert not Where(now=0.0, metadata={"object": {"in": [{"a": [True]}]}}).admits(memory)
    assert Where(now=0.0, metadata={"object": {"in": [{"a": [1]}]}}).admits(memory)
