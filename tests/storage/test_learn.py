"""What recalls teach: noted in RAM, taken once."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.hebbian import fold
from storage import learn
from storage.learn import CO_ACTIVATED, Accesses, LearnBuffer, accessed
from storage.model import DAY, Memory

NOW = 1_767_225_600.0  # midnight UTC

recalls = st.lists(st.lists(st.sampled_from([f"m{n:02}" for n in range(14)]), max_size=14), max_size=6)


@given(recalls)
def test_each_recall_counts_every_hit_once_and_every_pair_of_its_top_ten_once(hits) -> None:
    buffer = LearnBuffer()
    for turn, one in enumerate(hits):
        buffer.note(one, NOW + turn)
    learned = buffer.take()

    distinct = [list(dict.fromkeys(one)) for one in hits]
    times = Counter(memory for one in distinct for memory in one)
    last = {memory: NOW + turn for turn, one in enumerate(distinct) for memory in one}
    pairs = Counter(tuple(sorted(pair)) for one in distinct for pair in combinations(one[:CO_ACTIVATED], 2))
    assert learned.accesses == {memory: Accesses(times[memory], last[memory]) for memory in times}
    assert learned.pairs == pairs


@given(recalls)
def test_what_was_taken_is_not_taken_again(hits) -> None:
    buffer = LearnBuffer()
    for one in hits:
        buffer.note(one, NOW)

    looked, taken, again = buffer.take(keep=True), buffer.take(), buffer.take()

    assert looked == taken
    assert again == ({}, {})
    assert len(buffer) == 0


def test_a5_one_search_wires_two_memories_by_one_step_though_both_legs_found_both(opened) -> None:
    """Found by vector and by keyword is found once: the edge is 0.2, not 0.8."""
    a, b = opened.add("the cat chased the mouse"), opened.add("a cat and a mouse met")
    hits = opened.found("cat mouse")
    buffer = LearnBuffer()
    buffer.note(hits + hits, opened.now)

    fold(opened.stores, buffer.take(), opened.now, None)

    edge = opened.stores.synapses.between(a, b)
    assert edge.weight == pytest.approx(0.2)
    assert {opened.row(memory).access_count for memory in (a, b)} == {1}


def test_a_buffer_that_nobody_takes_from_stops_growing() -> None:
    buffer = LearnBuffer()
    for turn in range(10_000):
        buffer.note([f"{turn}-{n}" for n in range(10)], NOW)

    assert learn.MOST <= len(buffer) < learn.MOST + 100


def test_notes_of_many_threads_are_all_counted() -> None:
    buffer = LearnBuffer()

    def teach() -> None:
        for _ in range(500):
            buffer.note(["a", "b"], NOW)

    threads = [threading.Thread(target=teach) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert buffer.take().pairs == {("a", "b"): 2_000}


@pytest.mark.parametrize(
    ("former", "at", "days"),
    [
        ({}, NOW, 1),
        ({"accessed_at": NOW + 1, "access_days": 1}, NOW + DAY - 1, 1),
        ({"accessed_at": NOW + 1, "access_days": 1}, NOW + DAY, 2),
        ({"accessed_at": NOW + 1, "access_days": 1}, NOW - 5, 1),
    ],
)
def test_accesses_count_and_so_do_their_days(former, at, days) -> None:
    row = Memory(id="m", access_count=3, **former)

    assert accessed(row, 2, at) == {
        "accessed_at": max(at, former.get("accessed_at", 0.0)), "access_count": 5, "access_days": days
    }  # fmt: skip
