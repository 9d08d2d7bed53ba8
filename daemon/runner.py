"""Runs jobs, whoever asked: one at a time, recorded, within a deadline, stoppable between batches.

The scheduler decides *when*; this decides the rest for scheduled, caught-up and manual runs alike. Jobs work in one thread
of their own and reach the store through the lane, behind the requests.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from daemon.clock import Clock
from jobs import undo
from jobs.context import Context, Report, Settings
from jobs.table import JOBS, NIGHT, Job
from storage.errors import Conflict, Corrupt, DreamdError, NotFound, Refused, Unavailable
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.ledger import Run
from storage.store import Stores

log = structlog.get_logger("daemon.runner")

MAX_WAITING: Final = 16
PAUSED: Final = "jobs_paused"

Progress = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class Flight:
    """A run that is under way or waits its turn."""

    run_id: str
    name: str
    listener: Progress | None
    done: int = 0
    total: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def tell(self, done: int, total: int) -> None:
        """Note the progress of the current step, and tell who listens."""
        self.done, self.total = done, total
        if self.listener is not None:
            self.listener({"job": self.name, "run_id": self.run_id, "done": done, "total": total})


class Runner:
    """One job at a time."""

    def __init__(
        self,
        stores: Stores,
        lane: Lane,
        learn: LearnBuffer,
        clock: Clock,
        settings: Settings,
        on_end: Callable[[Run], None],
    ) -> None:
        self._stores = stores
        self._lane = lane
        self._learn = learn
        self._clock = clock
        self._settings = settings
        self._on_end = on_end
        self._slot = asyncio.Lock()
        self._flights: dict[str, Flight] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jobs")
        self._tasks: set[asyncio.Task[Run]] = set()
        self._stopping = False

    @property
    def running(self) -> str | None:
        """The name of the job under way."""
        return next((name for name in self._flights if self._slot.locked()), None)

    def is_active(self, name: str) -> bool:
        """Whether this job runs or waits its turn."""
        return name in self._flights

    @property
    def paused(self) -> bool:
        """Whether scheduled runs are held back; runs by hand are not."""
        return bool(self._stores.ledger.fact(PAUSED))

    def pause(self, *, paused: bool) -> None:
        """Hold scheduled runs back, or let them go again; it survives restarts."""
        self._stores.ledger.set_fact(PAUSED, paused or None)

    async def run(
        self, name: str, *, trigger: str, dry_run: bool = False, wait: bool = True, at: float | None = None, scope: str = "*",
        parameters: Mapping[str, Any] | None = None, late_by: float | None = None, listener: Progress | None = None,
    ) -> Run:  # fmt: skip
        """Run a job or the night; without `wait` the answer is the run as it was begun."""
        flight = self._take_off(name, listener)
        start = self._clock.now() if at is None else at
        run = self._record(flight.run_id, name, trigger, start, dry_run=dry_run, late_by=late_by)
        task = asyncio.create_task(self._fly(flight, run, scope, dict(parameters or {}), at))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task) if wait else run

    async def undo(self, run_id: str) -> tuple[Run, list[str], list[str]]:
        """Take a run back; the answer is the undoing run, what came back and what was left."""
        target = await self._lane.run(self._stores.ledger.run, run_id)
        if target is None:
            raise NotFound(f"There is no run {run_id!r}.", hint="dreamctl runs")
        if target.dry_run or target.outcome is None:
            state = "was a dry run" if target.dry_run else "is still under way"
            raise Refused(f"Run {run_id!r} {state}; there is nothing to take back.", hint="dreamctl runs")
        if target.undone_by is not None:
            raise Conflict(
                f"Run {run_id!r} was undone already.", hint=f"dreamctl undo {target.undone_by}", run_id=target.undone_by
            )
        steps = await self._lane.run(self._stores.ledger.steps_of, run_id)
        runs = [step.id for step in reversed(steps)] or [run_id]
        flight = self._take_off("undo", None)
        undone: list[undo.Undone] = []
        run = self._record(flight.run_id, "undo", "manual", self._clock.now())._replace(undo_of=run_id)
        done = await asyncio.shield(asyncio.create_task(self._fly(flight, run, "*", {"runs": runs, "undone": undone})))
        if done.outcome == "failed" or not undone:
            raise Unavailable(f"The undo of {run_id!r} did not finish ({done.reason}).", hint=f"dreamctl undo {run_id}")
        await self._lane.run(self._mark_undone, [run_id, *runs], target, done.id)
        return done, undone[0].restored, undone[0].left

    async def stop(self, seconds: float) -> None:
        """Let the step under way end at its next batch, for at most so long."""
        self._stopping = True
        for flight in self._flights.values():
            flight.stop.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- one flight

    def _take_off(self, name: str, listener: Progress | None) -> Flight:
        if name in self._flights:
            flight = self._flights[name]
            progress = f" ({100 * flight.done // flight.total} %)" if flight.total else ""
            raise Conflict(
                f"{name} is under way already as run {flight.run_id}{progress}.",
                hint="dreamctl runs",
                run_id=flight.run_id,
            )
        if len(self._flights) > MAX_WAITING:
            raise Unavailable(f"{MAX_WAITING} runs wait already.", hint="dreamctl jobs", retry_after_s=60.0)
        if self._stopping:
            raise Unavailable("The daemon is stopping.", hint="dreamctl health")
        flight = self._flights[name] = Flight(self._clock.new_id(), name, listener)
        return flight

    async def _fly(
        self, flight: Flight, run: Run, scope: str, parameters: dict[str, Any], at: float | None = None
    ) -> Run:
        try:
            async with self._slot:
                if at is None:  # it may have waited for its turn
                    run = run._replace(started_at=self._clock.now())
                if flight.name == "night":
                    return await self._night(flight, run, scope)
                job = JOBS.get(flight.name) or Job("undo", undo.run, 600, "")
                return await self._step(job, flight, run, scope, parameters)
        finally:
            del self._flights[flight.name]

    async def _night(self, flight: Flight, night: Run, scope: str) -> Run:
        """Every step in order; a bug in one does not keep the next from running, a store that is away ends the night."""
        await self._lane.run(self._stores.ledger.start_run, night)
        outcomes: dict[str, str] = {}
        reason: str | None = None
        for name in NIGHT:
            if flight.stop.is_set():
                reason = "stopping"
                break
            step = self._record(self._clock.new_id(), name, night.trigger, night.started_at, dry_run=night.dry_run)
            step = await self._step(JOBS[name], flight, step._replace(parent=night.id), scope, {})
            outcomes[name] = step.outcome or "cancelled"
            if step.outcome == "failed" and step.reason in (Unavailable.kind, Corrupt.kind):
                reason = f"{name}: {step.reason}"
                break
        return await self._finish(
            night, _night_outcome(outcomes, reason), reason, dict.fromkeys(outcomes, 1), [outcomes]
        )

    async def _step(self, job: Job, flight: Flight, run: Run, scope: str, parameters: dict[str, Any]) -> Run:
        await self._lane.run(self._stores.ledger.start_run, run)
        overrun = self._clock.monotonic() + job.deadline
        ctx = Context(
            stores=self._stores, lane=self._lane, settings=self._settings, run_id=run.id, now=run.started_at,
            rng=self._clock.rng(run.seed), dry_run=run.dry_run, scope=scope, parameters=parameters, progress=flight.tell,
            learned=self._learn.take, stopping=lambda: flight.stop.is_set() or self._clock.monotonic() > overrun,
        )  # fmt: skip
        with structlog.contextvars.bound_contextvars(run_id=run.id, job_name=job.name, trigger=run.trigger):
            try:
                report = await asyncio.get_running_loop().run_in_executor(self._thread, job.run, ctx)
            except DreamdError as error:
                log.warning("job.failed", kind=error.kind, detail=error.detail)
                return await self._finish(run, "failed", error.kind, {}, [])
            except Exception:
                log.exception("job.failed", kind="internal")
                return await self._finish(run, "failed", "internal", {}, [])
            stopped = report.stopped or ctx.stopping()
            outcome = "cancelled" if stopped else "changed" if report.changed else "unchanged"
            reason = ("stopping" if flight.stop.is_set() else "deadline") if stopped else report.reason
            _log_report(report, outcome, reason)
            return await self._finish(run, outcome, reason, report.counts, list(report.examples))

    async def _finish(
        self, run: Run, outcome: str, reason: str | None, counts: dict[str, int], examples: list[dict[str, Any]]
    ) -> Run:
        took = max(self._clock.now() - run.started_at, 0.0) if run.started_at <= self._clock.now() else 0.0
        done = run._replace(
            ended_at=run.started_at + took, outcome=outcome, reason=reason, counts=counts, examples=examples
        )
        await self._lane.run(self._end_run, done)
        self._on_end(done)
        return done

    def _end_run(self, run: Run) -> None:
        self._stores.ledger.end_run(
            run.id,
            run.ended_at or run.started_at,
            run.outcome or "failed",
            reason=run.reason,
            counts=run.counts,
            examples=run.examples,
        )

    def _mark_undone(self, runs: list[str], target: Run, by: str) -> None:
        for run in runs:
            self._stores.ledger.mark_undone(run, by)
        if target.undo_of is not None:  # the undo of an undo: what it had taken back stands again
            self._stores.ledger.mark_undone(target.undo_of, None)

    def _record(
        self, run_id: str, name: str, trigger: str, at: float, *, dry_run: bool = False, late_by: float | None = None
    ) -> Run:
        """A run as it begins; its dice are seeded by the job and the instant, and the seed is recorded."""
        seed = int(at) ^ sum(ord(letter) << (8 * (i % 4)) for i, letter in enumerate(name))
        return Run(run_id, name, None, trigger, dry_run, at, None, seed, late_by, None, None, {}, [], 0, None, None)


def _night_outcome(outcomes: Mapping[str, str], reason: str | None) -> str:
    if reason is not None:
        return "cancelled" if reason == "stopping" else "failed"
    if "cancelled" in outcomes.values():
        return "cancelled"
    return (
        "changed"
        if "changed" in outcomes.values()
        else "failed"
        if set(outcomes.values()) == {"failed"}
        else "unchanged"
    )


def _log_report(report: Report, outcome: str, reason: str | None) -> None:
    level = log.warning if reason else log.info
    level("job.finished", outcome=outcome, reason=reason, **report.counts)
