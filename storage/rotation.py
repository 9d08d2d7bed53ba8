"""Which of the nights' snapshots stay: the newest of each of the last 7 days, 4 weeks and 6 months that have one.

Only days, ISO weeks and months in which a snapshot was taken count: neither a month in which the daemon was off nor a clock
that is far ahead lets more of them go than one more night would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from typing import Any, Final

#: What a period is of a local time, and of how many the newest snapshot stays; 17 at most stay in all.
PERIODS: Final[tuple[tuple[Callable[[datetime], Any], int], ...]] = (
    (lambda local: local.date(), 7),
    (lambda local: local.isocalendar()[:2], 4),
    (lambda local: (local.year, local.month), 6),
)


def rotated(taken: Mapping[str, float], now: float, zone: tzinfo) -> list[str]:
    """The names of those that go, oldest first; `taken` says of each when it was taken, in epoch seconds.

    One from after `now` neither goes nor takes the place of another: the clock was wrong then, or is now.
    """
    past = sorted((at, name) for name, at in taken.items() if at <= now)
    stay: set[str] = set()
    for period_of, count in PERIODS:
        newest = {period_of(datetime.fromtimestamp(at, zone)): name for at, name in past}
        stay.update(list(newest.values())[-count:])
    return [name for _, name in past if name not in stay]
