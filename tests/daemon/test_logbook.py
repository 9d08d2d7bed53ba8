"""Runs of one batch: all of each stands or nothing, and what the ledger says of it is so."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jobs.unfinished import PENDING
from storage.changes import Patch
from storage.errors import Conflict, Unavailable
from tests.daemon.methods.asking import refused
from tests.harness import BY_HAND, Daemon

PLENTY, NOTHING = 1 << 40, 1 << 20
MOST = 40  # writes that a merge makes, at the very most


class Disk:
    """Has room for so many writes, then refuses some: the disk of an engine, or a fault in it."""

    def __init__(self, writes: int, refusals: int, error: Exception | None = None) -> None:
        self.writes = writes
        self.refusals = refusals
        self.error = error
        self.refused = 0

    def __call__(self, _path: Path) -> int:
        if self.writes > 0:
            self.writes -= 1
            return PLENTY
        if self.refused == self.refusals:
            return PLENTY
        self.refused += 1
        if self.error is not None:
            raise self.error
        return NOTHING


@pytest.fixture
def twins(daemons) -> Daemon:
    daemon = daemons(options=BY_HAND).start()
    for memory in ("old", "new"):
        daemon.remember(f"Ada likes tea, says {memory}", id=memory, tags=[memory])
        daemon.call("update", id=memory, content=f"Ada likes green tea, says {memory}")
        daemon.call("comment", id=memory, content=f"about {memory}", author="Ben")
        daemon.call("connect", a=memory, b=daemon.remember(f"a neighbour of {memory}"))
    return daemon


def state(daemon: Daemon) -> dict[str, Any]:
    return {
        memory: [
            {**daemon.call("get", id=memory), "version": 0},
            daemon.call("history", id=memory),
            daemon.call("neighbors", id=memory),
            daemon.call("comments", id=memory),
        ]
        for memory in ("old", "new")
    }


def pending(daemon: Daemon) -> list[str] | None:
    """The runs that are not through."""
    found: dict[str, int] | None = daemon.in_lane(daemon.stores.ledger.fact, PENDING)
    return None if found is None else list(found)


@pytest.mark.parametrize("error", [None, RuntimeError("the engine is broken")])
def test_a_batch_that_fails_at_whichever_write_is_taken_back_at_once(twins: Daemon, error) -> None:
    before = state(twins)
    for writes in range(MOST):
        disk = twins.stores.engine._free_bytes = Disk(writes, 1, error)
        with suppress(Unavailable, RuntimeError):
            twins.call("merge", survivor="old", duplicate="new")
        twins.stores.engine._free_bytes = Disk(0, 0)
        assert pending(twins) is None
        (run,) = twins.call("runs", limit=1)["runs"]
        if not disk.refused:
            break
        assert (run["outcome"], run["reason"]) == ("failed", "internal" if error else "unavailable")
        assert state(twins) == before
        twins.restart()  # which believes the files alone
        assert state(twins) == before
        undone = twins.call("undo", run_id=run["run_id"])
        assert (undone["restored"], undone["left"]) == ([], [])

    assert 4 < writes < MOST - 1
    assert run["outcome"] == "changed"
    assert twins.call("get", id="new")["state"] == "superseded"
    twins.call("undo", run_id=run["run_id"])
    assert state(twins) == before


@pytest.mark.parametrize("by", ["restart", "undo"])
def test_what_cannot_be_taken_back_at_once_is_told_and_goes_by_the_next_start_or_by_an_undo(twins: Daemon, by) -> None:
    before = state(twins)
    twins.stores.engine._free_bytes = Disk(3, MOST)

    error = refused(twins, "unavailable", "merge", survivor="old", duplicate="new")

    run = error.extra["run_id"]
    assert run in error.hint
    assert "could not be taken back" in error.detail
    assert pending(twins) == [run]
    assert state(twins) != before
    twins.stores.engine._free_bytes = Disk(0, 0)
    if by == "undo":
        undone = twins.call("undo", run_id=run)
        assert undone["restored"]
        assert undone["left"] == []
        assert state(twins) == before
    twins.restart()
    assert state(twins) == before
    assert pending(twins) is None
    assert twins.call("merge", survivor="old", duplicate="new")["id"] == "old"


def test_the_answer_is_what_the_batch_left(twins: Daemon) -> None:
    def plan(_now: float) -> list[Patch]:
        return [Patch("old", twins.stores.memories.row("old").seq, {"heat": "hot"})]

    heat = twins.run(twins.parts.runner.act("merge", plan, lambda: twins.stores.memories.row("old").heat))[1]

    assert heat == "hot"
    assert pending(twins) is None


def test_a_plan_of_nothing_is_answered_and_not_recorded(twins: Daemon) -> None:
    run, answer = twins.run(twins.parts.runner.act("merge", lambda _now: [], lambda: "as it was"))

    assert (run.outcome, answer) == ("unchanged", "as it was")
    assert twins.call("runs")["runs"] == []


def test_a_plan_that_is_refused_is_not_recorded(twins: Daemon) -> None:
    with pytest.raises(Conflict):
        twins.call("merge", survivor="old", duplicate="old")

    assert twins.call("runs")["runs"] == []
    assert pending(twins) is None
