"""Decides when jobs run; the runner does the rest. The only importer of APScheduler.

What is owed is told by our own clock and ledger: a job whose time came since it last began, once however often it came.
APScheduler is the alarm that goes off on time. It stands still while the host sleeps and knows nothing of a daemon that
was down, so the same question is asked at start and every minute. Its cron trigger loses midnight on the day after the
clocks go forward and runs the doubled hour twice: here a line means wall-clock times, each of which comes once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobSubmissionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.cron import CronTrigger

from daemon.clock import Clock
from daemon.options import Schedule
from daemon.runner import STOPPING, Runner
from jobs.table import RUNNABLE
from storage.errors import DreamdError
from storage.ledger import Run
from storage.store import Stores

log = structlog.get_logger("daemon.scheduler")

BORN: Final = "born_at"  # when the state folder was made: a new one owes no night
LOOK_SECONDS: Final = 60.0
LATE_SECONDS: Final = 120.0  # a run that begins later was missed


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
        shown = now.replace(tzinfo=UTC, fold=0) - skipped  # a time skipped by now may come only after `instant`
        while (shown := self._line.get_next_fire_time(None, shown + timedelta(seconds=1))) is not None:
            fire = float(shown.replace(tzinfo=self._zone).timestamp())
            if fire > instant:
                return fire
        return None

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime | None:
        """The same, as APScheduler asks for it."""
        fire = self.after((previous_fire_time or now).timestamp())
        return None if fire is None else datetime.fromtimestamp(fire, self._zone)


class Scheduler:
    """Cron lines from the configuration, as runs."""

    def __init__(
        self, schedule: Schedule, runner: Runner, stores: Stores, clock: Clock, on_missed: Callable[[str], None]
    ) -> None:
        self._runner = runner
        self._stores = stores
        self._clock = clock
        self._on_missed = on_missed
        self._looked_at = clock.now()
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
        self._scheduler.add_listener(self._overrun, EVENT_JOB_MAX_INSTANCES)
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

    def owed(self, now: float) -> dict[str, float]:
        """The jobs whose time came and went since they last began, with the first instant that was missed."""
        dues = {name: self._due(name, now) for name in self._triggers}
        return {name: due for name, due in dues.items() if due is not None}

    async def run_owed(self, *names: str) -> None:
        """Run what is owed, of these jobs or of all; late ones say so and are counted."""
        if self._runner.paused or self._stores.damage:
            return
        now = self._clock.now()
        owed = {name: due for name, due in self.owed(now).items() if not names or name in names}
        self._looked_at = now
        await asyncio.gather(
            *(self._run(name, now - due) for name, due in owed.items() if not self._runner.is_active(name))
        )

    def _due(self, name: str, now: float) -> float | None:
        """What a stop of the daemon cut short goes on; what a crash did waits for its next time, lest it crash again."""
        last = self._stores.ledger.last_run(name)
        since = float(self._stores.ledger.fact(BORN) or now) if last is None else last.started_at
        if since > now:  # the clock was set back; what it said before must not keep the job from running
            since = min(self._looked_at, now)
        due = self._triggers[name].after(since)
        if due is not None and due <= now:
            return due
        return last.ended_at if last is not None and _was_stopped(last) else None

    async def _run(self, name: str, late_by: float) -> None:
        late = late_by > LATE_SECONDS
        if late:
            log.warning("job.late", job_name=name, late_by_s=round(late_by))
            self._on_missed(name)
        try:
            await self._runner.run(name, trigger="catch_up" if late else "schedule", late_by=late_by if late else None)
        except DreamdError as error:
            log.warning("job.not_run", job_name=name, kind=error.kind, detail=error.detail)

    async def _look(self) -> None:
        while True:
            try:
                await self.run_owed()
            except DreamdError as error:
                log.warning("scheduler.failed", kind=error.kind, detail=error.detail)
            except Exception:
                log.exception("scheduler.failed", kind="internal")
            await asyncio.sleep(LOOK_SECONDS)

    def _overrun(self, event: JobSubmissionEvent) -> None:
        """Its last run has not ended yet."""
        log.warning("job.missed", job_name=event.job_id)
        self._on_missed(event.job_id)


def _was_stopped(run: Run) -> bool:
    return run.outcome == "cancelled" and run.reason == STOPPING and run.trigger != "manual"
