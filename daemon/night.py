"""A night: every step in order, nothing destructive without a fresh snapshot, measured by the owner's own questions.

A bug in one step does not keep the next from running; a store that is away ends the night. One that a stop or a crash cut
short goes on, at the next start, with the steps that had not ended well.
"""

from __future__ import annotations

import asyncio
from typing import Final

from daemon.canary import Canaries
from daemon.clock import Clock
from daemon.stepping import STOPPING, Flight, Stepper, timed
from jobs.context import Report
from jobs.table import JOBS, NIGHT
from storage import snapshots
from storage.errors import Corrupt, Unavailable
from storage.lane import Lane
from storage.ledger import CUT_OFF, Ledger, Run
from storage.model import DAY
from storage.store import Stores

NAME: Final = "night"
TICK: Final = 1e-6  # seconds between the beginnings of a night's steps at least: their order is told by them
SNAPSHOT: Final = "snapshot"
NO_SNAPSHOT: Final = "no good snapshot of the last 24 hours"
SUCCESSES: Final = ("changed", "unchanged")


class Nights:
    """Runs nights; whose turn it is, the runner decides."""

    def __init__(self, stepper: Stepper, stores: Stores, lane: Lane, clock: Clock, canaries: Canaries) -> None:
        self._stepper = stepper
        self._stores = stores
        self._lane = lane
        self._clock = clock
        self._canaries = canaries

    async def run(self, flight: Flight) -> Run:
        """One night, recorded as a run whose steps are runs of their own."""
        began = self._clock.monotonic()
        flight.run = night = timed(flight.run, self._clock.now())
        through = await self._lane.run(steps_done, self._stores.ledger, night) if night.trigger == "catch_up" else set()
        await self._stepper.begin(night)
        before = [] if night.dry_run else await self._canaries.asked(night.started_at)
        steps: list[Run] = []
        changed: dict[str, int] = {}
        latest = night.started_at
        stopped = False
        for name in NIGHT:
            if name in self._stepper.settings.left_out or name in through:
                continue
            if flight.stop.is_set():
                stopped = True
                break
            latest = max(latest + TICK, self._clock.now())
            step = self._stepper.record(name, night.trigger, latest)._replace(dry_run=night.dry_run, parent=night.id)
            flight.step, flight.done, flight.total = step, 0, 0
            if JOBS[name].destructive and not await self._may_destroy(step):
                steps.append(await self._stepper.skip(step, NO_SNAPSHOT))
                continue
            step, changed[name] = await self._stepper.step(JOBS[name], flight, step)
            steps.append(step)
            if step.outcome == "failed" and step.reason in (Unavailable.kind, Corrupt.kind) and name != SNAPSHOT:
                break
        flight.step = None
        outcome, reason = outcome_of(steps, stopped=stopped)
        if before and not stopped:
            night = night._replace(canary=await self._canaries.measured(before, night.started_at))
        examples = [{"job": step.job, "outcome": step.outcome, "run_id": step.id} for step in steps]
        took = self._clock.monotonic() - began
        return await self._stepper.finish(night, took, outcome, reason, Report(changed, examples))

    async def _may_destroy(self, step: Run) -> bool:
        """Whether there is a copy to go back to."""
        if step.dry_run:
            return True
        return await asyncio.to_thread(snapshots.fresh, self._stores.folder, step.started_at) is not None


def steps_done(ledger: Ledger, night: Run) -> set[str]:
    """The jobs that need not run again in a night that goes on with one which was cut short in the last 24 hours."""
    done: set[str] = set()
    for former in ledger.runs(job=NAME, limit=20):
        if former.dry_run or former.outcome == "skipped":
            continue
        cut = former.outcome == "cancelled" and former.reason in (STOPPING, CUT_OFF)
        if not cut or not 0.0 <= night.started_at - former.started_at < DAY:
            break
        done |= {step.job for step in ledger.steps_of(former.id) if step.outcome in SUCCESSES}
    return done


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
