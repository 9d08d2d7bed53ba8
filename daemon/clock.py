"""The only reader of time and dice: whoever needs an instant, an id or a random number is handed a clock."""

from __future__ import annotations

import random
import time
import uuid
from typing import Protocol


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
