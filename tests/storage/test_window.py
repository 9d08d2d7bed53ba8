"""Which turns fit a budget, in which order they leave, and what the rest scores."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.window import Piece, best, exponential, linear, window

ROLES = ("user", "assistant", "system", "tool")
pieces = st.lists(
    st.builds(Piece, st.sampled_from(ROLES), st.integers(1, 60), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=12
)
budgets = st.integers(0, 250)
evictions = st.sampled_from(["fifo", "importance", "paired"])


def said(*sizes: int, roles: str = "", importance: tuple[float, ...] = ()) -> list[Piece]:
    """Turns of these sizes; `roles` by their first letters, u where there are none."""
    names = {role[0]: role for role in ROLES}
    spoken = [names[letter] for letter in roles or "u" * len(sizes)]
    return [
        Piece(role, size, weight)
        for role, size, weight in zip(spoken, sizes, importance or (0.5,) * len(sizes), strict=True)
    ]


@pytest.mark.parametrize(
    ("place", "least", "score"),
    [(0, 0.5, 0.5), (1, 0.5, 0.625), (2, 0.5, 0.75), (4, 0.5, 1.0), (0, 0.0, 0.0), (3, 0.2, 0.8)],
)
def test_linear_scores_rise_evenly_from_the_least_to_one(place: int, least: float, score: float) -> None:
    assert linear(place, 5, least) == pytest.approx(score)


@pytest.mark.parametrize(
    ("place", "rate", "score"),
    [
        (0, 2.0, 0.0), (1, 2.0, 0.1015362), (2, 2.0, 0.2689414), (3, 2.0, 0.5449466), (4, 2.0, 1.0), (2, 1e-9, 0.5),
        (2, 9.0, 0.0109869),
    ],
)  # fmt: skip
def test_exponential_scores_are_those_of_the_formula(place: int, rate: float, score: float) -> None:
    assert exponential(place, 5, rate) == pytest.approx(score, abs=1e-6)
    assert (math.exp(rate * place / 4) - 1) / (math.exp(rate) - 1) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("rate", [1e-300, 1e-9, 800.0, 1e308])
def test_no_rate_is_too_small_or_too_large(rate: float) -> None:
    scores = [exponential(place, 4, rate) for place in range(4)]

    assert scores == sorted(scores)
    assert scores[0] == 0.0
    assert scores[-1] == 1.0


def test_a_lone_turn_scores_one() -> None:
    assert linear(0, 1, 0.5) == 1.0
    assert exponential(0, 1, 2.0) == 1.0


@given(st.integers(2, 50), st.floats(0, 0.999), st.floats(0.01, 50))
def test_scores_rise_with_time_and_end_at_one(count: int, least: float, rate: float) -> None:
    for scores, lowest in (
        ([linear(place, count, least) for place in range(count)], least),
        ([exponential(place, count, rate) for place in range(count)], 0.0),
    ):
        assert scores == sorted(scores)
        assert scores[0] == pytest.approx(lowest)
        assert scores[-1] == pytest.approx(1.0)


@given(pieces, budgets, evictions)
def test_what_stays_fits_the_budget_and_stays_in_order(turns: list[Piece], budget: int, eviction) -> None:
    kept = window(turns, budget, eviction)

    assert list(kept) == sorted(kept)
    assert sum(kept.values()) <= budget
    assert all(0 < room <= turns[place].tokens for place, room in kept.items())


@given(pieces, budgets, evictions)
def test_nothing_leaves_that_there_is_room_for(turns: list[Piece], budget: int, eviction) -> None:
    kept = window(turns, budget, eviction)

    if sum(turn.tokens for turn in turns) <= budget:
        assert kept == {place: turn.tokens for place, turn in enumerate(turns)}
    elif turns and budget > 1:
        assert kept


@given(pieces, budgets)
def test_fifo_keeps_the_last_turns_and_as_many_as_fit(turns: list[Piece], budget: int) -> None:
    kept = list(window(turns, budget, "fifo"))

    assert kept == list(range(len(turns) - len(kept), len(turns)))
    if kept and len(kept) < len(turns):
        assert sum(turn.tokens for turn in turns[kept[0] - 1 :]) > budget


@given(pieces, budgets)
def test_by_importance_nothing_leaves_before_what_matters_less(turns: list[Piece], budget: int) -> None:
    kept = window(turns, budget, "importance")

    gone = [(turns[place].importance, place) for place in range(len(turns)) if place not in kept]
    stay = [(turns[place].importance, place) for place in kept]
    assert not gone or not stay or max(gone) < min(stay)


@given(pieces, budgets)
def test_a_question_and_its_answer_stay_together_or_leave_together(turns: list[Piece], budget: int) -> None:
    kept = window(turns, budget, "paired")

    for place in range(1, len(turns)):
        if (turns[place - 1].role, turns[place].role) == ("user", "assistant"):
            assert (place - 1 in kept) == (place in kept)


def test_fifo_drops_the_oldest_first() -> None:
    assert window(said(10, 10, 10), 20, "fifo") == {1: 10, 2: 10}
    assert window(said(10, 10, 10), 29, "fifo") == {1: 10, 2: 10}
    assert window(said(10, 10, 10), 30, "fifo") == {0: 10, 1: 10, 2: 10}


def test_of_equally_important_turns_the_oldest_leaves_first() -> None:
    turns = said(10, 10, 10, 10, importance=(0.9, 0.1, 0.5, 0.1))

    assert list(window(turns, 30, "importance")) == [0, 2, 3]
    assert list(window(turns, 20, "importance")) == [0, 2]
    assert list(window(turns, 10, "importance")) == [0]


def test_pairs_leave_the_oldest_first_and_what_has_no_partner_leaves_alone() -> None:
    turns = said(10, 10, 10, 10, 10, 10, roles="uasuau")

    assert list(window(turns, 50, "paired")) == [2, 3, 4, 5]
    assert list(window(turns, 30, "paired")) == [3, 4, 5]
    assert list(window(turns, 20, "paired")) == [5]


def test_an_answer_after_an_answer_is_no_part_of_the_pair() -> None:
    assert list(window(said(10, 10, 10, roles="uaa"), 20, "paired")) == [2]


@pytest.mark.parametrize("eviction", ["fifo", "importance", "paired"])
def test_a_lone_turn_over_the_budget_is_cut(eviction) -> None:
    assert window(said(100), 30, eviction) == {0: 30}


def test_the_last_turn_is_cut_when_it_is_too_long_alone() -> None:
    assert window(said(10, 10, 100), 30, "fifo") == {2: 30}


def test_a_long_turn_among_others_leaves_as_any_other() -> None:
    assert window(said(10, 100, 10), 30, "fifo") == {2: 10}


@pytest.mark.parametrize(
    ("question", "answer", "shares"),
    [(10, 100, (10, 20)), (100, 10, (20, 10)), (100, 100, (15, 15)), (15, 100, (15, 15))],
)
def test_a_pair_that_is_too_long_shares_the_budget(question: int, answer: int, shares: tuple[int, int]) -> None:
    assert window(said(5, question, answer, roles="sua"), 30, "paired") == dict(zip((1, 2), shares, strict=True))


def test_where_there_is_no_room_nothing_stays() -> None:
    assert window(said(10), 0, "fifo") == {}
    assert window(said(10, 10, roles="ua"), 1, "paired") == {}
    assert window([], 10, "fifo") == {}


@given(st.lists(st.integers(0, 60)), budgets)
def test_of_the_facts_the_best_stay_that_fit(costs: list[int], budget: int) -> None:
    kept = best(costs, budget)

    assert kept == sorted(kept)
    assert sum(costs[place] for place in kept) <= budget
    fitting = [place for place, tokens in enumerate(costs) if tokens <= budget]
    assert kept == fitting[: len(kept)]
    if len(kept) < len(fitting):
        assert sum(costs[place] for place in fitting[: len(kept) + 1]) > budget


def test_a_fact_that_no_budget_holds_does_not_push_out_the_others() -> None:
    assert best([1000, 10, 10], 25) == [1, 2]
