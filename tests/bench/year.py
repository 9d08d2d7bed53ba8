"""What an active user needs in a year and no longer finds: dreamd beside LRU and a time to live, as a table and as JSON.

    python tests/bench/year.py [--days 365] [--seeds 3] [--workloads steady,drifting,fading] [--json FILE]

The real daemon, with a clock that can be set and an embedder that sums words, lives through the days; the real jobs of a
night end each. Five things a day are told, and twenty times a day somebody needs one of those told so far and asks for it.
Where it is not live at that moment, that is a *regret*, and it is told again. The same needs in the same order are put to

    LRU          keeps after each night as many as dreamd has then: those told, or needed, last
    TTL 14       forgets what was told, or told again, 14 days ago, however often it was needed: anchor-memory's rule
    TTL tuned    the same with the number of days that makes its mean size dreamd's

All three know exactly what was needed; dreamd knows what its recall found. Ten core and ten pinned memories are told at
first, and nobody ever needs them; they count nowhere, for every policy would keep them.

A workload knows nothing of what a policy looks at: everything is told with the defaults of `remember`, and each thing has a
popularity from birth, independent of all else. Those of the n things of the whole time are 1/1 ... 1/n (Zipf), in random
order. What is needed is drawn from what was told so far,

    steady      by popularity alone
    drifting    half of the times by popularity alone, half among the topics of the day: each thing is of one of 20 topics,
                four are current, and each of these gives way to another after 21 days on average (exponential)
    fading      by popularity that fades: it halves in a time of its own, 30 days on average (exponential), and is whole
                again at random moments, every 180 days on average. After Anderson and Milson, "Human memory: an adaptive
                perspective" (1989), who took it from Burrell's model of library loans

A text is ten words of four thousand, drawn evenly, so that most of its words stand in others too; a question is four of them.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from daemon.presence import note_heartbeat
from storage.model import DAY
from tests.harness import BY_HAND, Daemon

TOLD: Final = 5  # a day
NEEDED: Final = 20  # a day
PROTECTED: Final = 10  # core memories, and as many pinned ones
TTL_DAYS: Final = 14.0

TOPICS: Final = 20
CURRENT: Final = 4
CURRENT_DAYS: Final = 21.0
HALVES_DAYS: Final = 30.0
REVIVED_DAYS: Final = 180.0

Floats = NDArray[np.float64]
Interest = Callable[[float, int], Floats]  # a factor of each of the first so many things, at a time


class Event(NamedTuple):
    """A thing is told, or needed; `at` in days since the beginning."""

    at: float
    thing: int
    needed: bool


class Lived(NamedTuple):
    """What a policy came to: how many needs it met with a regret, and how much it had after each night."""

    regrets: int
    needs: int
    sizes: tuple[int, ...]

    @property
    def regret(self) -> float:
        return self.regrets / self.needs

    @property
    def mean(self) -> float:
        return statistics.fmean(self.sizes)


class Compared(NamedTuple):
    """One workload with one seed, under every policy."""

    workload: str
    seed: int
    dreamd: Lived
    lru: Lived
    ttl: Lived
    tuned: Lived
    tuned_days: float
    protected: list[dict[str, Any]]  # the core and the pinned memories at the end
    outcomes: set[str]  # of the jobs
    found: float  # share of the needs that were live which recall gave
    seconds: float


# -- what is told and needed


def days_of(workload: str, days: int, seed: int) -> list[list[Event]]:
    """The events of each day, in order."""
    dice = np.random.default_rng(seed)
    total = TOLD * days
    popularity = 1.0 / (1.0 + dice.permutation(total))
    interest = WORKLOADS[workload](dice, total)
    told_at = np.sort(dice.random((days, TOLD)), axis=1) + np.arange(days)[:, None]
    whole = []
    for day in range(days):
        events = [Event(float(at), day * TOLD + n, needed=False) for n, at in enumerate(told_at[day])]
        for at in np.sort(dice.random(NEEDED)) + day:
            there = int(np.searchsorted(told_at.ravel(), at))
            if there:
                shares = popularity[:there] * interest(float(at), there)
                events.append(Event(float(at), int(dice.choice(there, p=shares / shares.sum())), needed=True))
        whole.append(sorted(events))
    return whole


def steady(dice: np.random.Generator, total: int) -> Interest:
    """Popularity is all."""
    del dice, total
    return lambda _, there: np.ones(there)


def drifting(dice: np.random.Generator, total: int) -> Interest:
    """Half of the needs are of current topics."""
    topics = dice.integers(TOPICS, size=total)
    current = dice.permutation(TOPICS)[:CURRENT]
    until = dice.exponential(CURRENT_DAYS, CURRENT)

    def interest(at: float, there: int) -> Floats:
        for place in range(CURRENT):
            while until[place] < at:
                current[place] = dice.choice(np.setdiff1d(np.arange(TOPICS), current))
                until[place] += dice.exponential(CURRENT_DAYS)
        of_today = np.isin(topics[:there], current)
        return of_today.astype(np.float64) if of_today.any() and dice.random() < 0.5 else np.ones(there)

    return interest


def fading(dice: np.random.Generator, total: int) -> Interest:
    """Popularity halves again and again, and now and then comes back."""
    half_lives = dice.exponential(HALVES_DAYS, total)
    whole_at, revived_at = np.zeros(total), np.zeros(total)
    known = 0

    def interest(at: float, there: int) -> Floats:
        nonlocal known
        whole_at[known:there] = at
        revived_at[known:there] = at + dice.exponential(REVIVED_DAYS, there - known)
        known = there
        while (due := np.flatnonzero(revived_at[:there] <= at)).size:
            whole_at[due] = revived_at[due]
            revived_at[due] += dice.exponential(REVIVED_DAYS, due.size)
        return np.exp2(-(at - whole_at[:there]) / half_lives[:there])

    return interest


WORKLOADS: Final = {"steady": steady, "drifting": drifting, "fading": fading}


# -- who keeps it


class Policy(Protocol):
    """Keeps things, and forgets some of them at night."""

    def tell(self, thing: int, at: float) -> None:
        """Take it, for the first time or again."""

    def need(self, thing: int, at: float) -> bool:
        """Whether it is there."""

    def sleep(self, at: float, size: int) -> int:
        """Forget what is to go; how much is left. `size` is how much dreamd has left."""


class LeastRecentlyUsed:
    """Keeps those that were told or needed last."""

    def __init__(self) -> None:
        self._used: dict[int, float] = {}

    def tell(self, thing: int, at: float) -> None:
        self._used[thing] = at

    def need(self, thing: int, at: float) -> bool:
        if there := thing in self._used:
            self._used[thing] = at
        return there

    def sleep(self, at: float, size: int) -> int:
        del at
        last = sorted(self._used, key=self._used.__getitem__, reverse=True)[:size]
        self._used = {thing: self._used[thing] for thing in last}
        return len(last)


class TimeToLive:
    """Keeps what was told less than so many days ago."""

    def __init__(self, days: float) -> None:
        self._days = days
        self._told: dict[int, float] = {}

    def tell(self, thing: int, at: float) -> None:
        self._told[thing] = at

    def need(self, thing: int, at: float) -> bool:
        del at
        return thing in self._told

    def sleep(self, at: float, size: int) -> int:
        del size
        self._told = {thing: told for thing, told in self._told.items() if at - told < self._days}
        return len(self._told)


class Dreamd:
    """The daemon: told by `remember`, asked by `recall`, and left alone for a `night`."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self._daemon = daemon
        self._began = daemon.clock.now()
        self._dice = random.Random(seed)
        self._words = sorted({"".join(self._dice.choices("bdfgklmnprstvaeiou", k=7)) for _ in range(4000)})
        self._texts: dict[int, list[str]] = {}
        self._ids: dict[int, str] = {}
        self.live = self.found = 0  # needs that were live, and those of them that recall gave
        self.outcomes: set[str] = set()
        self._protected = [
            daemon.remember(f"{kind} {' '.join(self._dice.choices(self._words, k=10))}", **marks)
            for kind, marks in (("core", {"tier": "core"}), ("pinned", {"pinned": True}))
            for _ in range(PROTECTED)
        ]

    def tell(self, thing: int, at: float) -> None:
        self._wait(at)
        words = self._texts.setdefault(thing, self._dice.choices(self._words, k=10))
        self._ids[thing] = self._daemon.remember(" ".join(words))

    def need(self, thing: int, at: float) -> bool:
        self._wait(at)
        row = self._daemon.in_lane(self._daemon.stores.catalogue.get, self._ids[thing])
        there = row is not None and row.state == "live"
        hits = self._daemon.call("recall", query=" ".join(self._texts[thing][:4]))["hits"]
        self.live += there
        self.found += there and self._ids[thing] in {hit["id"] for hit in hits}
        return there

    def sleep(self, at: float, size: int) -> int:
        del size
        self._wait(at)
        self.outcomes |= set(self._daemon.dream().values())
        return int(self._daemon.call("stats")["total"]) - len(self._protected)

    def protected(self) -> list[dict[str, Any]]:
        return [self._daemon.call("get", id=one) for one in self._protected]

    def _wait(self, at: float) -> None:
        """Let the time pass, awake: a heartbeat an hour."""
        clock, instant = self._daemon.clock, self._began + at * DAY
        while clock.now() < instant:
            clock.advance(min(3600.0, instant - clock.now()))
            self._daemon.in_lane(note_heartbeat, self._daemon.stores, clock.now())


