"""A night: every step in order, nothing destructive without a fresh snapshot, measured by the owner's own questions.

A bug in one step does not keep the next from running; a store that is away ends the night. One that a stop or a crash cut
short goes on, at the next start, with the steps that had not ended well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

import structlog

from daemon.canary import Canaries
from daemon.clock import Clock
from daemon.health import Health
from daemon.stepping import STOPPING, Flight, Stepper, as_of, timed
from jobs.context import Report
from jobs.table import JOBS, NIGHT
from storage import snapshots
from storage.errors import Corrupt, DreamdError, Unavailable
from storage.lane import Lane
from storage.ledger import CUT_OFF, SUCCESSES, Ledger, Run
from storage.model import DAY
from storage.store import Stores
from storage.swap import ARRIVED

log = structlog.get_logger("daemon.night")

NAME: Final = "night"
TICK: Final = 1e-6  # seconds between the beginnings of a night's steps at least, so that no two have one
SNAPSHOT: Final = "snapshot"
NO_SNAPSHOT: Final = "no good snapshot of the last 24 hours"
AWAY: Final = (Unavailable.kind, Corrupt.kind)  # why a run fails from which the store was away


class Nights:
    """Runs nights; whose turn it is, the runner decides."""

    def __init__(
        self, stepper: Stepper, stores: Stores, lane: Lane, clock: Clock, canaries: Canaries, health: Health
    ) -> None:  # fmt: skip
        self._stepper = stepper
        self._stores = stores
        self._lane = lane
        self._clock = clock
        self._canaries = canaries
        self._health = health

    async def run(self, flight: Flight) -> Run:
        """One night, recorded as a run whose steps are runs of their own. What it raises ends the run as failed."""
        began = self._clock.monotonic()
        flight.run = night = timed(flight.run, self._clock.now())
        through = await self._lane.run(steps_done, self._stores.ledger, night) if night.trigger == "catch_up" else set()
        await self._stepper.begin(night)
        try:
            before = [] if night.dry_run else await self._canaries.asked(night.started_at)
            steps, changed = await self._steps(flight, night, through)
            outcome, reason = outcome_of(steps, stopped=flight.stop.is_set() and len(steps) < len(self._due(through)))
            if before and reason != STOPPING:
                night = night._replace(canary=await self._canaries.measured(before, night.started_at))
        except Exception as error:
            kind = error.kind if isinstance(error, DreamdError) else DreamdError.kind
            await self._stepper.finish(night, self._clock.monotonic() - began, "failed", kind, Report({}))
            raise
        if not night.dry_run:
            self._tell(steps)
        examples = [{"job": step.job, "outcome": step.outcome, "run_id": step.id} for step in steps]
        took = self._clock.monotonic() - began
        return await self._stepper.finish(night, took, outcome, as_of(flight, reason), Report(changed, examples))

    def _due(self, through: Collection[str]) -> list[str]:
        return [name for name in NIGHT if name not in self._stepper.settings.left_out and name not in through]

    async def _steps(self, flight: Flight, night: Run, through: Collection[str]) -> tuple[list[Run], dict[str, int]]:
        """Every step that is due, in order, up to a stop; the runs, and how much each job changed."""
        steps: list[Run] = []
        changed: dict[str, int] = {}
        latest = night.started_at
        for name in self._due(through):
            if flight.stop.is_set():
                break
            latest = max(round(latest + TICK, 6), self._clock.now())  # microseconds, as clocks give
            step = self._stepper.record(name, night.trigger, latest)._replace(dry_run=night.dry_run, parent=night.id)
            flight.step, flight.done, flight.total = step, 0, 0
            if JOBS[name].destructive and not await self._may_destroy(step, steps):
                steps.append(await self._stepper.skip(step, NO_SNAPSHOT))
                continue
            step, changed[name] = await self._stepper.step(JOBS[name], flight, step)
            steps.append(step)
            if step.outcome == "failed" and step.reason in AWAY and name != SNAPSHOT:
                break
        flight.step = None
        return steps, changed

    async def _may_destroy(self, step: Run, before: Sequence[Run]) -> bool:
        """Whether there is a copy to go back to, or in a dry run would be, of what the store holds now."""
        if step.dry_run and any(one.job == SNAPSHOT and one.outcome == "changed" for one in before):
            return True
        return await may_destroy(self._stores, step.started_at)

    def _tell(self, steps: Sequence[Run]) -> None:
        """Let health say so where a night could not do all of its work for want of a snapshot."""
        if any(step.reason == NO_SNAPSHOT for step in steps):
            detail = f"The last night merged, pruned and forgot nothing: there is {NO_SNAPSHOT}."
            self._health.degrade(SNAPSHOT, detail, "dreamctl run snapshot")
        elif steps:
            self._health.mend(SNAPSHOT)


async def may_destroy(stores: Stores, now: float) -> bool:
    """Whether there is a copy to go back to of what the store holds now, no older than a day."""
    try:
        arrived = await asyncio.to_thread(stores.ledger.fact, ARRIVED)
        since = float(arrived[0]) if arrived else None
        return await asyncio.to_thread(snapshots.fresh, stores.folder, now, since) is not None
    except (OSError, DreamdError) as error:
        log.warning("night.no_snapshot", error_type=type(error).__name__)
        return False


def steps_done(ledger: Ledger, night: Run) -> set[str]:
    """The jobs that need not run again in a night that goes on with one which was cut short in the last 24 hours.

    A snapshot is taken anew: it is cheap, and is to be of before what follows. What was undone since does not count.
    """
    done: set[str] = set()
    for former in ledger.runs(job=NAME, limit=20):
        if former.dry_run or former.outcome == "skipped":
            continue
        cut = (former.outcome == "cancelled" and former.reason in (STOPPING, CUT_OFF)) or store_was_away(former)
        if not cut or former.undone_by is not None or not 0.0 <= night.started_at - former.started_at < DAY:
            break
        steps = (step for step in ledger.steps_of(former.id) if step.undone_by is None)
        done |= {step.job for step in steps if step.outcome in SUCCESSES and step.job != SNAPSHOT}
    return done


def store_was_away(run: Run) -> bool:
    """Whether a run failed since the store was away; the reason of a night names the step as well."""
    return run.outcome == "failed" and (run.reason or "").rpartition(": ")[2] in AWAY


def outcome_of(steps: list[Run], *, stopped: bool) -> tuple[str, str | None]:
    """A night is as good as its worst step, so that none hides behind the others."""
    failed = next((step for step in steps if step.outcome == "failed"), None)
    if failed is not None:
        return "failed", f"{failed.job}: {failed.reason}"
    cut = next((step for step in steps if step.outcome == "cancelled"), None)
    if stopped or (cut is not None and cut.reason == STOPPING):
        return "cancelled", STOPPING
    if cut is not None:
        return "cancelled", f"{cut.job}: {cut.reason}"
    left = [step.job for step in steps if step.outcome == "skipped"]
    reason = f"{NO_SNAPSHOT}: {', '.join(left)} did not run" if left else None
    return "changed" if any(step.outcome == "changed" for step in steps) else "unchanged", reason
