"""An import stands as a whole or not at all, whatever ends it, and spares what others write meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs import importing, unfinished
from jobs.context import BATCH, Context
from storage.errors import Corrupt, Unavailable
from storage.exchange.detect import source_of
from storage.gate import Admitted
from storage.lane import Stopping
from storage.memories import Vectors
from tests.daemon.methods.asking import WatchedEmbedder, refused
from tests.daemon.methods.exchanging import Halfway, begun, everything, saved
from tests.harness import BY_HAND, Daemon
from tests.jobs.by_hand import context
from tests.storage.opened import REDACTOR

COUNT = 3 * BATCH


def records() -> list[dict[str, Any]]:
    """A little of everything, in more than one batch."""
    memories = [
        {"kind": "memory", "id": f"m{n:03}", "content": f"note {n}", "session": "s", "version": 2} for n in range(COUNT)
    ]
    edges = [{"kind": "edge", "a": f"m{n:03}", "b": f"m{n + 1:03}", "weight": 1.5} for n in range(COUNT - 1)]
    return [
        *memories, *edges,
        *({"kind": "version", "memory": f"m{n:03}", "number": 1, "content": f"old {n}"} for n in range(5)),
        {"kind": "comment", "id": "c", "memory": "m000", "content": "hm"},
        {"kind": "fact", "key": "k", "value": 1}, {"kind": "turn", "session": "t", "content": "hello"},
        {"kind": "session_state", "text": "here"},
    ]  # fmt: skip


@pytest.fixture
def path(tmp_path) -> Path:
    return Path(saved(tmp_path / "a.jsonl", *records()))


def wanted(path: Path) -> importing.Wanted:
    return importing.Wanted(path, source_of(path), "secret", "personal", REDACTOR.kinds)


class Texts:
    """The real gate and embedder, but for what happens before so many texts are embedded."""

    def __init__(self, ctx: Context, batches: int, happens: Callable[[], None]) -> None:
        self._real = ctx.texts
        self._left = batches
        self._happens = happens

    def admit(self, given: dict[str, Any]) -> Admitted:
        return self._real.admit(given)

    def vectors(self, texts: Sequence[str]) -> list[Vectors]:
        self._left -= 1
        if self._left == 0:
            self._happens()
        return self._real.vectors(texts)


def run_with(
    daemon: Daemon, path: Path, batches: int, happens: Callable[[], None]
) -> tuple[importing.Outcome, Context]:
    """Run an import during which something happens, right before a batch of memories is embedded."""
    ctx, outcome = context(daemon), importing.Outcome()
    ctx.texts = Texts(ctx, batches + 1, happens)  # the first text is the probe
    importing.run(ctx, wanted(path), outcome)
    return outcome, ctx


def test_wherever_it_is_stopped_all_of_it_is_there_or_nothing(daemon: Daemon, path: Path) -> None:
    daemon.remember("mine", id="mine")
    before = everything(daemon)
    stops, through = [], False
    while not through:
        asked: list[None] = []

        def stopping(asked: list[None] = asked) -> bool:
            asked.append(None)
            return len(asked) > 15 * len(stops)

        ctx, outcome = context(daemon, stopping=stopping), importing.Outcome()
        report = importing.run(ctx, wanted(path), outcome)
        through = not ctx.cut_short
        if not through:
            assert (report.changed, outcome.taken_back, outcome.error) == (0, True, None)
            assert everything(daemon) == before, len(stops)
        stops.append(outcome.began)
    assert True in stops[:-1]
    assert False in stops
    assert report.counts["memory"] == COUNT
    assert everything(daemon)["pending"] is None


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("error", [Corrupt("The ledger cannot be read.", hint="dreamctl doctor"), ValueError("a bug")])
def test_a_failure_half_way_takes_back_what_was_written_and_is_told(daemon, tmp_path, batch, error) -> None:
    path = Path(saved(tmp_path / "b.jsonl", *({"content": f"another note {n}"} for n in range(COUNT))))
    before = everything(daemon)

    def fail() -> None:
        raise error

    ctx, outcome = context(daemon), importing.Outcome()
    ctx.texts = Texts(ctx, batch + 1, fail)
    with pytest.raises(type(error)):
        importing.run(ctx, wanted(path), outcome)
    assert (outcome.error, outcome.began, outcome.taken_back) == (error, True, True)
    assert everything(daemon) == before


def test_the_end_of_the_daemon_is_a_stop_and_no_failure(daemon: Daemon, path: Path) -> None:
    before = everything(daemon)

    def stop() -> None:
        raise Stopping

    outcome, ctx = run_with(daemon, path, 2, stop)

    assert ctx.cut_short
    assert (outcome.error, outcome.taken_back) == (None, True)
    assert everything(daemon) == before


def test_what_others_write_meanwhile_survives_and_is_not_overwritten(daemon: Daemon, path: Path) -> None:
    def write() -> None:
        daemon.remember("mine", id="mine", connect_to=["m000"])
        daemon.remember("taken meanwhile", id="m050")
        daemon.call("update", id="m001", content="edited meanwhile")

    outcome, _ = run_with(daemon, path, 2, write)

    assert outcome.conflicts == [("m050", "line 51")]
    assert outcome.counts["memory"] == COUNT - 1
    assert daemon.call("get", id="m050")["content"] == "taken meanwhile"
    assert daemon.call("get", id="m001")["content"] == "edited meanwhile"
    assert daemon.call("get", id="mine")["state"] == "live"
    assert {one["id"] for one in daemon.call("neighbors", id="m000")["neighbors"]} >= {"mine", "m001"}


def test_of_what_others_touched_meanwhile_nothing_is_lost_when_it_is_taken_back(daemon: Daemon, path: Path) -> None:
    """New and untouched: gone. Used meanwhile: in the bin. Edited meanwhile: it is theirs now."""

    def write() -> None:
        daemon.remember("mine", id="mine")
        daemon.call("update", id="m001", content="edited meanwhile")
        daemon.call("pin", id="m002")
        raise Stopping

    run_with(daemon, path, 3, write)

    rows = everything(daemon)["rows"]
    assert {row.id: row.state for row in rows.values()} == {"mine": "live", "m001": "live", "m002": "forgotten"}
    assert daemon.call("get", id="m001")["content"] == "edited meanwhile"
    assert daemon.call("restore", id="m002")["pinned"] is True


def test_what_was_taken_back_can_be_imported_after_all(daemon: Daemon, path: Path) -> None:
    def stop() -> None:
        raise Stopping

    run_with(daemon, path, 3, stop)
    outcome, _ = run_with(daemon, path, 99, stop)

    assert (outcome.counts["memory"], outcome.kept["memory"], outcome.failed) == (COUNT, 0, [])


def test_a_memory_that_an_undo_took_back_comes_out_of_the_bin(daemon: Daemon, tmp_path: Path) -> None:
    path = saved(tmp_path / "b.jsonl", {"id": "a", "content": "note a"}, {"id": "b", "content": "note b"})
    run = daemon.call("import", path=path)
    daemon.call("undo", run_id=run["run_id"])
    assert daemon.call("stats")["total"] == 0
    daemon.call("restore", id="b")
    daemon.call("forget", id="b")  # this one was forgotten on purpose

    again = daemon.call("import", path=path)
    assert (again["imported"], again["skipped"]) == (1, 1)
    assert daemon.call("get", id="a")["state"] == "live"
    assert daemon.call("undo", run_id=again["run_id"])["restored"] == ["a"]
    assert daemon.call("stats")["total"] == 0


def test_what_was_undone_stays_so_where_the_second_import_does_not_end(daemon: Daemon, tmp_path: Path) -> None:
    told = [{"id": f"m{n:03}", "content": f"note {n}"} for n in range(COUNT)]
    daemon.call("undo", run_id=daemon.call("import", path=saved(tmp_path / "b", *told))["run_id"])
    before = everything(daemon)

    def stop() -> None:
        raise Stopping

    run_with(
        daemon, Path(saved(tmp_path / "c", *(one | {"tags": ["mended"], "tier": "core"} for one in told))), 3, stop
    )
    after = everything(daemon)
    assert {one: row.seq for one, row in after["rows"].items()} != {one: row.seq for one, row in before["rows"].items()}
    assert {one: replace(row, seq=0) for one, row in after["rows"].items()} == {
        one: replace(row, seq=0) for one, row in before["rows"].items()
    }


def test_the_same_journal_is_never_taken_back_twice(daemon: Daemon, path: Path) -> None:
    def stop() -> None:
        raise Stopping

    _, ctx = run_with(daemon, path, 3, stop)
    daemon.call("import", path=str(path))
    before = everything(daemon)
    daemon.in_lane(unfinished.begin, daemon.stores, ctx.run_id)
    daemon.in_lane(unfinished.settle, daemon.stores, daemon.clock.now())

    assert everything(daemon) == before


# -- through the runner


@pytest.fixture
def embedder() -> WatchedEmbedder:
    return WatchedEmbedder()


@pytest.fixture
def watched(daemons, embedder) -> Daemon:
    return daemons(embedder=embedder.load, options=BY_HAND).start()


def test_an_embedder_that_is_away_is_told_before_anything_is_read(watched, embedder, path) -> None:
    embedder.broken = True
    error = refused(watched, "unavailable", "import", path=str(path))

    assert "embedder" in error.detail
    assert everything(watched)["rows"] == {}


def test_an_embedder_that_goes_away_half_way_leaves_nothing_behind(watched, embedder, path) -> None:
    halfway = Halfway(lambda progress: progress["total"] > 0)
    call = begun(watched, "import", halfway, path=str(path))
    assert halfway.reached.wait(60)
    assert everything(watched)["rows"]
    embedder.broken = True
    halfway.go_on.set()

    with pytest.raises(Unavailable, match="Nothing of it was kept") as caught:
        call.result(60)
    assert "embedder" in caught.value.detail
    assert everything(watched)["rows"] == {}
    (run,) = watched.call("runs")["runs"]
    assert (run["outcome"], run["reason"], run["run_id"]) == ("failed", "unavailable", caught.value.extra["run_id"])
    assert watched.call("undo", run_id=run["run_id"])["restored"] == []


def test_a_text_that_the_embedder_cannot_take_is_the_only_one_that_fails(watched, embedder, path) -> None:
    embedder.poison = "note 40"
    result = watched.call("import", path=str(path))

    assert result["imported"] == COUNT - 1
    failed = {one["place"]: one["detail"] for one in result["failed"]}
    assert failed.pop("line 41") == "the embedder makes no vector of it"
    assert set(failed.values()) == {"it leads to a memory that is not here"}


def test_a_disk_that_fills_up_half_way_is_told_and_the_next_import_takes_back_what_is_left_of_this_one(
    watched, path
) -> None:
    """Below its reserve the engine deletes nothing either."""
    halfway = Halfway(lambda progress: progress["total"] > 0)
    call = begun(watched, "import", halfway, path=str(path))
    assert halfway.reached.wait(60)
    real = watched.stores.engine._free_bytes
    watched.stores.engine._free_bytes = lambda _path: 1 << 20
    halfway.go_on.set()

    with pytest.raises(Unavailable, match=r"MiB free.*could not be taken back") as caught:
        call.result(60)
    assert caught.value.extra["run_id"] in caught.value.hint
    assert len(everything(watched)["rows"]) == BATCH
    watched.stores.engine._free_bytes = real
    result = watched.call("import", path=str(path))
    assert (result["imported"], result["skipped"]) == (COUNT, 0)
    assert everything(watched)["pending"] is None


def test_what_cannot_be_taken_back_at_once_is_taken_back_by_the_next_start(watched, path) -> None:
    halfway = Halfway(lambda progress: progress["done"] > COUNT)
    call = begun(watched, "import", halfway, path=str(path))
    assert halfway.reached.wait(60)

    def refuse(*_: Any, **_named: Any) -> None:
        raise Unavailable("The ledger is full.", hint="df -h")

    watched.stores.ledger.write_journal = refuse
    halfway.go_on.set()
    with pytest.raises(Unavailable, match="could not be taken back") as caught:
        call.result(60)
    run = caught.value.extra["run_id"]
    assert run in caught.value.hint
    assert list(everything(watched)["pending"]) == [run]
    assert len(everything(watched)["rows"]) == COUNT

    watched.restart()
    left = everything(watched)
    assert (left["rows"], left["edges"], left["pending"]) == ({}, {}, None)


def test_a_daemon_that_stops_meanwhile_keeps_nothing_of_it(watched, path) -> None:
    halfway = Halfway(lambda progress: progress["total"] > 0)
    call = begun(watched, "import", halfway, path=str(path))
    assert halfway.reached.wait(60)
    assert watched.app is not None
    watched.app.parts.runner._flights["import"].stop.set()
    halfway.go_on.set()

    with pytest.raises(Unavailable, match="was cut short") as caught:
        call.result(60)
    assert caught.value.hint.startswith("dreamctl import ")
    watched.restart()
    assert everything(watched)["rows"] == {}
    assert watched.call("runs")["runs"][0]["outcome"] == "cancelled"


def test_recall_goes_on_during_an_import_and_finds_what_came_so_far(watched, path) -> None:
    watched.remember("Ada keeps bees")
    halfway = Halfway(lambda progress: progress["total"] > 0)
    call = begun(watched, "import", halfway, path=str(path))
    assert halfway.reached.wait(60)

    assert watched.call("recall", query="bees", k=1)["hits"][0]["content"] == "Ada keeps bees"
    refused(watched, "conflict", "import", path=str(path))
    halfway.go_on.set()
    assert call.result(60)["imported"] == COUNT