# -- both together


def live_through(policy: Policy, whole: Sequence[Sequence[Event]], sizes: Sequence[int] = ()) -> Lived:
    """Put every event to a policy, a night after each day; what is not there when it is needed is told again."""
    regrets = needs = 0
    left = []
    for day, events in enumerate(whole):
        for at, thing, needed in events:
            if not needed:
                policy.tell(thing, at)
                continue
            needs += 1
            if not policy.need(thing, at):
                regrets += 1
                policy.tell(thing, at)
        left.append(policy.sleep(day + 1.0, sizes[day] if sizes else 0))
    return Lived(regrets, needs, tuple(left))


def tuned(whole: Sequence[Sequence[Event]], mean: float) -> tuple[float, Lived]:
    """The time to live, in days, with which the mean size is this, and what comes of it."""
    low, high = 0.0, float(len(whole))
    while high - low > 0.05:
        middle = (low + high) / 2.0
        smaller = live_through(TimeToLive(middle), whole).mean < mean
        low, high = (middle, high) if smaller else (low, middle)
    return high, live_through(TimeToLive(high), whole)


@contextmanager
def started() -> Iterator[Daemon]:
    """A daemon whose jobs are run by hand, and to whose disk nobody looks."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
    daemon = Daemon(folder, options=BY_HAND | {"DREAMD_STORAGE__FLUSH_SECONDS": "86400"})
    try:
        yield daemon.start()
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


def compare(workload: str, days: int, seed: int) -> Compared:
    """One workload under every policy."""
    whole = days_of(workload, days, seed)
    began = time.perf_counter()
    with started() as daemon:
        dreamd = Dreamd(daemon, seed)
        lived = live_through(dreamd, whole)
        protected = dreamd.protected()
    took = time.perf_counter() - began
    lru = live_through(LeastRecentlyUsed(), whole, lived.sizes)
    limit, fitting = tuned(whole, lived.mean)
    return Compared(
        workload, seed, lived, lru, live_through(TimeToLive(TTL_DAYS), whole), fitting, limit, protected, dreamd.outcomes,
        dreamd.found / max(dreamd.live, 1), took,
    )  # fmt: skip


POLICIES: Final = {"dreamd": "dreamd", "lru": "LRU", "tuned": "TTL tuned", "ttl": "TTL 14"}


def table(results: Sequence[Compared]) -> list[str]:
    """A line for each policy under each workload: means over the seeds, and the spread of the regret."""
    lines = [
        f"{'workload':10} {'policy':10} {'regret':>7} {'least':>6} {'most':>6} {'mean size':>10} {'at the end':>11}"
    ]
    for workload in dict.fromkeys(one.workload for one in results):
        mine = [one for one in results if one.workload == workload]
        for field, name in POLICIES.items():
            lived = [getattr(one, field) for one in mine]
            regrets = [one.regret for one in lived]
            size, end = statistics.fmean(one.mean for one in lived), statistics.fmean(one.sizes[-1] for one in lived)
            lines.append(
                f"{workload:10} {name:10} {statistics.fmean(regrets):7.4f} {min(regrets):6.4f} {max(regrets):6.4f} "
                f"{size:10.0f} {end:11.0f}"
            )
    return lines


def told(one: Compared) -> dict[str, Any]:
    """A comparison as JSON has it."""
    policies = {
        name: {"regret": round(lived.regret, 5), "mean_size": round(lived.mean, 1), "sizes": lived.sizes}
        for name, lived in ((name, getattr(one, name)) for name in POLICIES)
    }
    rest = {
        "workload": one.workload,
        "seed": one.seed,
        "needs": one.dreamd.needs,
        "tuned_days": round(one.tuned_days, 1),
    }
    return {**rest, "found": round(one.found, 4), "seconds": round(one.seconds, 1), **policies}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--seeds", type=int, default=3, help="how many, each another sequence of needs")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    results = []
    for workload in options.workloads.split(","):
        for seed in range(options.seeds):
            results.append(compare(workload, options.days, seed))
            print(f"{workload}, seed {seed}: {results[-1].seconds:.0f} s", file=sys.stderr, flush=True)
    print("\n".join(table(results)))
    if options.json:
        options.json.write_text(json.dumps([told(one) for one in results], indent=1))


if __name__ == "__main__":
    main()
