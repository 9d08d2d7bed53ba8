"""What beats while the daemon runs: heartbeats, the flush of the log, the learning flush, idle work, the watchdog.

Each beat is a coroutine that can also be called by hand; `start` repeats them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from daemon.canary import Canaries
from daemon.clock import SteadyClock
from daemon.config import Config
from daemon.health import Health
from daemon.notify import Notifier
from daemon.presence import note_heartbeat
from daemon.runner import Runner
from jobs import hebbian, vacuum
from storage.errors import DreamdError
from storage.forget import SCRUB_DUE
from storage.instants import format_instant
from storage.lane import Lane
from storage.learn import LearnBuffer, Learned
from storage.ledger import SUCCESSES
from storage.store import Stores

log = structlog.get_logger("daemon.background")

BEAT_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 600.0  # before work that cannot be interrupted
SCRUB_WITHIN: Final = 3000.0  # seconds after a hard forget, idle or not
RETRY_SECONDS: Final = 3600.0  # before idle work that failed is tried again
CLOCK: Final = "clock"  # what health calls a host's clock that is wrong


class Background:
    """The beats of one daemon."""

    def __init__(
        self, config: Config, stores: Stores, lane: Lane, learn: LearnBuffer, runner: Runner, clock: SteadyClock, health: Health,
        canaries: Canaries, idle_since: Callable[[], float],
    ) -> None:  # fmt: skip
        self._config = config
        self._stores = stores
        self._lane = lane
        self._learn = learn
        self._runner = runner
        self._clock = clock
        self._health = health
        self._canaries = canaries
        self._idle_since = idle_since
        self._unstored: deque[Learned] = deque()
        self._failed_at: dict[str, float] = {}  # monotonic, by the name of the job

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to beat."""
        self._tell_of_clock()
        beats: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (BEAT_SECONDS, self.heartbeat),
            (BEAT_SECONDS, self.idle_work),
            (self._config.storage.flush_seconds, self.flush),
            (self._config.learn.flush_seconds, self.fold),
        ]
        return [asyncio.create_task(self._repeat(seconds, beat)) for seconds, beat in beats]

    async def heartbeat(self) -> None:
        """Note that we are here; a long silence before it was an absence, in which nothing faded."""
        self._tell_of_clock()
        await self._lane.run(note_heartbeat, self._stores, self._clock.now())

    async def flush(self) -> None:
        """Bring what was acknowledged to the disk."""
        if not self._stores.damage:
            await self._lane.run(self._stores.flush, urgent=False)

    async def fold(self) -> None:
        """Store what the recalls taught, once each; what cannot be stored now waits for the next time."""
        if self._stores.damage:
            return
        if not self._unstored:
            self._unstored.extend(hebbian.slices(self._learn.take()))
        now = self._clock.now()
        while self._unstored:
            part = self._unstored.popleft()
            try:  # shielded, for a stop must not take back what the lane was given
                await asyncio.shield(self._lane.run(hebbian.fold, self._stores, part, now, None, urgent=False))
            except DreamdError:
                self._unstored.appendleft(part)
                raise
        await self._canaries.keep()

    async def idle_work(self) -> None:
        """Scrub within the hour after a hard forget, paused or not; vacuum when nobody asked for ten minutes."""
        if self._stores.damage:
            return
        idle = self._clock.monotonic() - self._idle_since() >= IDLE_SECONDS
        due = await self._lane.run(self._stores.ledger.fact, SCRUB_DUE)
        if due is not None and (idle or not 0.0 <= self._clock.now() - due < SCRUB_WITHIN):
            await self._run_idle("scrub")
        if idle and not self._runner.running and not self._runner.paused:
            shares = await self._lane.run(vacuum.deleted_shares, self._stores)
            if vacuum.plan(shares):
                await self._run_idle("vacuum")

    async def _run_idle(self, name: str) -> None:
        """Run such a job, unless it is under way or failed within the hour."""
        now = self._clock.monotonic()
        waits = now - self._failed_at.get(name, -RETRY_SECONDS) < RETRY_SECONDS
        if waits or self._runner.is_active(name):
            return
        run = await self._runner.run(name, trigger="idle")
        if run.outcome not in SUCCESSES:
            self._failed_at[name] = now

    def _tell_of_clock(self) -> None:
        """Say once that the host's clock is wrong, and once that it is right again."""
        told = CLOCK in self._health.reasons
        if self._clock.is_wrong:
            said, now = (format_instant(instant) for instant in (self._clock.host_now, self._clock.now()))
            detail = (
                f"The host's clock says {said}, which cannot be: time goes on from {now}, and no job runs by itself."
            )
            self._health.degrade(CLOCK, detail, "timedatectl status")
            if not told:
                log.warning("background.clock_wrong", host=said, now=now)
        elif told:
            self._health.mend(CLOCK)
            log.info("background.clock_right")

    async def _repeat(self, seconds: float, beat: Callable[[], Awaitable[None]]) -> None:
        name = beat.__name__
        while True:
            await asyncio.sleep(seconds)
            try:
                await beat()
            except DreamdError as error:
                log.warning("background.failed", beat=name, kind=error.kind, detail=error.detail)
                self._health.degrade(name, error.detail, error.hint)
            except Exception:
                log.exception("background.failed", beat=name)
                self._health.degrade(
                    name, f"The {name} beat met a bug; the log tells more.", "journalctl --user -u dreamd"
                )
            else:
                self._health.mend(name)


async def watch(notifier: Notifier, seconds: float, alive: Callable[[], bool]) -> None:
    """Ping the watchdog from the event loop itself, so that a wedged loop stops pinging."""
    while True:
        await asyncio.sleep(seconds)
        if alive():
            notifier.send(watchdog=1)
