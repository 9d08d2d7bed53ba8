"""Which names a scope holds, how often, and with which others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.methods.entities import MOST, MOST_RELATED, counted
from tests.daemon.methods.asking import refused
from tests.harness import Daemon


def told(daemon: Daemon, **params: Any) -> dict[str, int]:
    """The names with their counts, in the order of the answer."""
    return {one["name"]: one["count"] for one in daemon.call("entities", **params)["entities"]}


def related(daemon: Daemon, name: str, **params: Any) -> dict[str, int]:
    """What is told to be related to a name."""
    (one,) = [one for one in daemon.call("entities", **params)["entities"] if one["name"] == name]
    return {other["name"]: other["count"] for other in one["related"]}


def test_names_are_counted_once_a_memory_commonest_first_and_then_by_name(daemon: Daemon) -> None:
    daemon.remember("with Bob and Ann Lee, and Bob again, in “Moby Dick”")
    daemon.remember("with @eve and Bob")
    daemon.remember("with nobody")

    assert daemon.call("entities") == {
        "entities": [
            {
                "name": "Bob", "count": 2,
                "related": [{"name": "@eve", "count": 1}, {"name": "Ann Lee", "count": 1}, {"name": "Moby Dick", "count": 1}],
            },
            {"name": "@eve", "count": 1, "related": [{"name": "Bob", "count": 1}]},
            {"name": "Ann Lee", "count": 1, "related": [{"name": "Bob", "count": 1}, {"name": "Moby Dick", "count": 1}]},
            {"name": "Moby Dick", "count": 1, "related": [{"name": "Ann Lee", "count": 1}, {"name": "Bob", "count": 1}]},
        ]
    }  # fmt: skip


def test_an_empty_scope_has_no_names(shared: Daemon) -> None:
    assert shared.call("entities", scope="nowhere") == {"entities": []}


def test_an_author_is_a_name_of_what_they_said_and_a_role_is_none(daemon: Daemon) -> None:
    daemon.remember("with Bob", author="Ann")
    daemon.remember("with Bob too", author="user")
    daemon.remember("it is late", author="Ann")

    assert told(daemon) == {"Ann": 2, "Bob": 2}
    assert related(daemon, "Ann") == {"Bob": 1}


def test_spellings_that_differ_by_case_are_one_name_told_as_it_is_mostly_spelt(daemon: Daemon) -> None:
    for content in ("with Weiß and BOB", "with WEISS and Bob", "with Weiß and Bob"):
        daemon.remember(content)
    daemon.remember("it is late", author="bob")

    assert told(daemon) == {"Bob": 4, "Weiß": 3}
    assert related(daemon, "Bob") == {"Weiß": 3}


def test_counts_fall_when_a_memory_is_edited_superseded_or_forgotten_and_rise_again(daemon: Daemon) -> None:
    daemon.remember("with Ann and Bob", id="one")
    daemon.remember("with Ann and Eve", id="two")
    daemon.remember("now with Ann", id="three")
    assert told(daemon) == {"Ann": 3, "Bob": 1, "Eve": 1}

    daemon.call("update", id="one", content="with Ann and Mallory")
    assert told(daemon) == {"Ann": 3, "Eve": 1, "Mallory": 1}
    daemon.call("forget", id="two", superseded_by="three")
    assert told(daemon) == {"Ann": 2, "Mallory": 1}
    daemon.call("forget", id="one")
    assert told(daemon) == {"Ann": 1}
    assert related(daemon, "Ann") == {}

    daemon.call("restore", id="one")
    assert told(daemon) == {"Ann": 2, "Mallory": 1}
    daemon.restart()
    assert related(daemon, "Ann") == {"Mallory": 1}


def test_an_ended_memory_names_nobody(daemon: Daemon) -> None:
    daemon.remember("with Ann", expires_at="2026-01-02")
    assert told(daemon) == {"Ann": 1}

    daemon.clock.advance(86_400.0)

    assert told(daemon) == {}


def test_only_the_scope_and_what_lies_below_it_is_read(daemon: Daemon) -> None:
    daemon.remember("with Ann and Bob", scope="team/a")
    daemon.remember("with Ann and Eve", scope="team/b")
    daemon.remember("with Ann and Mallory", scope="elsewhere")

    assert told(daemon, scope="team") == {"Ann": 2, "Bob": 1, "Eve": 1}
    assert told(daemon, scope="team/a") == {"Ann": 1, "Bob": 1}
    assert related(daemon, "Ann", scope="*") == {"Bob": 1, "Eve": 1, "Mallory": 1}
    assert told(daemon) == {}


def test_what_the_clearance_does_not_cover_is_neither_counted_nor_related_nor_spelt(daemon: Daemon) -> None:
    daemon.remember("with Ann and Bob", sensitivity="public")
    daemon.remember("with ANN and Eve", sensitivity="secret", author="Mallory")
    daemon.remember("with ANN alone", sensitivity="confidential")

    assert told(daemon, clearance="public") == {"Ann": 1, "Bob": 1}
    assert related(daemon, "Ann", clearance="public") == {"Bob": 1}
    assert told(daemon) == {"ANN": 3, "Bob": 1, "Eve": 1, "Mallory": 1}


def test_no_more_than_the_commonest_are_told(daemon: Daemon) -> None:
    names = [f"Name{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(MOST + 40)]
    pages = [names[start : start + 20] for start in range(0, len(names), 20)]
    daemon.call("remember_many", items=[{"content": "with " + ", ".join(page)} for page in pages])
    daemon.remember(f"with {names[-1]} and {names[-2]}")

    answer = daemon.call("entities")["entities"]

    assert [one["name"] for one in answer] == [names[-2], names[-1], *names[: MOST - 2]]
    assert [other["name"] for other in answer[1]["related"]] == [names[-2], *names[-20 : -20 + MOST_RELATED - 1]]
    assert {len(one["related"]) for one in answer} == {MOST_RELATED}


@pytest.mark.parametrize("entity", ["ann lee", "Ann Lee", "@EVE", "moby dick"])
def test_what_is_told_is_a_filter_of_recall_and_list(daemon: Daemon, entity: str) -> None:
    daemon.remember("tea with Ann Lee, @eve and “Moby Dick”", id="named")
    daemon.remember("tea with Ann", id="other")

    assert [hit["id"] for hit in daemon.call("recall", query="tea", entity=entity)["hits"]] == ["named"]
    assert [memory["id"] for memory in daemon.call("list", entity=entity)["memories"]] == ["named"]


def test_c9_only_what_the_gate_let_through_is_named(daemon: Daemon) -> None:
    daemon.remember("the key AKIAIOSFODNN7EXAMPLE is Ann's")

    assert told(daemon) == {"Ann": 1}


def test_the_answer_says_of_every_memory_what_its_entities_say(daemon: Daemon) -> None:
    for content in ("with Ann and Bob", "with Bob in Rome", "it rains"):
        daemon.remember(content)

    listed = daemon.call("list")["memories"]

    assert sorted(name for memory in listed for name in memory["entities"]) == ["Ann", "Bob", "Bob", "Rome"]
    assert told(daemon) == {"Bob": 2, "Ann": 1, "Rome": 1}


@given(
    st.lists(st.lists(st.sampled_from(["Ann", "ann", "Bob", "Weiß", "WEISS", "李雷", "", " "]), max_size=5).map(tuple))
)
def test_every_count_is_that_of_a_look_at_each_memory(memories) -> None:
    sets = [{name.casefold() for name in names if name.strip()} for names in memories]
    answer = counted(memories)["entities"]

    assert {one["name"].casefold(): one["count"] for one in answer} == {
        name: sum(name in one for one in sets) for name in set().union(*sets)
    }
    assert all(any(one["name"] in names for names in memories) for one in answer)
    for one in answer:
        key = one["name"].casefold()
        assert {other["name"].casefold(): other["count"] for other in one["related"]} == {
            name: together
            for name in set().union(*sets) - {key}
            if (together := sum({key, name} <= one for one in sets))
        }
    for counts in (answer, *(one["related"] for one in answer)):
        order = [(-one["count"], one["name"]) for one in counts]
        assert order == sorted(order)


def test_a_scope_that_is_none_is_invalid(shared: Daemon) -> None:
    assert refused(shared, "invalid", "entities", scope="a//b").extra["field"] == "scope"
    assert refused(shared, "invalid", "entities", limit=5).extra["field"] == "limit"
