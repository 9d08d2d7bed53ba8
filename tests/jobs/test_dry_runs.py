"""Every job can be asked what it would do, now or as of another day, and touches nothing then."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from jobs.table import RUNNABLE
from storage.instants import format_instant
from storage.model import DAY
from tests.harness import Daemon

TABLES = (
    "meta", "journal", "absences", "requests", "examined", "proposals", "canaries", "erased", "spend",
)  # fmt: skip


@pytest.fixture
def old(daemon: Daemon) -> Daemon:
    """Memories with something to do for every job: near and equal ones, faded edges, use that was not folded yet."""
    daemon.remember("Deploys are on Tuesdays.", id="a", importance=0.1)
    daemon.remember("deploys are on tuesdays", id="b", importance=0.1)
    daemon.remember("Deploys of the shop are on Tuesdays", id="c", emotion=0.9)
    daemon.remember("gone tomorrow", id="d", expires_at="2026-01-01T00:00:00Z")
    daemon.remember("forgotten long ago", id="e")
    daemon.call("connect", a="a", b="c", weight=0.2)
    daemon.call("forget", id="e")
    daemon.beat(40)
    daemon.call("recall", query="deploys on Tuesdays", k=3)
    daemon.run(daemon.app.background.flush())  # it notes how much is on the disk, and repeats itself while a test runs
    return daemon


def everything(daemon: Daemon) -> dict[str, Any]:
    """All that is kept: points of every collection, what the ledger tells but runs, snapshots, every other folder's name."""
    stores, state = daemon.stores, daemon.folder / "state"

    def look() -> dict[str, Any]:
        points = {
            name: hashlib.sha256(repr(sorted(map(repr, stores.engine.scroll(name)))).encode()).hexdigest()
            for name in ("memories", "bin", "synapses", "records")
        }
        tables = {table: sorted(map(repr, stores.ledger._db.all(f"SELECT * FROM {table}"))) for table in TABLES}
        return {
            "points": points, "tables": tables, "learned": stores_learned(daemon), "folders": folders(state),
            "snapshots": files(state / "snapshots"),
        }  # fmt: skip

    return daemon.in_lane(look)


def stores_learned(daemon: Daemon) -> Any:
    return daemon.parts.learn.take(keep=True)


def files(folder: Path) -> dict[str, int]:
    """The size of every file in a folder and below it."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def folders(state: Path) -> list[str]:
    return sorted(path.name for path in state.iterdir() if path.is_dir())


def test_every_table_of_the_ledger_is_looked_at(daemon: Daemon) -> None:
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"

    assert {name for (name,) in daemon.in_lane(daemon.stores.ledger._db.all, sql)} == {*TABLES, "runs"}


@pytest.mark.parametrize("at", [None, "+30d"])
@pytest.mark.parametrize("name", RUNNABLE)
def test_a_dry_run_of_any_job_touches_nothing(old: Daemon, name, at) -> None:
    options = {} if at is None else {"at": format_instant(old.clock.now() + 30 * DAY)}
    before = everything(old)
    run = old.call("run_job", name=name, dry_run=True, **options)

    assert run["outcome"] in ("changed", "unchanged"), run["reason"]
    assert run["dry_run"] is True
    assert everything(old) == before


def test_a_dry_run_says_what_the_run_then_does_and_spares_what_was_just_recalled(old: Daemon) -> None:
    told = old.call("run_job", name="decay", dry_run=True)
    done = old.call("run_job", name="decay")

    assert {**told["counts"], "remaining": 0} == {**done["counts"], "remaining": 0}
    assert (told["counts"]["expired"], told["counts"]["decayed"], told["counts"]["skipped"]) == (1, 0, 3)
    assert told["examples"] == done["examples"]


def test_a_dry_run_as_of_a_month_later_tells_what_would_fade_by_then(daemon: Daemon) -> None:
    daemon.remember("a note that nobody asks for", id="n")
    now = daemon.call("run_job", name="decay", dry_run=True)
    at = format_instant(daemon.clock.now() + 90 * DAY)
    later = daemon.call("run_job", name="decay", dry_run=True, at=at)

    assert (now["counts"]["decayed"], later["counts"]["decayed"]) == (0, 1)
    assert later["examples"] == [{"id": "n", "reason": "retention 0.000"}]
