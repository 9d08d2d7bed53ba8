"""What a night did to what can be found, told by real questions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.canary import BEYOND, DEPTH, TOP, Answer, Measure, ask, measure, survivor
from storage.canaries import Canary
from storage.engine import Sparse
from tests.harness import Daemon

IDS = tuple("abcdefghijkl")


def canary(*returned: str) -> Canary:
    return Canary(0.0, "default", "secret", np.ones(4, np.float32), Sparse((1,), (1.0,)), returned)


def answer(found: str, returned: str = "a") -> Answer:
    return Answer(canary(*returned), tuple(found))


def alive(memory: str) -> str | None:
    return memory


def test_a_night_that_changed_nothing_measures_one() -> None:
    before = [answer("abcde", "abc"), answer("bcdef", "b")]

    assert measure(before, before, alive) == Measure(2, 1.0, pytest.approx(1.5), pytest.approx(1.5))


def test_what_fell_out_of_the_first_five_lowers_the_overlap_and_the_rank() -> None:
    found = measure([answer("abcdefghij")], [answer("fbcdeaghij")], alive)

    assert found == Measure(1, pytest.approx(0.8), 6.0, 1.0)


def test_what_is_not_found_any_more_stands_behind_all_that_is() -> None:
    assert measure([answer("abcde")], [answer("bcdef")], alive) == Measure(1, pytest.approx(0.8), BEYOND, 1.0)


def test_a_merged_memory_counts_as_its_survivor_and_each_once() -> None:
    live = {**dict(zip(IDS, IDS, strict=True)), "b": "a"}.get
    found = measure([answer("abcde", "ab")], [answer("acdef", "ab")], live)

    assert found == Measure(1, 1.0, 1.0, 1.0)


def test_what_the_night_forgot_by_its_rules_is_left_out() -> None:
    live = {**dict(zip(IDS, IDS, strict=True)), "b": None}.get
    found = measure([answer("abcde", "ab")], [answer("acdef", "ab")], live)

    assert found == Measure(1, 1.0, 1.0, 1.0)
    assert measure([answer("b", "b")], [answer("", "b")], live) is None


def test_without_questions_there_is_nothing_to_say() -> None:
    assert measure([], [], alive) is None


some = st.lists(st.sampled_from(IDS), max_size=DEPTH, unique=True)
fates = st.fixed_dictionaries({one: st.sampled_from([one, "a", None]) for one in IDS})


@given(st.lists(st.tuples(some, some, some), max_size=6), fates)
@settings(deadline=None)
def test_every_measure_lies_within_its_bounds(questions, fate) -> None:
    before = [Answer(canary(*returned), tuple(found)) for found, _, returned in questions]
    after = [Answer(one.canary, tuple(found)) for one, (_, found, _) in zip(before, questions, strict=True)]
    found = measure(before, after, fate.get)

    if found is None:
        return
    assert 0.0 <= found.overlap <= 1.0
    assert 1.0 <= found.rank <= BEYOND
    assert 1.0 <= found.rank_before <= BEYOND
    assert 0 < found.questions <= len(questions)


@given(st.lists(some.filter(lambda found: len(found) > 0), min_size=1, max_size=6))
@settings(deadline=None)
def test_the_same_answers_twice_are_the_whole_overlap_whatever_their_order_within_the_five(answers) -> None:
    before = [Answer(canary(*found[:TOP]), tuple(found[:TOP])) for found in answers]
    after = [Answer(one.canary, tuple(reversed(one.found))) for one in before]
    found = measure(before, after, alive)

    assert found is not None
    assert found.overlap == 1.0
    assert found.rank == pytest.approx(found.rank_before)


def test_a_question_finds_what_it_found_and_teaches_nothing(daemon: Daemon) -> None:
    ids = [daemon.remember(f"the {animal} sleeps under the tree") for animal in ("fox", "owl", "hare")]
    other = daemon.remember("the fox hunts", scope="elsewhere")
    hits = daemon.call("recall", query="where does the fox sleep", scope="default")["hits"]
    daemon.run(daemon.app.background.fold())
    (kept,) = daemon.in_lane(daemon.stores.ledger.canaries.every)
    found = daemon.in_lane(ask, daemon.stores, kept, daemon.clock.now())

    assert kept.ids == tuple(hit["id"] for hit in hits if hit["score"] > hits[0]["score"] / 2)  # what answered
    assert set(found.found) == set(ids)
    assert other not in found.found
    assert len(daemon.parts.learn) == 0


def test_what_superseded_a_memory_stands_for_it_and_nothing_for_what_was_forgotten(daemon: Daemon) -> None:
    first, second, third, lost = (daemon.remember(f"note {n}") for n in range(4))
    daemon.call("forget", id=first, superseded_by=second)
    daemon.call("forget", id=second, superseded_by=third)
    daemon.call("forget", id=lost)
    stores = daemon.stores

    assert daemon.in_lane(survivor, stores, first) == third
    assert daemon.in_lane(survivor, stores, third) == third
    assert daemon.in_lane(survivor, stores, lost) is None
    assert daemon.in_lane(survivor, stores, "nobody") is None
