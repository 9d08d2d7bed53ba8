"""Carries out one recorded run of one job: a thread of its own, a deadline, its pace, and how it ended.

Between batches a job asks whether to end; that is how a stop and a deadline reach it. One that does not ask, since it hangs
in a call, is given up some time after its deadline: the run ends as cancelled, whatever it asks of the store or the ledger
from then on is refused, its progress is told nobody, and the next job has its turn. The log hears when its thread ended.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import structlog

from daemon.clock import Clock
from daemon.logbook import Logbook
from jobs.context import Context, Report, Settings, Texts
from jobs.table import Job
from storage.errors import DreamdError
from storage.lane import Lane, Stopping
from storage.learn import LearnBuffer
from storage.ledger import Run
from storage.model import EVERY_SCOPE
from storage.store import Stores

log = structlog.get_logger("daemon.stepping")

STOPPING: Final = "stopping"  # why a run was cut short that goes on at the next start
DEADLINE: Final = "deadline"
OVERRUN_SECONDS: Final = 30.0  # after its deadline, before a job that does not end is given up
PAUSE_SECONDS: Final = 0.01  # what a batch waits while requests come
MOST_PAUSES: Final = 30_000  # of one run: requests delay it by five minutes at most

Progress = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Flight:
    """What was asked for and is under way or waits its turn; of a night, `step` is the run that works now."""

    run: Run
    listener: Progress | None
    at: float | None = None  # the instant that a dry run looks from
    step: Run | None = None
    done: int = 0
    total: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def tell(self, done: int, total: int) -> None:
        """Note the progress of the current step, and tell who listens. Called from the job's thread."""
        self.done, self.total = done, total
        if self.listener is not None:
            now = self.step or self.run
            self.listener({"job": now.job, "run_id": now.id, "done": done, "total": total})


class Pace:
    """Lets a job wait a moment before a batch while requests come, so that they meet an idle processor.

    The lane alone would let them wait for no more than one batch; but Python runs one thread at a time. After so many
    pauses a run makes no more: a stream of requests slows a night and never starves it.
    """

    def __init__(self, lane: Lane, stop: threading.Event) -> None:
        self._lane = lane
        self._stop = stop
        self._seen = lane.urgent_calls
        self._left = MOST_PAUSES

    def __call__(self) -> None:
        """Wait, if a request came since the last batch. Called from the job's thread."""
        calls = self._lane.urgent_calls
        if calls != self._seen and self._left:
            self._left -= 1
            self._stop.wait(PAUSE_SECONDS)
        self._seen = calls


