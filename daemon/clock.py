"""The only reader of time and dice: whoever needs an instant, an id or a random number is handed a clock."""

from __future__ import annotations

import random
import time
import uuid
from typing import Final, Protocol

#: Before this program existed (2025-01-01T00:00:00Z): a clock that says so, such as one that began at 1970, is wrong.
EARLIEST: Final = 1_735_689_600.0


class Clock(Protocol):
    """Time, ids and dice, as the program is given them."""

    def now(self) -> float:
        """The instant, in epoch seconds (UTC); it may jump when the host's clock is set."""

    def monotonic(self) -> float:
        """Seconds from some fixed point, for waiting and durations; they stand still while the host sleeps."""

    def new_id(self) -> str:
        """A fresh UUIDv4."""

    def rng(self, seed: int) -> random.Random:
        """Dice that fall the same way for the same seed, so that a recorded seed replays a run."""


class SystemClock:
    """The host's own clock."""

    def now(self) -> float:
        """The instant, in epoch seconds (UTC), in whole microseconds: every store gives such a number back as it was."""
        return round(time.time(), 6)

    def monotonic(self) -> float:
        """Seconds since some fixed point."""
        return time.monotonic()

    def new_id(self) -> str:
        """A fresh UUIDv4."""
        return str(uuid.uuid4())

    def rng(self, seed: int) -> random.Random:
        """Dice seeded with `seed`."""
        return random.Random(seed)


class SteadyClock:
    """A clock that never says a time at which this program did not exist yet.

    While the host's clock does, as on a board without a battery until the network is there, time goes on from the last
    instant that was known, at the pace of the monotonic clock. So nothing is ever kept with a date of 1970, which would
    be half a century old, and past every time it is to be kept for, as soon as the clock is right.
    """

    def __init__(self, host: Clock) -> None:
        self._host = host
        self._known = (EARLIEST, host.monotonic())

    @property
    def host_now(self) -> float:
        """What the host's clock says, right or wrong."""
        return self._host.now()

    @property
    def is_wrong(self) -> bool:
        """Whether the host's clock says a time that cannot be."""
        return self.host_now < EARLIEST

    def go_on_from(self, instant: float) -> None:
        """Take this for the last instant that was known, as long as the host knows none."""
        if self.is_wrong:
            self._known = (max(instant, EARLIEST), self._host.monotonic())

    def now(self) -> float:
        """The host's instant, or while that is wrong the last known one and what passed since."""
        now, monotonic = self._host.now(), self._host.monotonic()
        if now >= EARLIEST:
            self._known = (now, monotonic)
            return now
        known, since = self._known
        return round(known + monotonic - since, 6)

    def monotonic(self) -> float:
        """The host's."""
        return self._host.monotonic()

    def new_id(self) -> str:
        """The host's."""
        return self._host.new_id()

    def rng(self, seed: int) -> random.Random:
        """The host's."""
        return self._host.rng(seed)
