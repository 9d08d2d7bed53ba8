"""Whether somebody was there all the time: the heartbeats in the ledger, and what a gap or a jump between two of them means.

    a gap of over an hour    an absence, in which nothing fades: the daemon was down, its host slept, or its clock was set forth
    a step back              absences that would end later end now; else nothing would fade until the wrong date came again

Whoever reckons with time must know of an absence that has just ended. A host that wakes does not say so, and the next
heartbeat may be a minute away; so the lane looks before each of its calls.
"""

from __future__ import annotations

import math
from typing import Final

import structlog

from daemon.clock import Clock
from storage.errors import DreamdError
from storage.store import Stores

log = structlog.get_logger("daemon.presence")

HEARTBEAT: Final = "heartbeat"
OWED_SINCE: Final = "owed_since"  # no run that was due before is owed: the folder is new, or its clock was set back
ABSENT_SECONDS: Final = 3600.0  # without a heartbeat for so long, nobody was there
RETRY_SECONDS: Final = 60.0  # after a look that failed: a ledger that is locked keeps each for seconds


class Presence:
    """Notices, in the lane, that more time has passed, or less, than a daemon that works lets pass between two calls."""

    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock
        self._seen = clock.now()
        self._again_at = -math.inf  # monotonic; not before

    def look(self) -> None:
        """Note an absence that has just ended, or a clock that was set back; to be made before each call of the lane."""
        now = self._clock.now()
        if abs(now - self._seen) > ABSENT_SECONDS:
            if self._clock.monotonic() < self._again_at:
                return
            try:
                self._note(now)
            except DreamdError:  # the beat meets it too, and tells; the calls go on, and one looks again a minute later
                self._again_at = self._clock.monotonic() + RETRY_SECONDS
                return
        self._seen = now

    def _note(self, now: float) -> None:
        """Beat twice, at the last call before the jump and now; unless a beat came through since a look failed."""
        last = self._stores.ledger.fact(HEARTBEAT)
        if last is None or abs(last - self._seen) < abs(last - now):
            self._stores.ledger.set_fact(HEARTBEAT, self._seen)
            note_heartbeat(self._stores, now)


def note_heartbeat(stores: Stores, now: float) -> None:
    """Note that we are here, and what the time since the last heartbeat was. Called in the lane."""
    ledger = stores.ledger
    last = float(ledger.fact(HEARTBEAT) or now)
    passed = now - last
    with ledger.transaction():
        if passed > ABSENT_SECONDS:
            ledger.add_absence(last, now)
        elif passed < 0.0:
            ledger.cut_absences(now)
        if passed < -ABSENT_SECONDS:
            ledger.set_fact(OWED_SINCE, now)
        ledger.set_fact(HEARTBEAT, now)
    if passed > ABSENT_SECONDS or passed < 0.0:
        stores.reload_absences()
    if abs(passed) > ABSENT_SECONDS:
        log.info("presence.absence" if passed > 0.0 else "presence.set_back", hours=round(abs(passed) / 3600, 1))
