"""Pairs that wait for somebody's judgement: nearest first, once each, gone with either of their memories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.ledger import Ledger
from storage.proposals import Proposal


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "state.db")
    yield ledger
    ledger.close()


def pair(a: str, b: str, cosine: float = 0.9) -> Proposal:
    return Proposal(a, b, "studio", cosine, 1.0, "run")


def test_the_nearest_comes_first_and_a_pair_waits_once(ledger: Ledger) -> None:
    ledger.proposals.add([pair("c", "d", 0.8), pair("b", "c", 0.9), pair("a", "b", 0.9)])
    ledger.proposals.add([pair("c", "d", 0.95)])

    assert ledger.proposals.waiting() == [pair("c", "d", 0.95), pair("a", "b"), pair("b", "c")]
    assert ledger.proposals.count() == 3


def test_what_was_judged_waits_no_more(ledger: Ledger) -> None:
    ledger.proposals.add([pair("a", "b"), pair("a", "c")])
    ledger.proposals.settle([("a", "c"), ("c", "d")])

    assert ledger.proposals.waiting() == [pair("a", "b")]


def test_whoever_is_erased_leaves_no_pair_behind(ledger: Ledger) -> None:
    ledger.proposals.add([pair("a", "b"), pair("b", "c"), pair("c", "d"), pair("ab", "cd")])
    ledger.proposals.forget(["b", "nobody"])

    assert ledger.proposals.waiting() == [pair("ab", "cd"), pair("c", "d")]
    ledger.proposals.forget([])
    assert ledger.proposals.count() == 2


def test_the_pairs_of_a_memory_are_found_by_an_index_whichever_of_the_two_it_is(ledger: Ledger) -> None:
    seen: list[str] = []
    connection = ledger.proposals._db._db
    connection.set_trace_callback(seen.append)
    ledger.proposals.forget([f"m{n}" for n in range(256)])
    connection.set_trace_callback(None)
    (deleting,) = [one for one in seen if "proposals" in one]
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {deleting}")]

    assert [one for one in steps if one.startswith("SCAN proposals")] == []
    assert len([one for one in steps if one.startswith("SEARCH proposals")]) == 2
