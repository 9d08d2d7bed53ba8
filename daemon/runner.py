"""Runs jobs, whoever asked: one at a time, recorded, within a deadline, stoppable between batches.

The scheduler decides *when*; this decides the rest for scheduled, caught-up and manual runs alike. Jobs work in one thread
of their own and reach the store through the lane, behind the requests.
"""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from daemon.clock import Clock
from daemon.events import Events
from daemon.logbook import Logbook
from jobs import undo
from jobs.context import Context, Report, Settings, Texts
from jobs.table import JOBS, NIGHT, Job
from storage.changes import Change
from storage.errors import Conflict, Corrupt, DreamdError, Unavailable, command
from storage.lane import Lane, Stopping
from storage.learn import LearnBuffer
from storage.ledger import Run
from storage.model import DAY, EVERY_SCOPE
from storage.store import Stores

T = TypeVar("T")

log = structlog.get_logger("daemon.runner")

MAX_WAITING: Final = 16
UNDO_DEADLINE: Final = 600.0  # seconds
PAUSED: Final = "jobs_paused"
STOPPING: Final = "stopping"  # why a run was cut short that goes on at the next start
TICK: Final = 1e-6  # seconds between the beginnings of a night's steps at least: their order is told by them

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
        """Note the progress of the current step, and tell who listens. Called from the jobs' thread."""
        self.done, self.total = done, total
        if self.listener is not None:
            now = self.step or self.run
            self.listener({"job": now.job, "run_id": now.id, "done": done, "total": total})