class Stepper:
    """Begins, carries out and records runs; whose turn it is, others decide."""

    def __init__(
        self, stores: Stores, lane: Lane, learn: LearnBuffer, clock: Clock, settings: Settings, texts: Texts, book: Logbook,
        on_end: Callable[[Run], None], *, overrun: float = OVERRUN_SECONDS,
    ) -> None:  # fmt: skip
        self._stores = stores
        self._lane = lane
        self._learn = learn
        self._clock = clock
        self._texts = texts
        self._book = book
        self._on_end = on_end
        self._overrun = overrun
        self.settings = settings

    def use(self, **changed: Any) -> None:
        """Change some of the settings, for the runs that begin from now on."""
        self.settings = replace(self.settings, **changed)

    def record(self, name: str, trigger: str, at: float) -> Run:
        """A run as it is to begin at this instant."""
        run = Run(
            self._clock.new_id(), name, None, trigger, False, at, None, 0, None, None, None, {}, [], 0, None, None
        )
        return timed(run, at)

    async def begin(self, run: Run) -> None:
        """Record that a run begins."""
        await self._lane.run(self._book.begin, run)

    async def step(
        self, job: Job, flight: Flight, run: Run, scope: str = EVERY_SCOPE, parameters: Mapping[str, Any] | None = None
    ) -> tuple[Run, int]:  # fmt: skip
        """One recorded run of one job, and how much it changed."""
        began = self._clock.monotonic()
        await self.begin(run)
        ctx = Context(
            stores=self._stores, lane=self._lane, settings=self.settings, run_id=run.id,
            now=run.started_at if flight.at is None else flight.at,
            rng=self._clock.rng(run.seed), dry_run=run.dry_run, scope=scope, parameters=parameters or {},
            progress=flight.tell, learned=self._learn.take, texts=self._texts, pace=Pace(self._lane, flight.stop),
            stopping=lambda: flight.stop.is_set() or self._clock.monotonic() - began > job.deadline,
        )  # fmt: skip
        about = {"run_id": run.id, "job_name": job.name, "trigger": run.trigger} | (
            {"dry_run": True} if run.dry_run else {}
        )
        with structlog.contextvars.bound_contextvars(**about):
            report, outcome, reason = await self._work(job, ctx)
            if ctx.cut_short and outcome != "failed":
                outcome, reason = "cancelled", STOPPING if flight.stop.is_set() else DEADLINE
            if outcome != "failed":
                level = log.info if reason is None or run.dry_run else log.warning
                level("job.finished", outcome=outcome, reason=reason, **report.counts)
            took = self._clock.monotonic() - began
            return await self.finish(run, took, outcome, as_of(flight, reason), report), report.changed

    async def finish(self, run: Run, took: float, outcome: str, reason: str | None, report: Report) -> Run:
        """Record how a run ended, and count it."""
        done = run._replace(
            ended_at=run.started_at + took,
            outcome=outcome,
            reason=reason,
            counts=report.counts,
            examples=list(report.examples),
        )
        await self._lane.run(self._book.end, done)
        self._on_end(done)
        return done

    async def skip(self, run: Run, reason: str) -> Run:
        """Record a run that does not take place, and why."""
        log.info("job.skipped", job_name=run.job, reason=reason)
        skipped = run._replace(ended_at=run.started_at, outcome="skipped", reason=reason)
        await self._lane.run(self._book.note, skipped)
        self._on_end(skipped)
        return skipped

    async def _work(self, job: Job, ctx: Context) -> tuple[Report, str, str | None]:
        """The job itself, in a thread of its own; what it raises becomes an outcome."""
        thread = _in_thread(job, ctx)
        working = asyncio.wrap_future(thread)
        done, _ = await asyncio.wait([working], timeout=job.deadline + self._overrun)
        if not done:
            ctx.give_up()
            working.cancel()
            log.error("job.given_up", deadline_s=job.deadline)
            thread.add_done_callback(partial(_log_late, dict(structlog.contextvars.get_contextvars())))
            return Report({}), "cancelled", DEADLINE
        try:
            report = working.result()
        except Stopping:  # the daemon's lanes take no more of it
            return Report({}), "cancelled", STOPPING
        except DreamdError as error:
            log.warning("job.failed", kind=error.kind, detail=error.detail)
            return Report({}, [{"reason": error.detail}]), "failed", error.kind
        except Exception:
            log.exception("job.failed", kind="internal")
            return Report({}), "failed", "internal"
        return report, "changed" if report.changed else "unchanged", report.reason


def as_of(flight: Flight, reason: str | None) -> str | None:
    """The reason of a run, and the instant from which it looked where that was another than now."""
    if flight.at is None:
        return reason
    looked_from = f"as of {datetime.fromtimestamp(flight.at, UTC):%Y-%m-%d %H:%M} UTC"
    return looked_from if reason is None else f"{looked_from}; {reason}"


def timed(run: Run, at: float) -> Run:
    """A run as it begins at this instant; its dice are seeded by the job and the instant, and the seed is recorded."""
    return run._replace(started_at=at, seed=zlib.crc32(f"{run.job} {at!r}".encode()))


def _log_late(about: Mapping[str, Any], thread: Future[Report]) -> None:
    """Nobody waits for this thread any more; the log is told that it ended, and of what. Called from the thread."""
    error = thread.exception()
    log.warning("job.ended_late", error_type=None if error is None else type(error).__name__, **about)


def _in_thread(job: Job, ctx: Context) -> Future[Report]:
    """Run a job in a thread that keeps nobody from leaving: not the next job, and not the process."""
    future: Future[Report] = Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(job.run(ctx))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, whatever it is
            future.set_exception(error)

    threading.Thread(target=work, name=f"job-{job.name}", daemon=True).start()
    return future
