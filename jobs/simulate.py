"""A look ahead: day by day somebody asks, night by night the real jobs run, over a copy of the store that nobody else uses.

A question is a memory's own vector and terms, so that what is found beside it is what a recall of it would find; what that
teaches is noted as a recall notes it. How often each memory is asked for:

    zipf       1 / rank; the ranks are a shuffle of what lives at the start (G. K. Zipf, "Human Behavior", 1949)
    uniform    each alike
    none       nobody asks

A memory that is needed while it lies in the bin is brought back, as its owner would; one that was merged is asked for by
its survivor; one whose time is over is asked for no more. No absence comes: the days are those of a daemon that is awake.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, NoReturn

from jobs.context import Context, Settings
from jobs.table import JOBS, NIGHT
from storage import forget
from storage.errors import Conflict, Unavailable
from storage.gate import Admitted
from storage.lane import Lane
from storage.learn import LearnBuffer, taught
from storage.memories import LIVE, Vectors
from storage.model import DAY, SENSITIVITIES, Memory, cleared
from storage.recall import Question
from storage.store import Stores
from storage.where import Where

#: Steps of a night that a look ahead leaves out: copies of a copy, and what a language model would be paid for.
LEFT_OUT: Final = frozenset({"snapshot", "extract", "consolidate", "link", "summarize"})
RECALLS_A_DAY: Final = 20
HITS: Final = 5  # of one recall, as of one that does not say how many
SEED: Final = 1949

Recalls = Literal["zipf", "uniform", "none"]
Dice = Callable[[int], random.Random]  # by seed


class Target(NamedTuple):
    """A memory that somebody may need, as it was when the look ahead began."""

    id: str
    sensitivity: str
    expires_at: float | None


class Day(NamedTuple):
    """What a day and its night did, and what there is after them, of what the caller may see.

    `faded` and `expired` went to the bin, `merged` into another memory; `returned` were needed and brought back from the
    bin, `lost` were needed for the first time after they had been purged. `edges` have both ends live.
    """

    day: int
    at: float
    live: int
    faded: int
    expired: int
    merged: int
    returned: int
    lost: int
    bin: int
    purged: int
    edges: int


# -- who asks for what


def ranked(targets: Iterable[Target], rng: random.Random) -> list[Target]:
    """The targets by how popular they are, the most popular first; chance decides, not the order in which they come."""
    order = sorted(targets)
    rng.shuffle(order)
    return order


def popularity(recalls: Recalls, count: int) -> list[float]:
    """How often each of `count` ranked targets is asked for, as shares of any sum; empty where nobody asks."""
    match recalls:
        case "zipf":
            return [1.0 / rank for rank in range(1, count + 1)]
        case "uniform":
            return [1.0] * count
        case "none":
            return []


# -- what became of them

#: What it is called that a memory is live no more, by where it is then; everything else is fading.
_LEAVING: Final[Mapping[str, str]] = {"expired": "expired", "superseded": "merged"}


def place(row: Memory) -> str:
    """Where a memory is: `live`, `superseded`, or the reason for which it is in the bin."""
    return row.forgotten_reason if row.state == "forgotten" else row.state


def census(rows: Iterable[Memory], clearance: str) -> dict[str, str]:
    """The place of every memory that a caller may see, by id."""
    seen = {level for level in SENSITIVITIES if cleared(level, clearance)}
    return {row.id: place(row) for row in rows if row.sensitivity in seen}


def moves(before: Mapping[str, str], after: Mapping[str, str]) -> Counter[str]:
    """How many faded, expired, merged, were purged or returned between two censuses."""
    counts: Counter[str] = Counter()
    for memory, was in before.items():
        now = after.get(memory)
        if now is None:
            counts["purged"] += 1
        elif now != was and "live" in (was, now):
            counts["returned" if now == "live" else _LEAVING.get(now, "faded")] += 1
    return counts


# -- the days


@dataclass(slots=True)
class World:
    """A store of which nobody else knows, its lane, and what a caller with `clearance` may see of it."""

    stores: Stores
    lane: Lane
    settings: Settings
    dice: Dice
    clearance: str = "secret"
    learn: LearnBuffer = field(default_factory=LearnBuffer)


def run(world: World, now: float, days: int, recalls: Recalls, *, recalls_a_day: int = RECALLS_A_DAY) -> Iterator[Day]:
    """Live through so many days from `now` on, each told as soon as it is over. Raises what a job raises."""
    rng = world.dice(SEED)
    asking = _Asking(world, ranked(world.lane.call(_targets, world.stores), rng), recalls, recalls_a_day, rng)
    began = float(int(now))  # a day after it, in whole seconds, is a day after it to the last digit
    before = world.lane.call(_census, world)
    for day in range(1, days + 1):
        at = began + day * DAY
        asking.follow(world.lane.call(_merged, world.stores))
        lost = asking.day(at - DAY)
        counts, before = _counted(world, before)
        for name in NIGHT:
            if name not in LEFT_OUT and name not in world.settings.left_out:
                JOBS[name].run(_context(world, name, at))
                changed, before = _counted(world, before)
                counts += changed
        live = {memory for memory, where in before.items() if where == "live"}
        yield Day(
            day, at, live=len(live), faded=counts["faded"], expired=counts["expired"], merged=counts["merged"],
            returned=counts["returned"], lost=lost, bin=len(before) - len(live), purged=counts["purged"],
            edges=world.lane.call(_edges, world.stores, live),
        )  # fmt: skip


class _Asking:
    """Somebody who needs memories: which ones, how often, and what was missed."""

    def __init__(
        self, world: World, targets: Sequence[Target], recalls: Recalls, a_day: int, rng: random.Random
    ) -> None:
        shares = popularity(recalls, len(targets))
        self._world = world
        self._targets = targets
        self._shares = list(accumulate(shares))
        self._a_day = a_day if shares else 0
        self._rng = rng
        self._survivors: dict[str, str] = {}
        self._missed: set[str] = set()

    def day(self, began: float) -> int:
        """Ask all day long; returns how many were needed for the first time since they are gone for good."""
        lost = 0
        for number in range(1, self._a_day + 1):
            at = began + DAY * number / (self._a_day + 1)
            (target,) = self._rng.choices(self._targets, cum_weights=self._shares)
            if target.expires_at is not None and target.expires_at <= at:
                continue
            known = self._survivor(target.id)
            if known not in self._missed and not self._world.lane.call(_ask, self._world, known, at):
                self._missed.add(known)
                lost += cleared(target.sensitivity, self._world.clearance)
        return lost

    def follow(self, merged: Mapping[str, str]) -> None:
        """Take note of which memory stands for which since they were merged."""
        self._survivors |= merged

    def _survivor(self, memory: str) -> str:
        while memory in self._survivors:
            memory = self._survivors[memory]
        return memory


def _context(world: World, name: str, at: float) -> Context:
    return Context(
        stores=world.stores, lane=world.lane, settings=world.settings, run_id=f"{name} {at:.0f}", now=at,
        rng=world.dice(zlib.crc32(f"{name} {at!r}".encode())), dry_run=False, stopping=lambda: False,
        progress=lambda _done, _total: None, learned=world.learn.take, texts=_NoTexts(),
    )  # fmt: skip


class _NoTexts:
    """No step of such a night writes a text of its own."""

    def admit(self, given: Mapping[str, Any]) -> Admitted:
        del given
        self._refuse()

    def vectors(self, texts: Sequence[str]) -> list[Vectors]:
        del texts
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Unavailable("A simulation has no embedder.", hint="dreamctl simulate --help")


def _counted(world: World, before: Mapping[str, str]) -> tuple[Counter[str], dict[str, str]]:
    after = world.lane.call(_census, world)
    return moves(before, after), after


# -- in the lane


def _targets(stores: Stores) -> list[Target]:
    return [Target(row.id, row.sensitivity, row.expires_at) for row in stores.catalogue.rows()]


def _census(world: World) -> dict[str, str]:
    return census(world.stores.catalogue.every(), world.clearance)


def _merged(stores: Stores) -> dict[str, str]:
    return {row.id: row.superseded_by for row in stores.catalogue.gone() if row.superseded_by is not None}


def _edges(stores: Stores, live: set[str]) -> int:
    return sum(edge.a in live and edge.b in live for _, edge in stores.synapses.every())


def _ask(world: World, memory: str, at: float) -> bool:
    """Recall a memory by what it says itself, or bring it back; whether it is still there."""
    stores = world.stores
    row = stores.catalogue.get(memory)
    if row is None:
        return False
    if row.state != "live":
        try:
            forget.restore(stores, memory, "secret", at)
        except Conflict:
            return True  # another memory says the same
        return True
    point = stores.catalogue.point(memory)
    said = stores.engine.retrieve(LIVE, [point], fields=[], vectors=True)[point]
    assert said.text is not None
    question, where = Question("", said.dense, said.text), Where(now=at, scope=row.scope)
    hits = stores.recaller.recall(question, where, stores.awake, k=HITS)
    world.learn.note(taught([(hit.memory.id, hit.evidence) for hit in hits]), at)
    return True
