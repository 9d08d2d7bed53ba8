"""What each field may hold, and where that goes for which we have no field."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.exchange.fields import CHECKS, REQUIRED, checked
from storage.exchange.forms import DERIVED, INSTANTS, MEMORY_FIELDS, of_edge, of_state, of_turn, of_version
from storage.exchange.items import KINDS, Item
from storage.exchange.telling import item_of
from storage.model import Synapse, Version
from storage.talk import State, Turn

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def fields_of(kind="memory", /, **fields):
    if kind == "memory":
        fields = {"content": "x", **fields}
    return checked(Item(kind, "line 1", fields))[0]


def fault(kind="memory", /, **fields):
    with pytest.raises(ValueError) as caught:
        fields_of(kind, **fields)
    return str(caught.value)


def test_every_field_that_is_told_is_checked():
    assert set(CHECKS) == set(REQUIRED) == set(INSTANTS) == set(KINDS)
    assert set(CHECKS["memory"]) == set(MEMORY_FIELDS) - DERIVED
    for kind, told in {
        "version": of_version(Version("m", 1, "x", "", "semantic", (), {}, "public", "", 0.0, 0.0)),
        "edge": of_edge(Synapse("a", "b", "next", 1.0, 0.0, 0.0)),
        "turn": of_turn(Turn(id="t", scope="a", session="s", role="user", at=0.0, content="x"), None),
        "session_state": of_state(State("a", 1, 0.0, "public", text="x")),
    }.items():
        item = item_of(told, "line 1")
        assert checked(item)[1] == []
        assert set(CHECKS[kind]) >= item.fields.keys()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("content", 5, "it is no text"),
        ("id", ["a"], "it is no text"),
        ("tags", "work", "it is no list of texts"),
        ("tags", [1], "it is no list of texts"),
        ("metadata", [], "it is no JSON object"),
        ("pinned", 1, "it is neither true nor false"),
        ("emotion", 1.01, "it is no number from 0 to 1"),
        ("importance", "high", "it is no number"),
        ("confidence", True, "it is no number"),
        ("importance", math.nan, "it is no number"),
        ("tier", "gold", "it is none of short, long, core"),
        ("sensitivity", "top", "it is none of public, personal, confidential, secret"),
        ("version", 0, "it is no whole number from 1 to 1000000000"),
        ("access_count", -1, "it is no whole number from 0 to 1000000000"),
        ("access_count", 2.0, "it is no whole number from 0 to 1000000000"),
        ("access_count", 10**9 + 1, "it is no whole number from 0 to 1000000000"),
        ("created_at", "soon", "it is no time between the years 1 and 9999"),
        ("created_at", 1e12, "it is no time between the years 1 and 9999"),
        ("created_at", math.inf, "it is no time between the years 1 and 9999"),
        ("redactions", ["jwt"], "it is no JSON object"),
        ("redactions", {"jwt": -1}, "it is no whole number from 0 to 1000000000"),
    ],
)
def test_a_value_that_does_not_fit_is_told_by_its_field_and_not_quoted(field, value, words):
    assert fault(**{field: value}) == f"{field}: {words}"


@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(sorted({n for c in CHECKS.values() for n in c})), json_values),
)
def test_whatever_an_item_holds_it_is_taken_or_refused_in_words(kind, fields):
    try:
        taken, rest = checked(Item(kind, "line 1", fields))
    except ValueError:
        return
    assert taken.keys() <= CHECKS[kind].keys()
    assert set(rest) <= fields.keys()


def test_what_must_be_there_is_told():
    with pytest.raises(ValueError, match="content is missing"):
        checked(Item("memory", "line 1", {}))
    with pytest.raises(ValueError, match="a and b and weight are missing"):
        checked(Item("edge", "line 1", {}))


def test_a_type_of_ones_own_is_the_subtype():
    assert fields_of(type="Recipe") == {"content": "x", "subtype": "Recipe"}
    assert fields_of(type=" Episodic ") == {"content": "x", "type": "episodic"}
    assert fields_of(type="  ") == {"content": "x"}
    assert fields_of(type="recipe", subtype="recipe") == {"content": "x", "subtype": "recipe"}
    kept = fields_of(type="recipe", subtype="cake", metadata={"type": "mine"})
    assert kept == {"content": "x", "subtype": "cake", "metadata": {"type": "mine", "type_2": "recipe"}}


def test_unknown_fields_go_into_the_metadata_and_overwrite_nothing():
    kept = fields_of(mood="sunny", score=2**70, metadata={"mood": "grey", "colour": None})

    assert kept["metadata"] == {"mood": "grey", "mood_2": "sunny", "score": str(2**70), "colour": None}


def test_null_is_as_good_as_nothing_but_for_the_value_of_a_fact():
    assert fields_of(sensitivity=None, metadata=None, mood=None) == {"content": "x"}
    assert fields_of("fact", key="k", value=None) == {"key": "k", "value": None}
    assert "content is missing" in fault(content=None)


def test_unknown_fields_of_what_has_no_metadata_are_named():
    fields, rest = checked(Item("edge", "line 1", {"a": "x", "b": "y", "weight": 1, "colour": "red", "age": 3}))

    assert fields == {"a": "x", "b": "y", "weight": 1.0}
    assert rest == ["age", "colour"]


def test_a_state_that_contradicts_the_times_is_refused():
    assert fault(state="forgotten") == "state: it says forgotten, and the times say live"
    assert fault(state="live", forgotten_at=1.0) == "state: it says live, and the times say forgotten"
    assert fault(state="some text", invalid_at=1.0) == "state: it says something else, and the times say superseded"
    assert fault(superseded_by="n") == "superseded_by: there is no invalid_at"
    assert "state" not in fields_of(state="superseded", invalid_at=1.0, superseded_by="n")


@pytest.mark.parametrize(
    ("weight", "words"), [(0, "an edge without weight"), (10.5, "from 0 to 10"), (-1, "from 0 to 10")]
)
def test_an_edge_weighs_more_than_nothing_and_ten_at_most(weight, words):
    assert words in fault("edge", a="x", b="y", weight=weight)
    assert fields_of("edge", a="x", b="y", weight=10)["weight"] == 10.0
