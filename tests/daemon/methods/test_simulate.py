"""A look ahead, asked of a daemon: its answer, that the store is only read, and what becomes of it when the daemon stops."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from daemon.methods import METHODS
from daemon.methods.simulate import SimulatedDay
from daemon.rpc import Caller
from jobs.simulate import Day
from storage.edge_files import free_bytes
from storage.errors import Unavailable
from tests.daemon.methods.asking import ask, refused
from tests.daemon.serving import PATIENCE, until
from tests.harness import BY_HAND, Daemon

FOR_LONG = 3_650


@pytest.fixture
def quiet(daemons: Callable[..., Daemon]) -> Daemon:
    """A daemon that does nothing by itself, with a few memories of which two are joined and one is in the bin."""
    daemon = daemons(options=BY_HAND | {"DREAMD_STORAGE__FLUSH_SECONDS": "86400"}).start()
    for n in range(8):
        daemon.remember(f"note w{n}a w{n}b", id=f"m{n}", scope=f"a/p{n % 2}")
    daemon.call("connect", a="m0", b="m2")
    daemon.call("forget", id="m7")
    return daemon


def begun(daemon: Daemon, **params: Any) -> tuple[Future[Any], list[dict[str, Any]]]:
    """A simulation that has come through its first day, and the progress that it tells."""
    told: list[dict[str, Any]] = []
    assert daemon.app is not None
    call = daemon.app.service.call("simulate", params, Caller(0, 0, ""), told.append)
    future = asyncio.run_coroutine_threadsafe(call, daemon._loop)
    assert until(lambda: bool(told) or future.done())
    return future, told


def copies(daemon: Daemon) -> list[Path]:
    return list((daemon.folder / "state" / "snapshots").glob(".*"))


def kept(daemon: Daemon) -> tuple[dict[str, int], list[str]]:
    """What every file of the store holds when all of it is on the disk, and every line of the ledger."""
    daemon.in_lane(daemon.stores.flush)
    store = daemon.folder / "state" / "store"
    files = {str(path): zlib.crc32(path.read_bytes()) for path in store.rglob("*") if path.is_file()}
    with closing(sqlite3.connect(daemon.folder / "state" / "state.db")) as ledger:
        return files, list(ledger.iterdump())


def test_it_tells_each_day_of_the_time_ahead(quiet: Daemon) -> None:
    told = quiet.call("simulate", days=60, recalls="none")

    rows = told["rows"]
    assert (told["days"], told["recalls"], len(rows)) == (60, "none", 60)
    assert all(row.keys() == SimulatedDay.__required_keys__ == set(Day._fields) for row in rows)
    assert (rows[0]["day"], rows[0]["at"], rows[0]["live"], rows[0]["bin"]) == (1, "2026-01-02T00:00:00Z", 7, 1)
    assert {row["day"]: row["faded"] for row in rows if row["faded"]} == {17: 7}
    assert {row["day"]: row["purged"] for row in rows if row["purged"]} == {30: 1, 47: 7}
    assert (rows[-1]["live"], rows[-1]["bin"], rows[-1]["edges"]) == (0, 0, 0)


def test_who_asks_keeps_alive_what_he_asks_for(quiet: Daemon) -> None:
    asked = quiet.call("simulate", days=30, recalls="uniform", recalls_a_day=10)["rows"]

    assert (asked[-1]["live"], asked[-1]["faded"]) == (7, 0)
    assert quiet.call("simulate", days=30, recalls="uniform", recalls_a_day=10)["rows"] == asked


def test_the_nights_are_those_that_this_daemon_would_have(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND | {"DREAMD_DECAY__BASE_STRENGTH_DAYS": "2", "DREAMD_DECAY__BIN_DAYS": "3"}).start()
    daemon.remember("a note", id="m")
    rows = daemon.call("simulate", days=10, recalls="none")["rows"]

    assert {row["day"]: row["faded"] for row in rows if row["faded"]} == {5: 1}  # 2 days times ln 10
    assert {row["day"]: row["purged"] for row in rows if row["purged"]} == {8: 1}


def test_the_store_and_the_ledger_are_as_they_were(quiet: Daemon) -> None:
    """To the last bit; and what recalls taught is still to be folded."""
    quiet.call("recall", query="note w1a", scope="a")

    def seen() -> list[Any]:
        rows = quiet.in_lane(lambda: list(quiet.stores.catalogue.every()))
        return [kept(quiet), rows, quiet.parts.learn.take(keep=True), quiet.call("runs")]

    before = seen()
    quiet.call("simulate", days=40, recalls="zipf")

    assert seen() == before
    assert copies(quiet) == []


def test_only_what_the_clearance_covers_is_counted(quiet: Daemon) -> None:
    quiet.remember("a secret", id="hidden", sensitivity="secret", scope="a/p0")
    quiet.call("connect", a="hidden", b="m0")
    low = quiet.call("simulate", days=1, recalls="none", clearance="personal")["rows"][0]
    high = quiet.call("simulate", days=1, recalls="none")["rows"][0]

    assert (low["live"], high["live"]) == (7, 8)
    assert high["edges"] > low["edges"] == quiet.call("graph_stats", clearance="personal")["edges"]


def test_it_tells_how_far_it_is(quiet: Daemon) -> None:
    future, told = begun(quiet, days=5, recalls="none")
    future.result(PATIENCE)

    assert told == [{"job": "simulate", "done": n, "total": 5} for n in range(1, 6)]


def test_a_second_one_is_a_conflict_and_the_daemon_answers_meanwhile(quiet: Daemon) -> None:
    future, _ = begun(quiet, days=FOR_LONG)

    assert "of 3650" in refused(quiet, "conflict", "simulate", days=1).detail
    quiet.remember("something new", id="new")
    assert quiet.call("run_job", name="decay")["outcome"] in ("changed", "unchanged")
    future.cancel()
    assert until(lambda: copies(quiet) == [])
    assert until(lambda: quiet.parts.simulator._days is None)
    assert len(ask(quiet, "simulate", {"days": 1})["rows"]) == 1


def test_a_stop_of_the_daemon_ends_it_and_leaves_nothing(quiet: Daemon) -> None:
    future, _ = begun(quiet, days=FOR_LONG)
    quiet.stop()

    with pytest.raises(Unavailable, match="stopping"):
        future.result(PATIENCE)
    assert copies(quiet) == []
    assert quiet.start().call("stats", scope="*")["total"] == 7


def test_what_a_crash_left_of_one_is_gone_at_the_next_start(quiet: Daemon) -> None:
    future, _ = begun(quiet, days=FOR_LONG)
    (scrap,) = (quiet.folder / "state" / "snapshots").iterdir()
    future.cancel()
    assert until(lambda: copies(quiet) == [])
    quiet.stop()
    (scrap / "store").mkdir(parents=True)
    (scrap / "store" / "half").write_text("half")

    quiet.start()
    assert copies(quiet) == []


def test_without_room_for_a_copy_nothing_is_begun(daemons: Callable[..., Daemon], folder: Path) -> None:
    """It leaves more room than the daemon itself needs, so that it is the first to find none."""
    nearly_all = int(0.7 * free_bytes(folder) / 2**20)
    daemon = daemons(options=BY_HAND | {"DREAMD_STORAGE__RESERVE_MB": str(nearly_all)}).start()

    assert refused(daemon, "unavailable", "simulate", days=1).detail.startswith("The disk of ")
    assert copies(daemon) == []
    daemon.remember("there is room for this")


def test_a_process_that_fails_leaves_no_copy_and_the_way_free(quiet: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")

    for _ in range(2):
        assert "with exit code 1" in refused(quiet, "unavailable", "simulate", days=1).detail
    assert copies(quiet) == []


def test_of_a_damaged_store_nothing_is_told(quiet: Daemon) -> None:
    quiet.stores.damage.append("memories holds 1 of 8 points")

    assert refused(quiet, "corrupt", "simulate", days=1).hint
    quiet.stores.damage.clear()


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"days": 0}, "days"),
        ({"days": 3_651}, "days"),
        ({"days": 1.5}, "days"),
        ({"days": 1, "recalls": "often"}, "recalls"),
        ({"days": 1, "recalls_a_day": 0}, "recalls_a_day"),
        ({"days": 1, "scope": "a"}, "scope"),
    ],
)
def test_wrong_params_are_refused_by_name(shared: Daemon, params: dict[str, Any], field: str) -> None:
    assert refused(shared, "invalid", "simulate", **params).extra["field"] == field


def test_it_reads_streams_and_ends_with_its_client() -> None:
    method = METHODS["simulate"]

    assert (method.group, method.writes, method.streams, method.leaves) == ("night", False, True, True)
    assert [name for name, one in METHODS.items() if one.leaves] == ["simulate"]
