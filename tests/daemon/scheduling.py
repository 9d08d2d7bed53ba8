"""A scheduler without a daemon: a real ledger and lane, a clock to be set, and a runner that only notes its runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from daemon.clock import SteadyClock
from daemon.options import Schedule
from daemon.presence import OWED_SINCE
from daemon.runner import Runner
from daemon.scheduler import Scheduler
from storage.errors import DreamdError
from storage.lane import Lane
from storage.ledger import Ledger, Run
from tests.fakes import SettableClock

ZONES = ("Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Africa/Cairo", "UTC")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def at(text: str, zone: str = "UTC") -> float:
    """The instant of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


async def runs_ended(runner: Runner) -> None:
    """Wait until no run is under way or waits its turn."""
    while runner._tasks:
        await asyncio.wait(runner._tasks)


class Shelf:
    """The two things that a scheduler asks of the stores."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.damage: list[str] = []


class Diary:
    """A runner that notes each run in the ledger, as begun and ended at that instant."""

    def __init__(self, ledger: Ledger, clock: SettableClock) -> None:
        self._ledger = ledger
        self._clock = clock
        self.paused = False
        self.active: set[str] = set()
        self.refusal: DreamdError | None = None
        self.loses = False  # what it takes never begins
        self.runs: list[tuple[str, float, str, float | None]] = []
        self.skipped: list[tuple[str, str, str, float | None]] = []

    def is_active(self, name: str) -> bool:
        return name in self.active

    async def run(self, name: str, *, trigger: str, late_by: float | None, wait: bool) -> None:
        assert not wait  # a look that waited for a night would keep every other job from its time
        if self.refusal is not None:
            raise self.refusal
        if self.loses:
            return
        self.note(name, outcome="changed", trigger=trigger)
        self.runs.append((name, self._clock.now(), trigger, late_by))

    async def skip(self, name: str, *, trigger: str, reason: str, late_by: float | None) -> None:
        self.note(name, outcome="skipped", trigger=trigger, reason=reason)
        self.skipped.append((name, trigger, reason, late_by))

    def note(
        self, name: str, *, outcome: str | None, reason: str | None = None, trigger: str = "schedule", **fields: Any
    ) -> None:  # fmt: skip
        now = self._clock.now()
        run = Run(
            self._clock.new_id(), name, None, trigger, False, now, now, 0, None, outcome, reason, {}, [], 0, None, None
        )
        self._ledger.start_run(run._replace(**fields))


class World:
    """A scheduler over a real ledger, a settable clock and a diary."""

    def __init__(self, folder: Path, start: float = NEW_YEAR, **schedule: str) -> None:
        self.clock = SettableClock(start)
        self.ledger = Ledger(folder / "state.db")
        self.ledger.set_fact(OWED_SINCE, start)
        self.lane = Lane("store")
        self.loop = asyncio.Runner()
        self.runner = Diary(self.ledger, self.clock)
        self.shelf = Shelf(self.ledger)
        self.missed: list[str] = []
        options = Schedule(**{"timezone": "UTC", "night": "30 3 * * *", **schedule})
        stores: Any = self.shelf
        runner: Any = self.runner
        self.scheduler = Scheduler(options, runner, stores, self.lane, SteadyClock(self.clock), self.missed.append)

    def look(self, text: str = "", zone: str = "UTC") -> list[tuple[str, float, str, float | None]]:
        """Set the clock, look, and return what ran."""
        if text:
            self.clock.set(at(text, zone))
        before = len(self.runner.runs)
        self.loop.run(self.scheduler.run_owed())
        return self.runner.runs[before:]

    def close(self) -> None:
        self.loop.close()
        self.lane.close()
        self.ledger.close()
