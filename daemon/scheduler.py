"""Decides when jobs run; the runner does the rest. The only importer of APScheduler.

What is owed is told by our own clock and ledger: a job whose time came since it last began, once however often it came.
One that ran well just before is not run again: a night caught up late in the evening takes the place of the next. What was
cut short goes on, and an hour later what ended since the store was away. While the host's clock is certainly wrong nothing
runs by itself.

APScheduler is the alarm that goes off on time. It stands still while the host sleeps and knows nothing of a daemon that
was down, so the same question is asked at start and every minute. Its cron trigger loses midnight on the day after the
clocks go forward and runs the doubled hour twice: here a line means wall-clock times, each of which comes once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger

from daemon.clock import SteadyClock
from daemon.night import store_was_away
from daemon.options import Schedule
from daemon.presence import OWED_SINCE
from daemon.runner import Runner
from daemon.stepping import STOPPING
from jobs.table import RUNNABLE
from storage.errors import DreamdError
from storage.lane import Lane
from storage.ledger import CUT_OFF, SUCCESSES, Run
from storage.store import Stores

log = structlog.get_logger("daemon.scheduler")

LOOK_SECONDS: Final = 60.0
LATE_SECONDS: Final = 120.0  # a run that begins later was missed
AWAY_SECONDS: Final = 3600.0  # before a run goes on that ended since the store was away
FINEST: Final = 60.0  # seconds between two times of a line at least
LONGEST: Final = 3653 * 86_400.0  # seconds; at most eight years lie between two leap days


class WallClock(BaseTrigger):  # type: ignore[misc]
    """A cron line as the times that a clock on the wall shows, each once.

    A time which the clocks skip comes as much later as they skipped; one which they show twice comes the first time.
    """

    def __init__(self, line: str, zone: ZoneInfo) -> None:
        self._zone = zone
        self._line = CronTrigger.from_crontab(line, timezone=UTC)

    def after(self, instant: float) -> float | None:
        """The first fire time after an instant."""
        now = datetime.fromtimestamp(instant, self._zone)
        yesterday = datetime.fromtimestamp(instant - 86_400.0, self._zone)
        skipped = max((now.utcoffset() or timedelta()) - (yesterday.utcoffset() or timedelta()), timedelta())
        # A time skipped by now may come only after `instant`; times are whole seconds.
        shown = now.replace(tzinfo=UTC, fold=0, microsecond=0) - skipped
        while (shown := self._line.get_next_fire_time(None, shown + timedelta(seconds=1))) is not None:
            fire = float(shown.replace(tzinfo=self._zone).timestamp())
            if fire > instant:
                return fire
        return None

    def interval(self, due: float) -> float:
        """The seconds from the fire time before one to it, found by halving; ten years where there was none."""
        before, beyond = due - LONGEST, due
        while beyond - before >= FINEST:
            half = (before + beyond) / 2.0
            fire = self.after(half)
            if fire is not None and fire < due:
                before = fire
            else:
                beyond = half
        return due - before

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """The same, as APScheduler asks for it."""
        fire = self.after((previous_fire_time or now).timestamp())
        return None if fire is None else datetime.fromtimestamp(fire, self._zone)


class Owed(NamedTuple):
    """A run that is owed."""

    due: float | None  # the first instant of its line that was missed
    cut: float | None  # when the run ended that goes on
    met: str | None  # why it need not take place

    @property
    def since(self) -> float:
        """From when on it was owed."""
        return min(instant for instant in (self.due, self.cut) if instant is not None)


class Scheduler:
    """Cron lines from the configuration, as runs."""

    def __init__(
        self, schedule: Schedule, runner: Runner, stores: Stores, lane: Lane, clock: SteadyClock,
        on_missed: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._runner = runner
        self._stores = stores
        self._lane = lane
        self._clock = clock
        self._on_missed = on_missed
        self._missed: dict[str, float] = {}  # the last due time of each job that was counted as missed
        self._looking = asyncio.Lock()  # the alarm and the minute may meet
        self._task: asyncio.Task[None] | None = None
        self._scheduler = AsyncIOScheduler(timezone=schedule.zone)
        lines = {name: getattr(schedule, name, "") for name in RUNNABLE}
        self._triggers = {
            name: WallClock(line, schedule.zone) for name, line in lines.items() if line not in ("", "off")
        }

    def start(self) -> None:
        """Begin, and catch up once with what was due while nobody was there."""
        for name, trigger in self._triggers.items():
            self._scheduler.add_job(
                self.run_owed, trigger, args=[name], id=name, misfire_grace_time=None, coalesce=True, max_instances=1
            )
        self._scheduler.start()
        self._task = asyncio.create_task(self._look())

    def stop(self) -> None:
        """Fire no more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        if self._task is not None:
            self._task.cancel()

    def next_runs(self) -> Mapping[str, float]:
        """When each scheduled job runs next."""
        now = self._clock.now()
        fires = {name: trigger.after(now) for name, trigger in self._triggers.items()}
        return {name: fire for name, fire in fires.items() if fire is not None}

    def owed(self, now: float) -> dict[str, Owed]:
        """The jobs whose time came and went since they last began, and those that go on. Called in the lane."""
        found = {name: self._owed(name, now) for name in self._triggers}
        return {name: owed for name, owed in found.items() if owed is not None}

    async def run_owed(self, *names: str) -> None:
        """Begin what is owed, of these jobs or of all; late ones say so and are counted. Nobody waits here for their ends."""
        async with self._looking:
            if self._clock.is_wrong or self._runner.paused or self._stores.damage:
                return
            now, found = await self._lane.run(self._look_up)
            for name, owed in found.items():
                if (not names or name in names) and not self._runner.is_active(name):
                    await self._begin(name, owed, now)

    def _look_up(self) -> tuple[float, dict[str, Owed]]:
        now, ledger = self._clock.now(), self._stores.ledger
        if ledger.fact(OWED_SINCE) is None:
            ledger.set_fact(OWED_SINCE, now)
        return now, self.owed(now)

    def _owed(self, name: str, now: float) -> Owed | None:
        """Runs that seem to begin later do not count: the clock was set back since."""
        runs = self._stores.ledger.last_runs(name, 2, until=now)
        since = float(self._stores.ledger.fact(OWED_SINCE) or now)
        due = self._triggers[name].after(max(since, runs[0].started_at) if runs else since)
        if due is not None and due > now:
            due = None
        cut = _cut_at(now, *runs) if runs else None
        if cut is not None:
            return Owed(due, cut, met=None)
        return None if due is None else Owed(due, None, self._met(name, due, now))

    def _met(self, name: str, due: float, now: float) -> str | None:
        """Why a run is not needed, if one that ended well began less than half of the line's interval ago."""
        gap = self._triggers[name].interval(due) / 2.0
        last = self._stores.ledger.last_run(name, outcomes=SUCCESSES, until=now + gap)
        if last is None or now - last.started_at >= gap:
            return None
        passed = now - last.started_at
        if passed < 0.0:
            return "ran just before the clock was set back"
        return f"ran {passed / 3600:.1f} h ago" if passed >= 3600 else f"ran {passed / 60:.0f} min ago"

    async def _begin(self, name: str, owed: Owed, now: float) -> None:
        late_by = now - owed.since if now - owed.since > LATE_SECONDS else None
        trigger = "schedule" if late_by is None and owed.cut is None else "catch_up"
        try:
            if owed.met is not None:
                await self._runner.skip(name, trigger=trigger, reason=owed.met, late_by=late_by)
                return
            await self._runner.run(name, trigger=trigger, late_by=late_by, wait=False)
        except DreamdError as error:
            log.warning("job.not_run", job_name=name, kind=error.kind, detail=error.detail)
            return
        if owed.due is not None and now - owed.due > LATE_SECONDS and self._missed.get(name) != owed.due:
            self._missed[name] = owed.due
            log.warning("job.late", job_name=name, late_by_s=round(now - owed.due))
            self._on_missed(name)

    async def _look(self) -> None:
        while True:
            try:
                await self.run_owed()
            except DreamdError as error:
                log.warning("scheduler.failed", kind=error.kind, detail=error.detail)
            except Exception:
                log.exception("scheduler.failed", kind="internal")
            await asyncio.sleep(LOOK_SECONDS)


def _cut_at(now: float, last: Run, *before: Run) -> float | None:
    """When the last run was cut short, if it is to go on by now.

    A stop lets it go on whenever it may. A crash, or a store that was away, does so once, lest it be met at every look.
    """
    by_itself = last.trigger != "manual" and last.parent is None and last.undone_by is None
    if not by_itself or (last.reason != STOPPING and any(map(_broke_off, before))):
        return None
    ended = last.ended_at or last.started_at
    if last.outcome == "cancelled" and last.reason in (STOPPING, CUT_OFF):
        return ended
    return ended if store_was_away(last) and now - ended >= AWAY_SECONDS else None


def _broke_off(run: Run) -> bool:
    return run.reason == CUT_OFF or store_was_away(run)
