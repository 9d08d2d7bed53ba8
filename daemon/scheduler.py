"""Decides when jobs run; the runner does the rest. The only importer of APScheduler.

Its defaults would lose runs: the grace of one second is lifted, late runs are coalesced into one, and what was due while
the daemon was down is found from our own ledger at start and run once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from daemon.clock import Clock
from daemon.options import Schedule
from daemon.runner import Runner
from jobs.table import RUNNABLE
from storage.errors import DreamdError
from storage.store import Stores

log = structlog.get_logger("daemon.scheduler")

BORN: Final = "born_at"  # when the state folder was made: a new one owes no night


class Scheduler:
    """Cron lines from the configuration, as runs."""

    def __init__(
        self, schedule: Schedule, runner: Runner, stores: Stores, clock: Clock, on_missed: Callable[[str], None]
    ) -> None:
        self._runner = runner
        self._stores = stores
        self._clock = clock
        self._on_missed = on_missed
        self._tasks: set[asyncio.Task[None]] = set()
        self._scheduler = AsyncIOScheduler(timezone=schedule.zone)
        lines = {name: getattr(schedule, name, "") for name in RUNNABLE}
        self._triggers = {
            name: CronTrigger.from_crontab(line, timezone=schedule.zone)
            for name, line in lines.items()
            if line not in ("", "off")
        }

    def start(self) -> None:
        """Begin, and catch up once with what was due while nobody was there."""
        for name, trigger in self._triggers.items():
            self._scheduler.add_job(
                self._fire, trigger, args=[name], id=name, misfire_grace_time=None, coalesce=True, max_instances=1
            )
        self._scheduler.add_listener(self._missed, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        self._scheduler.start()
        now = self._clock.now()
        for name, since in self.owed(now).items():
            task = asyncio.create_task(self._run(name, "catch_up", now - since))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Fire no more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        for task in self._tasks:
            task.cancel()

    def next_runs(self) -> Mapping[str, float]:
        """When each scheduled job runs next."""
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        fires = {name: trigger.get_next_fire_time(None, now) for name, trigger in self._triggers.items()}
        return {name: fire.timestamp() for name, fire in fires.items() if fire is not None}

    def owed(self, now: float) -> dict[str, float]:
        """The jobs whose time came and went since they last began, with the first instant that was missed."""
        owed: dict[str, float] = {}
        for name, trigger in self._triggers.items():
            last = self._stores.ledger.last_run(name)
            since = self._stores.ledger.fact(BORN) if last is None else last.started_at
            due = missed(trigger, now if since is None else float(since), now)
            if due is not None:
                owed[name] = due
        return owed

    async def _fire(self, name: str) -> None:
        await self._run(name, "schedule", None)

    async def _run(self, name: str, trigger: str, late_by: float | None) -> None:
        if self._runner.paused:
            log.info("job.held_back", job_name=name, reason="paused")
            return
        if late_by is not None:
            log.warning("job.late", job_name=name, late_by_s=round(late_by))
            self._on_missed(name)
        try:
            await self._runner.run(name, trigger=trigger, late_by=late_by)
        except DreamdError as error:
            log.warning("job.not_run", job_name=name, kind=error.kind, detail=error.detail)

    def _missed(self, event: JobExecutionEvent) -> None:
        log.warning("job.missed", job_name=event.job_id)
        self._on_missed(event.job_id)


def missed(trigger: CronTrigger, since: float, now: float) -> float | None:
    """The first fire time after `since` that is not after `now`."""
    start = datetime.fromtimestamp(since + 1.0, UTC)
    fire = trigger.get_next_fire_time(None, start)
    return fire.timestamp() if fire is not None and fire.timestamp() <= now else None
