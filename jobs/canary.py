"""What a night did to what can be found: real questions of the owner's, asked before it and after it, compared.

    overlap   of the five memories that a question found before the night, the share that it finds among five after it
    rank      where the memories that it once returned stand now, 1 the first, `BEYOND` for what is not among `DEPTH`

Both are means over the questions. A memory that was merged counts as its survivor. One that is live no more was forgotten by
the rules, and is left out, before and after. Asking teaches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from storage.canaries import Canary
from storage.recall import Question
from storage.store import Stores
from storage.where import Where

TOP: Final = 5  # of which the overlap is taken
DEPTH: Final = 10  # places that are looked at
BEYOND: Final = DEPTH + 1

Live = Callable[[str], str | None]  # the live memory that an id stands for now


class Answer(NamedTuple):
    """A question and what it finds at one time: ids, best first, at most `DEPTH`."""

    canary: Canary
    found: tuple[str, ...]


class Measure(NamedTuple):
    """What became of the questions of which something is still there."""

    questions: int
    overlap: float
    rank: float
    rank_before: float


def ask(stores: Stores, canary: Canary, now: float) -> Answer:
    """What a question finds at this moment. Called in the lane."""
    where = Where(now=now, scope=canary.scope, clearance=canary.clearance)
    question = Question("", canary.dense, canary.terms)
    hits = stores.recaller.recall(question, where, stores.awake, k=DEPTH)
    return Answer(canary, tuple(hit.memory.id for hit in hits))


def survivor(stores: Stores, memory: str) -> str | None:
    """The live memory that an id stands for: itself, or what superseded it. Called in the lane."""
    row = stores.catalogue.get(memory)
    heir = None if row is None else stores.catalogue.heir(row)
    return None if heir is None else heir.id


def measure(before: Sequence[Answer], after: Sequence[Answer], live: Live) -> Measure | None:
    """Compare the answers to the same questions, in the same order; None where nothing of any is there to compare."""
    overlaps: list[float] = []
    ranks: list[float] = []
    ranks_before: list[float] = []
    for former, latter in zip(before, after, strict=True):
        kept = _following(former.found, live)[:TOP]
        returned = _following(former.canary.ids, live)
        if not kept or not returned:
            continue
        top = latter.found[:TOP]
        overlaps.append(sum(memory in top for memory in kept) / len(kept))
        ranks.append(_mean_rank(returned, latter.found))
        ranks_before.append(_mean_rank(returned, _following(former.found, live)))
    if not overlaps:
        return None
    count = len(overlaps)
    return Measure(count, sum(overlaps) / count, sum(ranks) / count, sum(ranks_before) / count)


def _following(ids: Sequence[str], live: Live) -> list[str]:
    """The live memories that these stand for, each once, in their order."""
    return list(dict.fromkeys(one for one in map(live, ids) if one is not None))


def _mean_rank(wanted: Sequence[str], found: Sequence[str]) -> float:
    places = {memory: place for place, memory in enumerate(found, 1)}
    return sum(places.get(memory, BEYOND) for memory in wanted) / len(wanted)