class Runner:
    """One job at a time."""

    def __init__(
        self,
        stores: Stores,
        lane: Lane,
        learn: LearnBuffer,
        clock: Clock,
        settings: Settings,
        texts: Texts,
        events: Events,
        on_end: Callable[[Run], None],
    ) -> None:
        self._stores = stores
        self._lane = lane
        self._learn = learn
        self._clock = clock
        self._settings = settings
        self._texts = texts
        self._book = Logbook(stores, events)
        self._on_end = on_end
        self._slot = asyncio.Lock()
        self._flights: dict[str, Flight] = {}
        self._current: Flight | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jobs")
        self._tasks: set[asyncio.Task[Run]] = set()
        self._stopping = False
        self._paused = bool(stores.ledger.fact(PAUSED))

    @property
    def running(self) -> str | None:
        """The name of the job under way."""
        return None if self._current is None else self._current.run.job

    @property
    def paused(self) -> bool:
        """Whether scheduled runs are held back; runs by hand are not."""
        return self._paused

    def use(self, **changed: Any) -> None:
        """Change some of the settings, for the runs that begin from now on."""
        self._settings = replace(self._settings, **changed)

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[None]:
        """Let no run begin until this ends. Raises Conflict where one is under way or waits its turn."""
        if self._flights or self._slot.locked():
            name = self.running or next(iter(self._flights), "another exchange of the store")
            raise Conflict(f"{name} is under way.", hint="dreamctl jobs, then try again when nothing runs")
        async with self._slot:
            yield

    def pause(self, *, paused: bool) -> None:
        """Hold scheduled runs back, or let them go again; it survives restarts."""
        self._stores.ledger.set_fact(PAUSED, paused or None)
        self._paused = paused

    def is_active(self, name: str) -> bool:
        """Whether this job runs, by itself or as a step of the night, or waits its turn."""
        return self._active(name) is not None

    async def run(
        self, name: str, *, trigger: str, dry_run: bool = False, wait: bool = True, at: float | None = None,
        scope: str = EVERY_SCOPE, parameters: Mapping[str, Any] | None = None, late_by: float | None = None,
        listener: Progress | None = None,
    ) -> Run:  # fmt: skip
        """Run a job of the table or the night; without `wait` the answer is the run as it was begun. `at` is for dry runs."""
        flight = self._prepare(name, trigger, listener, dry_run=dry_run, at=at, late_by=late_by)
        if name == "night":
            begin = partial(self._night, flight)
        else:
            begin = partial(self._alone, JOBS[name], flight, scope, parameters or {})
        task = self._launch(flight, begin)
        if wait:
            return await asyncio.shield(task)
        task.add_done_callback(partial(_log_lost, name))
        return flight.run

    async def perform(
        self, job: Job, *, dry_run: bool = False, scope: str = EVERY_SCOPE, parameters: Mapping[str, Any] | None = None,
        listener: Progress | None = None,
    ) -> Run:  # fmt: skip
        """Run work that is recorded as a job is and asked for by hand alone, such as an import; waits for its end."""
        flight = self._prepare(job.name, "manual", listener, dry_run=dry_run)
        return await asyncio.shield(self._launch(flight, partial(self._alone, job, flight, scope, parameters or {})))

    async def act(
        self, name: str, plan: Callable[[float], Sequence[Change]], answer: Callable[[], T]
    ) -> tuple[Run, T]:  # fmt: skip
        """Make a run of one batch in a single lane call, as the logbook does: at once, whatever job is under way."""
        self._stores.check_writable()
        run = self._record(name, "manual", self._clock.now())
        run, answered = await self._lane.run(self._book.act, run, plan, answer)
        if run.outcome == "changed":
            self._on_end(run)
        return run, answered

    async def undo(self, run_id: str) -> tuple[Run, list[str], list[str]]:
        """Take a run back; the answer is the undoing run, what came back and what was left."""
        self._stores.check_writable()
        await self._lane.run(self._undoable, run_id)  # what cannot be undone is told now, not when its turn has come
        flight = self._take_off(self._record("undo", "manual", self._clock.now()), None)
        undone = undo.Undone()

        async def begin() -> Run:
            runs = await self._lane.run(self._undoable, run_id)
            flight.run = flight.run._replace(undo_of=runs[-1])
            job = Job("undo", lambda ctx: undo.run(ctx, runs, undone), UNDO_DEADLINE, "take back a run")
            run = await self._alone(job, flight, EVERY_SCOPE, {})
            if run.outcome in ("changed", "unchanged"):
                await self._lane.run(self._mark_undone, runs, run.id)
            return run

        run = await asyncio.shield(self._launch(flight, begin))
        if run.outcome not in ("changed", "unchanged"):
            raise Unavailable(f"The undo of {run_id!r} did not finish ({run.reason}).", hint=command("undo", run_id))
        return run, list(undone.restored), list(undone.left)

    async def stop(self, seconds: float) -> None:
        """Let the step under way end at its next batch, for at most so long."""
        self._stopping = True
        for flight in self._flights.values():
            flight.stop.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- one flight

    def _prepare(
        self, name: str, trigger: str, listener: Progress | None, *, dry_run: bool, at: float | None = None,
        late_by: float | None = None,
    ) -> Flight:  # fmt: skip
        if not dry_run:
            self._stores.check_writable()
        run = self._record(name, trigger, self._clock.now())
        return self._take_off(run._replace(dry_run=dry_run, late_by=late_by), listener, at)

    def _active(self, name: str) -> Flight | None:
        if name in self._flights:
            return self._flights[name]
        step = self._current.step if self._current else None
        return self._current if step is not None and step.job == name else None

    def _take_off(self, run: Run, listener: Progress | None, at: float | None = None) -> Flight:
        other = self._active(run.job)
        if other is not None:
            busy = other.run if other.run.job == run.job or other.step is None else other.step
            progress = f" ({100 * other.done // other.total} %)" if other.total else ""
            raise Conflict(
                f"{run.job} is under way already as run {busy.id}{progress}.", hint="dreamctl runs", run_id=busy.id
            )
        if self._stopping:
            raise Unavailable("The daemon is stopping.", hint="dreamctl health")
        if len(self._flights) > MAX_WAITING:
            raise Unavailable(f"{MAX_WAITING} runs wait already.", hint="dreamctl jobs", retry_after_s=60.0)
        flight = self._flights[run.job] = Flight(run, listener, at)
        return flight

    def _launch(self, flight: Flight, begin: Callable[[], Awaitable[Run]]) -> asyncio.Task[Run]:
        task = asyncio.create_task(self._fly(flight, begin))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _fly(self, flight: Flight, begin: Callable[[], Awaitable[Run]]) -> Run:
        """Wait for the turn, then work; a stop that comes while it waits lets it never begin."""
        try:
            async with self._slot:
                if flight.stop.is_set():
                    raise Unavailable("The daemon is stopping.", hint="dreamctl health")
                self._current = flight
                try:
                    return await begin()
                finally:
                    self._current = None
        finally:
            del self._flights[flight.run.job]

    async def _alone(self, job: Job, flight: Flight, scope: str, parameters: Mapping[str, Any]) -> Run:
        flight.run = _timed(flight.run, self._clock.now())  # it may have waited for its turn
        run, _ = await self._step(job, flight, flight.run, scope, parameters)
        return run

    async def _night(self, flight: Flight) -> Run:
        """Every step in order; a bug in one does not keep the next from running, a store that is away ends the night."""
        began = self._clock.monotonic()
        flight.run = night = _timed(flight.run, self._clock.now())
        await self._lane.run(self._book.begin, night)
        steps: list[Run] = []
        changed: dict[str, int] = {}
        latest = night.started_at
        stopped = False
        for name in NIGHT:
            if name in self._settings.left_out:
                continue
            if flight.stop.is_set():
                stopped = True
                break
            latest = max(latest + TICK, self._clock.now())
            step = self._record(name, night.trigger, latest)._replace(dry_run=night.dry_run, parent=night.id)
            flight.step, flight.done, flight.total = step, 0, 0
            step, changed[name] = await self._step(JOBS[name], flight, step, EVERY_SCOPE, {})
            steps.append(step)
            if step.outcome == "failed" and step.reason in (Unavailable.kind, Corrupt.kind):
                break
        flight.step = None
        outcome, reason = _night_outcome(steps, stopped=stopped)
        examples = [{"job": step.job, "outcome": step.outcome, "run_id": step.id} for step in steps]
        took = self._clock.monotonic() - began
        return await self._finish(night, took, outcome, reason, Report(changed, examples))

    async def _step(
        self, job: Job, flight: Flight, run: Run, scope: str, parameters: Mapping[str, Any]
    ) -> tuple[Run, int]:
        """One recorded run of one job, and how much it changed."""
        began = self._clock.monotonic()
        await self._lane.run(self._book.begin, run)
        ctx = Context(
            stores=self._stores, lane=self._lane, settings=self._settings, run_id=run.id,
            now=run.started_at if flight.at is None else flight.at,
            rng=self._clock.rng(run.seed), dry_run=run.dry_run, scope=scope, parameters=parameters, progress=flight.tell,
            learned=self._learn.take, texts=self._texts,
            stopping=lambda: flight.stop.is_set() or self._clock.monotonic() - began > job.deadline,
        )  # fmt: skip
        about = {"run_id": run.id, "job_name": job.name, "trigger": run.trigger} | (
            {"dry_run": True} if run.dry_run else {}
        )
        with structlog.contextvars.bound_contextvars(**about):
            report, outcome, reason = await self._work(job, ctx)
            if ctx.cut_short and outcome != "failed":
                outcome, reason = "cancelled", STOPPING if flight.stop.is_set() else "deadline"
            if outcome != "failed":
                level = log.info if reason is None else log.warning
                level("job.finished", outcome=outcome, reason=reason, **report.counts)
            if flight.at is not None:
                reason = "; ".join(
                    filter(None, (f"as of {datetime.fromtimestamp(flight.at, UTC):%Y-%m-%d %H:%M} UTC", reason))
                )
            took = self._clock.monotonic() - began
            return await self._finish(run, took, outcome, reason, report), report.changed

    async def _work(self, job: Job, ctx: Context) -> tuple[Report, str, str | None]:
        """The job itself, in the jobs' thread; what it raises becomes an outcome."""
        try:
            report = await asyncio.get_running_loop().run_in_executor(self._thread, job.run, ctx)
        except Stopping:  # the daemon's lanes take no more of it
            return Report({}), "cancelled", STOPPING
        except DreamdError as error:
            log.warning("job.failed", kind=error.kind, detail=error.detail)
            return Report({}), "failed", error.kind
        except Exception:
            log.exception("job.failed", kind="internal")
            return Report({}), "failed", "internal"
        return report, "changed" if report.changed else "unchanged", report.reason

    async def _finish(self, run: Run, took: float, outcome: str, reason: str | None, report: Report) -> Run:
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

    # -- in the lane

    def _undoable(self, run_id: str) -> list[str]:
        oldest = self._clock.now() - self._settings.undo_days * DAY
        return undo.standing(self._stores.ledger, run_id, oldest=oldest)

    def _mark_undone(self, runs: Sequence[str], by: str) -> None:
        for run in runs:
            self._stores.ledger.mark_undone(run, by)

    def _record(self, name: str, trigger: str, at: float) -> Run:
        run = Run(
            self._clock.new_id(), name, None, trigger, False, at, None, 0, None, None, None, {}, [], 0, None, None
        )
        return _timed(run, at)


def _timed(run: Run, at: float) -> Run:
    """A run as it begins at this instant; its dice are seeded by the job and the instant, and the seed is recorded."""
    return run._replace(started_at=at, seed=zlib.crc32(f"{run.job} {at!r}".encode()))


def _log_lost(name: str, task: asyncio.Task[Run]) -> None:
    """Nobody waits for this run, so the log is told why it never began."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.warning("job.not_run", job_name=name, error_type=type(error).__name__)


def _night_outcome(steps: list[Run], *, stopped: bool) -> tuple[str, str | None]:
    """A night is as good as its worst step, so that none hides behind the others."""
    failed = next((step for step in steps if step.outcome == "failed"), None)
    if failed is not None:
        return "failed", f"{failed.job}: {failed.reason}"
    cut = next((step for step in steps if step.outcome == "cancelled"), None)
    if stopped or (cut is not None and cut.reason == STOPPING):
        return "cancelled", STOPPING
    if cut is not None:
        return "cancelled", f"{cut.job}: {cut.reason}"
    return "changed" if any(step.outcome == "changed" for step in steps) else "unchanged", None
