"""Forgetting's formulas, the only place that has them. Pure: instants in, numbers out.

    an edge     w(t) = w · 2^(-t / H)                       H = 6.58 days for learned kinds, 13.51 for manual ones
    a memory    R(t) = e^(-t / S)                           policy ebbinghaus
                S    = (base + reinforcement · accesses) · (0.5 + importance) · (0.75 + emotion / 2) days
                R(t) = max(0, 1 - t / (2 · half_life))      policy linear
                R(t) = 1                                    policy none

t is awake time: what passed while the daemon was down or its host slept does not count. It is never negative, so a
future instant (a clock that ran ahead) has age 0. Sources: the curve is H. Ebbinghaus's ("Über das Gedächtnis", 1885);
the half-lives are anchor-memory's factors 0.9 and 0.95, read as a day's and not as a pass's; the factors of importance
and emotion are ours and both 1 at the default 0.5.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.errors import Invalid
from storage.model import DAY, MAX_EDGE_WEIGHT, Memory

Floats = NDArray[np.float64]
Number = TypeVar("Number", float, NDArray[np.float64])  # a formula that serves one value and a row of them

_LEARNED: Final = -1.0 / math.log2(0.9)  # 6.5788 days
_MANUAL: Final = -1.0 / math.log2(0.95)  # 13.513 days

#: Days in which an edge of that kind loses half its weight. What `next` and `derived` say does not wear off.
HALF_LIFE_DAYS: Final[Mapping[str, float]] = {
    "hebbian": _LEARNED,
    "similar": _LEARNED,
    "concept": _LEARNED,
    "manual": _MANUAL,
    "next": math.inf,
    "derived": math.inf,
}

POLICIES: Final = ("ebbinghaus", "linear", "none")


class Awake:
    """Counts the seconds in which the daemon was awake, given its recorded absences `(start, end)` in any order.

    Works by an awake clock that stands still during an absence; overlapping absences count once.
    """

    def __init__(self, absences: Iterable[tuple[float, float]] = ()) -> None:
        self.absences = _merged(absences)
        self._starts = [start for start, _ in self.absences]
        self._lost = [0.0]  # seconds lost to the first i absences
        self._stops = [-math.inf]  # where the clock stood still during absence i - 1
        for start, end in self.absences:
            self._stops.append(start - self._lost[-1])
            self._lost.append(self._lost[-1] + end - start)
        self._starts_row, self._lost_row = np.array(self._starts, dtype=np.float64), np.array(self._lost)
        self._stops_row = np.array(self._stops)

    def seconds(self, since: float, until: float) -> float:
        """The awake seconds between two instants; 0 where `until` is not after `since`."""
        return max(0.0, self._clock(until) - self._clock(since))

    def seconds_many(self, since: Floats, until: float) -> Floats:
        """`seconds` for a row of instants, (n,) -> (n,)."""
        passed = np.searchsorted(self._starts_row, since, side="right")
        clocks = np.maximum(since - self._lost_row[passed], self._stops_row[passed])
        awake: Floats = np.maximum(0.0, self._clock(until) - clocks)
        return awake

    def after(self, since: float, seconds: float) -> float:
        """The first instant by which `seconds` awake seconds have passed; after the last absence all time counts."""
        reading = self._clock(since) + seconds
        return max(since, reading + self._lost[bisect_left(self._stops, reading, lo=1) - 1])

    def before(self, now: float, seconds: float) -> float:
        """The last instant since which `seconds` awake seconds have passed by `now`: the inverse of `after`."""
        reading = self._clock(now) - seconds
        return min(now, reading + self._lost[bisect_right(self._stops, reading, lo=1) - 1])

    def _clock(self, instant: float) -> float:
        passed = bisect_right(self._starts, instant)
        return max(instant - self._lost[passed], self._stops[passed])


def edge_weight(weight: float, as_of: float, kind: str, now: float, awake: Awake) -> float:
    """What is left at `now` of an edge that weighed `weight` at `as_of`."""
    return weight * _share_left(awake.seconds(as_of, now) / DAY, HALF_LIFE_DAYS[kind])


def edge_weights(weights: Floats, as_of: Floats, kinds: Sequence[str], now: float, awake: Awake) -> Floats:
    """`edge_weight` for a row of edges, all (n,)."""
    half_lives = np.array([HALF_LIFE_DAYS[kind] for kind in kinds], dtype=np.float64)
    return weights * _share_left(awake.seconds_many(as_of, now) / DAY, half_lives)


def strengthen(weight: float, step: float = 0.2) -> float:
    """The weight after one co-activation: the nearer to the greatest weight, the smaller the gain."""
    return weight + step * max(0.0, 1.0 - weight / MAX_EDGE_WEIGHT)


def add(old: float, weight: float) -> float:
    """The weight of two edges made one, at most the greatest."""
    return min(old + weight, MAX_EDGE_WEIGHT)


@dataclass(frozen=True, slots=True)
class Retention:
    """How well a memory is retained, 0..1, and when it is forgotten: strictly below `threshold`.

    The fields are the settings of `[decay]`; values that make no curve raise `Invalid`, which names the field.
    """

    policy: str = "ebbinghaus"
    base_strength_days: float = 7.0
    reinforcement_days: float = 3.5
    half_life_days: float = 7.0
    threshold: float = 0.1

    def __post_init__(self) -> None:
        bounds = (
            ("policy", self.policy in POLICIES, f"one of {', '.join(POLICIES)}"),
            ("base_strength_days", 0.0 < self.base_strength_days < math.inf, "above 0"),
            ("reinforcement_days", 0.0 <= self.reinforcement_days < math.inf, "0 or more"),
            ("half_life_days", 0.0 < self.half_life_days < math.inf, "above 0"),
            ("threshold", 0.0 <= self.threshold <= 1.0, "between 0 and 1"),
        )
        for field, holds, rule in bounds:
            if not holds:
                raise Invalid(
                    f"decay.{field} is {getattr(self, field)!r}; it must be {rule}",
                    hint=f"set {field} under [decay] to a value that is {rule}",
                    field=f"decay.{field}",
                )

    def strength_days(self, access_count: Number, importance: Number, emotion: Number) -> Number:
        """S: the awake days after which a memory is down to 1/e."""
        base = self.base_strength_days + self.reinforcement_days * access_count
        return base * (0.5 + importance) * (0.75 + emotion / 2.0)

    def of(
        self, used_at: float, access_count: float, importance: float, emotion: float, now: float, awake: Awake
    ) -> float:
        """The retention at `now` of a memory last accessed or edited at `used_at`."""
        days = awake.seconds(used_at, now) / DAY
        return float(self._curve(days, self.strength_days(access_count, importance, emotion)))

    def of_many(
        self, used_at: Floats, access_count: Floats, importance: Floats, emotion: Floats, now: float, awake: Awake
    ) -> Floats:
        """`of` for a row of memories, all (n,)."""
        days = awake.seconds_many(used_at, now) / DAY
        return self._curve(days, self.strength_days(access_count, importance, emotion))

    def of_rows(self, rows: Sequence[Memory], now: float, awake: Awake) -> Floats:
        """`of` for whole memories or their catalogue rows, (n,)."""
        values = [(row.used_at, row.access_count, row.importance, row.emotion) for row in rows]
        used_at, access_count, importance, emotion = np.array(values, dtype=np.float64).reshape(-1, 4).T
        return self.of_many(used_at, access_count, importance, emotion, now, awake)

    def keeps(
        self, used_at: float, access_count: float, importance: float, emotion: float, now: float, awake: Awake
    ) -> bool:
        """Whether the memory is still retained; exactly at the threshold it is."""
        return self.of(used_at, access_count, importance, emotion, now, awake) >= self.threshold

    def forgotten_at(
        self, used_at: float, access_count: float, importance: float, emotion: float, awake: Awake
    ) -> float | None:
        """The instant after which retention is below the threshold, if the daemon stays awake after its last absence.

        It lies in the past for a memory that has faded already; None where it never comes.
        """
        if self.policy == "none" or self.threshold == 0.0:
            return None
        if self.policy == "linear":
            days = 2.0 * self.half_life_days * (1.0 - self.threshold)
        else:
            days = -math.log(self.threshold) * self.strength_days(access_count, importance, emotion)
        return awake.after(used_at, days * DAY)

    def _curve(self, days: Number, strength: Number) -> Number:
        retained: Number = 1.0 + 0.0 * days  # all of it, in the shape of `days`
        if self.policy == "ebbinghaus":
            retained = np.exp(-days / strength)
        elif self.policy == "linear":
            retained = np.maximum(0.0, 1.0 - days / (2.0 * self.half_life_days))
        return retained


def _share_left(days: Number, half_life_days: Number) -> Number:
    share: Number = 2.0 ** (-days / half_life_days)
    return share


def _merged(absences: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(absences):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)
