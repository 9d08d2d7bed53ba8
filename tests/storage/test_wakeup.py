"""Which memories an agent reads first, and what is left out where there is no room for all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.model import DAY, Memory
from storage.wakeup import KEPT_FIRST, STATE, Chosen, allot, beginning, choose, line

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def memory(name: str, *, days: float = 0.0, **fields: Any) -> Memory:
    return Memory(id=name, content=name, created_at=NOW - days * DAY, **fields)


def chosen(*memories: Memory, seed: int = 1) -> Chosen:
    return choose(memories, NOW, random.Random(seed))


def ids(rows: Sequence[Memory]) -> list[str]:
    return [row.id for row in rows]


rows = st.lists(
    st.builds(
        Memory,
        id=st.uuids().map(str),
        created_at=st.floats(NOW - 10 * DAY, NOW),
        pinned=st.booleans(),
        type=st.sampled_from(["semantic", "episodic", "active"]),
        emotion=st.floats(0, 1),
        importance=st.floats(0, 1),
    ),
    max_size=40,
    unique_by=lambda row: row.id,
)


@given(rows, st.integers())
def test_no_memory_is_in_two_sections_and_each_section_keeps_its_rule(found: list[Memory], seed: int) -> None:
    told = choose(found, NOW, random.Random(seed))
    pinned, active, recent, felt, old, timeline = told

    every = [row.id for section in told[:-1] for row in section]
    assert len(every) == len(set(every))
    assert set(ids(pinned)) == {row.id for row in found if row.pinned}
    assert set(ids(active)) == {row.id for row in found if row.type == "active" and not row.pinned}
    others = [row for row in found if not row.pinned and row.type != "active"]
    assert len(recent) == min(5, len(others))
    assert all(row.created_at <= recent[-1].created_at for row in others if row not in recent)
    assert len(felt) <= 5
    assert all(row.created_at >= NOW - 3 * DAY for row in felt)
    assert all(row.created_at < NOW - 3 * DAY for row in old)
    assert len(old) <= 2
    assert all(row.type == "episodic" for row in timeline)
    assert len(timeline) <= 20


@given(rows, st.integers())
def test_what_is_chosen_is_what_each_rule_says(found: list[Memory], seed: int) -> None:
    """The rules once more, each by sorting everything."""
    told = choose(found, NOW, random.Random(seed))

    others = [row for row in found if not row.pinned and row.type != "active"]
    recent = sorted(others, key=lambda row: (row.created_at, row.id), reverse=True)[:5]
    rest = [row for row in others if row not in recent]
    fresh = [row for row in rest if row.created_at >= NOW - 3 * DAY]
    episodes = [row for row in found if row.type == "episodic"]
    assert told.recent == recent
    assert told.high_emotion == sorted(fresh, key=lambda row: (row.emotion, row.created_at, row.id), reverse=True)[:5]
    assert len(told.random_old) == min(2, len(rest) - len(fresh))
    assert told.timeline == sorted(episodes, key=lambda row: (row.happened_at, row.id), reverse=True)[:20]


def test_recent_are_the_five_newest_that_are_not_pinned_newest_first() -> None:
    told = chosen(*[memory(f"m{days}", days=days) for days in range(8)], memory("pinned", pinned=True))

    assert ids(told.recent) == ["m0", "m1", "m2", "m3", "m4"]
    assert ids(told.pinned) == ["pinned"]


def test_the_strongly_felt_are_of_the_last_three_days_and_not_among_the_recent() -> None:
    fresh = [memory(f"fresh{number}", days=0.1 + number / 100) for number in range(5)]
    told = chosen(
        *fresh, memory("mild", days=1, emotion=0.6), memory("strong", days=2, emotion=0.9), memory("edge", days=3, emotion=0.7),
        memory("past", days=3.01, emotion=1.0),
    )  # fmt: skip

    assert ids(told.high_emotion) == ["strong", "edge", "mild"]
    assert ids(told.random_old) == ["past"]


def test_the_old_are_drawn_by_lot_and_the_same_dice_draw_the_same() -> None:
    memories = [memory(f"old{number:02}", days=10 + number) for number in range(30)]

    draws = {tuple(ids(chosen(*memories, seed=seed).random_old)) for seed in range(20)}

    assert len(draws) > 10
    assert all(len(set(draw)) == 2 for draw in draws)
    assert {name for draw in draws for name in draw}.isdisjoint(ids(chosen(*memories).recent))
    assert ids(chosen(*memories, seed=3).random_old) == ids(chosen(*memories, seed=3).random_old)


def test_pinned_stand_by_importance_then_by_age() -> None:
    told = chosen(
        memory("new", pinned=True), memory("old", days=9, pinned=True), memory("first", pinned=True, importance=0.9)
    )

    assert ids(told.pinned) == ["first", "old", "new"]


def test_live_context_is_a_section_of_its_own() -> None:
    told = chosen(
        memory("a", type="active", days=5), memory("b", type="active"), memory("c", type="active", pinned=True)
    )

    assert ids(told.active) == ["b", "a"]
    assert ids(told.pinned) == ["c"]
    assert told.recent == told.random_old == []


def test_the_timeline_has_the_last_twenty_episodes_newest_first() -> None:
    episodes = [memory(f"e{number:02}", days=number, type="episodic") for number in range(25)]

    assert ids(chosen(*episodes, memory("fact", days=0.5)).timeline) == [f"e{number:02}" for number in range(20)]


def test_c17_an_episode_stands_at_the_time_it_happened_and_a_session_at_that_of_its_end() -> None:
    walk = memory("walk", type="episodic", event_at=NOW - 8 * DAY)
    talk = memory("talk", days=1, type="episodic", subtype="conversation", session="s", event_at=NOW - 9 * DAY)

    assert ids(chosen(walk, talk).timeline) == ["talk", "walk"]
    assert line(walk) == "2025-12-24T00:00:00Z walk"
    assert line(talk) == "2025-12-31T00:00:00Z session s ended after 0 turns: talk"


def test_a_line_is_the_beginning_of_the_first_line_that_says_something() -> None:
    assert beginning("\n  \n  tea at noon  \nand more") == "tea at noon"
    assert beginning("x" * 80) == "x" * 80
    assert beginning("x" * 81) == "x" * 80 + "…"
    assert beginning("") == ""


@pytest.mark.parametrize(("turns", "words"), [(1, "1 turn:"), (12, "12 turns:")])
def test_the_end_of_a_session_says_how_long_it_was(turns: int, words: str) -> None:
    end = memory("m", subtype="conversation", session="s", source_turns=tuple(map(str, range(turns))))

    assert f"session s ended after {words}" in line(end)


# -- the budget

costs = st.lists(st.tuples(st.sampled_from(KEPT_FIRST), st.integers(1, 400)), max_size=30).map(
    lambda offered: sorted(offered, key=lambda one: KEPT_FIRST.index(one[0]))
)


@given(costs, st.integers(1, 3000))
def test_what_is_allotted_never_exceeds_the_budget(offered, budget: int) -> None:
    rooms = allot(offered, budget)

    assert sum(room or 0 for room in rooms) <= budget
    assert all(room is None or 0 < room <= tokens for room, (_, tokens) in zip(rooms, offered, strict=True))
    if sum(tokens for _, tokens in offered) <= budget:
        assert rooms == [tokens for _, tokens in offered]


@given(costs, st.integers(1, 3000))
def test_nothing_is_kept_while_something_that_goes_later_is_left_out(offered, budget: int) -> None:
    rooms = allot(offered, budget)

    kept = [room is not None for room in rooms]
    assert kept == sorted(kept, reverse=True)


def test_sections_go_in_their_order_and_pinned_last() -> None:
    offered = [(section, 10) for section in KEPT_FIRST]

    gone = [
        [section for (section, _), room in zip(offered, allot(offered, budget), strict=True) if room is None]
        for budget in range(80, 0, -10)
    ]
    order = ["random_old", "recent", "last_session", "timeline", "high_emotion", "unread_comments", STATE, "active"]
    assert [set(names) for names in gone] == [set(order[: count + 1]) for count in range(8)]


def test_the_state_is_cut_to_what_there_is() -> None:
    assert allot([("pinned", 30), (STATE, 50), ("recent", 5)], 60) == [30, 30, None]


def test_one_long_text_does_not_push_out_all_others() -> None:
    offered = [("pinned", 20), ("recent", 100_000), ("recent", 30), ("random_old", 30)]

    assert allot(offered, 3000) == [20, 750, 30, 30]
    assert allot(offered, 100) == [20, 25, 30, None]


def test_a_text_that_is_not_long_is_never_cut() -> None:
    assert allot([("pinned", 250), ("pinned", 250), ("recent", 10)], 400) == [250, None, None]
