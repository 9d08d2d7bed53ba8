"""How good a candidate is: evidence by absolute values, then bounded boosts. Pure; arrays in, arrays out.

    base     = max(cosine, 0) + bm25 / max(best bm25, FLOOR)
    evidence = base + spread over edges + session + entity and date (together at most 0.8) - question
    score    = evidence + citation + emotion + recency + importance + heat

Rank fusion throws the scores away and lands below BM25 alone on LoCoMo; the sum keeps them. What each term is worth is
printed by `tests/bench/locomo.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.model import DAY, Memory

Column = NDArray[np.float64]  # (candidates,)

#: A lone weak keyword match must not score like a perfect one: BM25 is divided by at least this in a scope of `POPULATION`
#: memories, and by less in a smaller one, whose IDF, the logarithm of its size, cannot reach as far.
FLOOR: Final = 4.0
POPULATION: Final = 600
NAMED_CAP: Final = 0.8  # author and date together
BOOSTS: Final = ("citation", "emotion", "recency", "importance", "heat")
TERMS: Final = ("cosine", "bm25", "spread", "session", "entity", "date", "question", *BOOSTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """What each term counts; the first group is evidence, the second boosts.

    Starting points, kept where the bench on LoCoMo earns them.
    """

    next_one: float = 0.4
    next_two: float = 0.2
    answer: float = 0.2
    edge: float = 0.4  # for an edge of full weight, and at most in sum
    session: float = 0.3
    author: float = 0.5
    mentioned: float = 0.25
    date: float = 0.25
    question: float = 0.1

    citation: float = 0.02  # an access
    citation_cap: float = 0.15
    emotion: float = 0.1
    recency: float = 0.05
    recency_halflife_days: float = 30.0
    importance: float = 0.1
    heat: float = 0.03

    factors: Mapping[str, float] = field(default_factory=dict)  # of one recall: relevance and each boost, 1.0


class Link(NamedTuple):
    """A share of the giver's base that goes to the receiver, both as candidate numbers."""

    receiver: int
    giver: int
    share: float


class Candidates(NamedTuple):
    """What is to be ranked: n rows with both scores, and what the query says about them."""

    rows: Sequence[Memory]
    cosine: Column
    bm25: Column
    links: Sequence[Link] = ()
    wrote: Sequence[int] = ()  # the one named author wrote these
    mentions: Sequence[int] = ()  # the one named author is only mentioned in these
    dated: Sequence[int] = ()  # a date named in the query covers these
    floor: float = FLOOR


class Ranking(NamedTuple):
    """The result: `terms` by name, each (n,); `order` best first; `via` the giver that gave most, or -1."""

    order: list[int]
    final: Column
    evidence: Column
    terms: dict[str, Column]
    via: NDArray[np.intp]


def floor_of(population: int) -> float:
    """The least that BM25 is divided by where so many memories are read."""
    return FLOOR * min(1.0, math.log1p(population) / math.log1p(POPULATION))


def rank(candidates: Candidates, weights: Weights, now: float) -> Ranking:
    """Score candidates; ties go to the newer memory, then to the smaller id, so that equal input gives equal order."""
    rows = candidates.rows
    n = len(rows)
    cosine = np.maximum(candidates.cosine, 0.0)
    keyword = candidates.bm25 / max(float(candidates.bm25.max(initial=0.0)), candidates.floor)
    base = cosine + keyword
    spread, via = _spread(base, candidates.links)
    entity, date = _named(candidates, weights, n)
    question = np.where([row.asks for row in rows], -weights.question, 0.0) if n else np.zeros(0)
    terms: dict[str, Column] = {
        "cosine": cosine, "bm25": keyword, "spread": spread, "session": _session(rows, base, weights.session),
        "entity": entity, "date": date, "question": question,
    }  # fmt: skip
    evidence = np.sum(list(terms.values()), axis=0) if n else base
    terms |= _boosts(rows, weights, now)
    relevance = weights.factors.get("relevance", 1.0)
    factors = {name: weights.factors.get(name, relevance if name not in BOOSTS else 1.0) for name in terms}
    terms = {
        name: factors[name] * column for name, column in terms.items()
    }  # as they count, so that they sum up to `final`
    final = np.sum(list(terms.values()), axis=0) if n else base
    scores = final.tolist()
    order = sorted(range(n), key=lambda i: (-scores[i], -rows[i].created_at, rows[i].id))
    return Ranking(order, final, evidence, terms, via)


def why(ranking: Ranking, index: int, path: str, via: str | None) -> dict[str, Any]:
    """Every term of one hit's score, and how it was found."""
    told: dict[str, Any] = {name: round(float(column[index]), 4) for name, column in ranking.terms.items()}
    sums = {"evidence": round(float(ranking.evidence[index]), 4), "final": round(float(ranking.final[index]), 4)}
    return told | sums | {"path": path, "via": via}


def _spread(base: Column, links: Sequence[Link]) -> tuple[Column, NDArray[np.intp]]:
    """What neighbours hand on, and who gave each candidate most."""
    n = len(base)
    via = np.full(n, -1, np.intp)
    if not links:
        return np.zeros(n), via
    receivers, givers, shares = (np.array(column) for column in zip(*links, strict=True))
    gifts = shares * base[givers]
    largest_last = np.argsort(gifts, kind="stable")
    largest_last = largest_last[gifts[largest_last] > 0.0]
    via[receivers[largest_last]] = givers[largest_last]
    spread: Column = np.bincount(receivers, gifts, n).astype(np.float64)
    return spread, via


def _session(rows: Sequence[Memory], base: Column, weight: float) -> Column:
    """A share of the mean base of the three best of a memory's session."""
    members: dict[tuple[str, str], list[int]] = {}
    for index, row in enumerate(rows):
        if row.session:
            members.setdefault((row.scope, row.session), []).append(index)
    support = np.zeros(len(rows))
    bases = base.tolist()
    for indexes in members.values():
        best = sorted((bases[index] for index in indexes), reverse=True)[:3]
        support[indexes] = weight * sum(best) / len(best)
    return support


def _named(candidates: Candidates, weights: Weights, n: int) -> tuple[Column, Column]:
    entity, date = np.zeros(n), np.zeros(n)
    entity[list(candidates.mentions)] = weights.mentioned
    entity[list(candidates.wrote)] = weights.author
    date[list(candidates.dated)] = weights.date
    return entity, np.minimum(date, NAMED_CAP - np.minimum(entity, NAMED_CAP))


def _boosts(rows: Sequence[Memory], weights: Weights, now: float) -> dict[str, Column]:
    accesses = np.array([row.access_count for row in rows], float)
    emotion = np.array([row.emotion for row in rows], float)
    importance = np.array([row.importance for row in rows], float)
    age_days = np.maximum(now - np.array([max(row.created_at, row.updated_at) for row in rows], float), 0.0) / DAY
    # A cold memory that was accessed since it went cold counts as warm before the nightly `demote` says so.
    heat = [
        1 if row.heat == "hot" else -1 if row.heat == "cold" and row.access_count <= row.cooled_at_count else 0
        for row in rows
    ]
    return {
        "citation": np.minimum(weights.citation * accesses, weights.citation_cap),
        "emotion": weights.emotion * emotion,
        "recency": weights.recency * np.exp2(-age_days / weights.recency_halflife_days),
        "importance": weights.importance * (importance - 0.5),
        "heat": weights.heat * np.array(heat, float),
    }
