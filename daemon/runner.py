"""Runs jobs, whoever asked: one at a time, recorded, within a deadline, stoppable between batches.

The scheduler decides *when*; this decides whose turn it is, for scheduled, caught-up and manual runs alike. Jobs reach the
store through the lane, behind the requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from daemon import night
from daemon.canary import Canaries
from daemon.clock import Clock
from daemon.health import Health
from daemon.logbook import Logbook
from daemon.night import Nights
from daemon.stepping import Flight, Progress, Stepper, timed
from jobs.context import Settings, Texts
from jobs.table import JOBS, Job
from jobs.undo import Undone, standing
from jobs.undo import run as undoing
from storage.changes import Change
from storage.errors import Conflict, DreamdError, Unavailable, command
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.ledger import SUCCESSES, Run
from storage.model import DAY, EVERY_SCOPE
from storage.store import Stores

T = TypeVar("T")

log = structlog.get_logger("daemon.runner")

MAX_WAITING: Final = 16
UNDO_DEADLINE: Final = 600.0  # seconds
PAUSED: Final = "jobs_paused"


class Runner:
    """One job at a time."""

    def __init__(
        self, stores: Stores, lane: Lane, learn: LearnBuffer, clock: Clock, settings: Settings, texts: Texts, book: Logbook,
        canaries: Canaries, health: Health, on_end: Callable[[Run], None],
    ) -> None:  # fmt: skip
        self._stores = stores
        self._lane = lane
        self._clock = clock
        self._book = book
        self._canaries = canaries
        self._on_end = on_end
        self._stepper = Stepper(stores, lane, learn, clock, settings, texts, book, on_end)
        self._nights = Nights(self._stepper, stores, lane, clock, canaries, health)
        self._slot = asyncio.Lock()
        self._flights: dict[str, Flight] = {}
        self._current: Flight | None = None
        self._tasks: set[asyncio.Task[Run]] = set()
        self._stopping = False
        self._paused = bool(stores.ledger.fact(PAUSED))

    @property
    def running(self) -> str | None:
        """The name of the job under way."""
        return None if self._current is None else self._current.run.job

    @property
    def settings(self) -> Settings:
        """What the runs that begin from now on are told."""
        return self._stepper.settings

    @property
    def paused(self) -> bool:
        """Whether scheduled runs are held back; runs by hand are not."""
        return self._paused

    def use(self, **changed: Any) -> None:
        """Change some of the settings, for the runs that begin from now on."""
        self._stepper.use(**changed)

    @asynccontextmanager
    async def undisturbed(self) -> AsyncIterator[None]:
        """Let no run begin until this ends. Raises Conflict where one is under way or waits its turn."""
        if self._flights or self._slot.locked():
            name = self.running or next(iter(self._flights), "another exchange of the store")
            raise Conflict(f"{name} is under way.", hint="dreamctl jobs, then try again when nothing runs")
        async with self._slot:
            yield

    async def pause(self, *, paused: bool) -> None:
        """Hold scheduled runs back, or let them go again; it survives restarts."""
        await self._lane.run(self._stores.ledger.set_fact, PAUSED, paused or None)
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
        if name == night.NAME:
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
        run = self._stepper.record(name, "manual", self._clock.now())
        run, answered = await self._lane.run(self._book.act, run, plan, answer)
        if run.outcome == "changed":
            self._on_end(run)
        return run, answered

    async def skip(self, name: str, *, trigger: str, reason: str, late_by: float | None = None) -> Run:
        """Record that a scheduled run does not take place, so that its time counts as met."""
        run = self._stepper.record(name, trigger, self._clock.now())
        return await self._stepper.skip(run._replace(late_by=late_by), reason)

    async def undo(self, run_id: str) -> tuple[Run, list[str], list[str]]:
        """Take a run back; the answer is the undoing run, what came back and what was left."""
        self._stores.check_writable()
        await self._lane.run(self._undoable, run_id)  # what cannot be undone is told now, not when its turn has come
        flight = self._take_off(self._stepper.record("undo", "manual", self._clock.now()), None)
        undone = Undone()
        run = await asyncio.shield(self._launch(flight, partial(self._take_back, flight, flight.run, run_id, undone)))
        if run.outcome not in SUCCESSES:
            raise Unavailable(f"The undo of {run_id!r} did not finish ({run.reason}).", hint=command("undo", run_id))
        return run, list(undone.restored), list(undone.left)

    def ask_to_stop(self) -> None:
        """Let the step under way end at its next batch and nothing else begin, and do not wait for that."""
        self._stopping = True
        for flight in self._flights.values():
            flight.stop.set()

    async def stop(self, seconds: float) -> None:
        """Let the step under way end at its next batch, and wait for that, for at most so long."""
        self.ask_to_stop()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    # -- one flight

    def _prepare(
        self, name: str, trigger: str, listener: Progress | None, *, dry_run: bool, at: float | None = None,
        late_by: float | None = None,
    ) -> Flight:  # fmt: skip
        if not dry_run:
            self._stores.check_writable()
        run = self._stepper.record(name, trigger, self._clock.now())
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
                f"{run.job} is under way already as run {busy.id}{progress}.", hint="dreamctl runs", run_id=busy.id,
                done=other.done, total=other.total,
            )  # fmt: skip
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
        flight.run = run = timed(flight.run, self._clock.now())  # it may have waited for its turn
        if job.destructive and run.trigger != "manual" and not await night.may_destroy(self._stores, run.started_at):
            return await self._stepper.skip(run, night.NO_SNAPSHOT)
        run, _ = await self._stepper.step(job, flight, run, scope, parameters)
        return run

    async def _night(self, flight: Flight) -> Run:
        """A night, and where it did harm and the owner wants it so, its undo."""
        run = await self._nights.run(flight)
        why = self._canaries.tell(run)
        if why is None:
            return run
        try:
            taking = self._stepper.record("undo", "canary", self._clock.now())
            await self._take_back(flight, taking, run.id, Undone(), why)
        except DreamdError as error:  # the night has ended, and health goes on to say what is wrong with it
            log.warning("canary.not_undone", run_id=run.id, kind=error.kind, detail=error.detail)
        return await self._lane.run(self._stores.ledger.run, run.id) or run

    async def _take_back(self, flight: Flight, run: Run, run_id: str, undone: Undone, why: str | None = None) -> Run:
        """Undo a run as the run `run`; `undone` is filled as it goes."""
        runs = await self._lane.run(self._undoable, run_id)
        flight.step = run = timed(run, self._clock.now())._replace(undo_of=runs[-1])
        job = Job("undo", lambda ctx: undoing(ctx, runs, undone)._replace(reason=why), UNDO_DEADLINE, "take back a run")
        run, _ = await self._stepper.step(job, flight, run)
        flight.step = None
        if run.outcome in SUCCESSES:
            await self._lane.run(self._mark_undone, runs, run.id)
            await self._canaries.reconsider()
        return run

    # -- in the lane

    def _undoable(self, run_id: str) -> list[str]:
        oldest = self._stores.awake.before(self._clock.now(), self._stepper.settings.undo_days * DAY)
        return standing(self._stores.ledger, run_id, oldest=oldest)

    def _mark_undone(self, runs: Sequence[str], by: str) -> None:
        for run in runs:
            self._stores.ledger.mark_undone(run, by)


def _log_lost(name: str, task: asyncio.Task[Run]) -> None:
    """Nobody waits for this run, so the log is told why it never began."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.warning("job.not_run", job_name=name, error_type=type(error).__name__)
