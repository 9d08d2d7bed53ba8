"""What beats while the daemon runs: heartbeats, the flush of the log, the learning flush, idle work, the watchdog.

Each beat is a coroutine that can also be called by hand; `start` repeats them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from daemon.clock import Clock
from daemon.config import Config
from daemon.notify import Notifier
from daemon.parts import Health
from daemon.runner import Runner
from jobs import hebbian, vacuum
from storage.errors import DreamdError
from storage.forget import SCRUB_DUE
from storage.lane import Lane
from storage.learn import LearnBuffer, Learned
from storage.store import Stores

log = structlog.get_logger("daemon.background")

HEARTBEAT: Final = "heartbeat"
BEAT_SECONDS: Final = 60.0
ABSENT_SECONDS: Final = 3600.0  # without a heartbeat for so long, nobody was there
IDLE_SECONDS: Final = 600.0  # before work that cannot be interrupted
SCRUB_WITHIN: Final = 3000.0  # seconds after a hard forget, idle or not


class Background:
    """The beats of one daemon."""

    def __init__(
        self, config: Config, stores: Stores, lane: Lane, learn: LearnBuffer, runner: Runner, clock: Clock, health: Health,
        idle_since: Callable[[], float],
    ) -> None:  # fmt: skip
        self._config = config
        self._stores = stores
        self._lane = lane
        self._learn = learn
        self._runner = runner
        self._clock = clock
        self._health = health
        self._idle_since = idle_since
        self._unstored: deque[Learned] = deque()

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to beat."""
        beats: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (BEAT_SECONDS, self.heartbeat),
            (BEAT_SECONDS, self.idle_work),
            (self._config.storage.flush_seconds, self.flush),
            (self._config.learn.flush_seconds, self.fold),
        ]
        return [asyncio.create_task(self._repeat(seconds, beat)) for seconds, beat in beats]

    async def heartbeat(self) -> None:
        """Note that we are here; a long silence before it was an absence, in which nothing faded."""
        now = self._clock.now()
        await self._lane.run(note_heartbeat, self._stores, now)

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

    async def idle_work(self) -> None:
        """Scrub within the hour after a hard forget, paused or not; vacuum when nobody asked for ten minutes."""
        if self._stores.damage:
            return
        idle = self._clock.monotonic() - self._idle_since() >= IDLE_SECONDS
        due = await self._lane.run(self._stores.ledger.fact, SCRUB_DUE)
        if (
            due is not None
            and (idle or self._clock.now() - due >= SCRUB_WITHIN)
            and not self._runner.is_active("scrub")
        ):
            await self._runner.run("scrub", trigger="idle")
        if idle and not self._runner.running and not self._runner.paused:
            shares = await self._lane.run(vacuum.deleted_shares, self._stores)
            if vacuum.plan(shares):
                await self._runner.run("vacuum", trigger="idle")

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


def note_heartbeat(stores: Stores, now: float) -> None:
    """Note that we are here, and the absence before it if there was one. Called in the lane."""
    last = stores.ledger.fact(HEARTBEAT)
    if last is not None and now - float(last) > ABSENT_SECONDS:
        stores.ledger.add_absence(float(last), now)
        stores.reload_absences()
        log.info("background.absence", hours=round((now - float(last)) / 3600, 1))
    stores.ledger.set_fact(HEARTBEAT, now)


async def watch(notifier: Notifier, seconds: float, alive: Callable[[], bool]) -> None:
    """Ping the watchdog from the event loop itself, so that a wedged loop stops pinging."""
    while True:
        await asyncio.sleep(seconds)
        if alive():
            notifier.send(watchdog=1)
