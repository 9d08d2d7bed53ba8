"""Recall: two legs find candidates, edges bring their neighbours, evidence ranks them all. Reads only.

    (1) both legs, `LEG` best each, ids only, under the one filter;
    (2) both legs again over the union and its neighbours, so that each candidate has both scores.

Payloads are read for the k hits alone. Everything here is called in the lane.
"""

from __future__ import annotations

import heapq
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from storage.catalogue import Catalogue
from storage.dates import covered, spans
from storage.engine import Condition, Engine, Query, Scored, Sparse, Vector
from storage.fading import Awake, edge_weights
from storage.memories import LIVE, Memories
from storage.model import EVERY_SCOPE, MAX_EDGE_WEIGHT, Memory, Synapse
from storage.rank import Candidates, Link, Ranking, Weights, floor_of, rank, why
from storage.synapses import Synapses
from storage.where import Where

LEG: Final = 50  # candidates a leg, or k where more are asked for
GROWTH: Final = 4  # when the filter eats a leg, ask for so many times more
RESOLVED: Final = 2_000  # up to so many ids an unindexed filter is resolved in the catalogue
NEIGHBOURS: Final = 4  # strongest other edges that are followed from one candidate
BRINGING: Final = 12  # the best so many candidates bring their neighbours


class Question(NamedTuple):
    """A query as the embedder and the tokenizer see it; `dense` is None while the embedder is away."""

    text: str
    dense: Vector | None
    terms: Sparse


class Hit(NamedTuple):
    """A memory, its score, the part of it that is evidence, and on request why it scored so."""

    memory: Memory
    score: float
    evidence: float
    why: dict[str, Any] | None


class Recaller:
    """Answers questions over one store."""

    def __init__(
        self, engine: Engine, catalogue: Catalogue, memories: Memories, synapses: Synapses, weights: Weights
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._memories = memories
        self._synapses = synapses
        self.weights = weights

    def recall(
        self,
        question: Question,
        where: Where,
        awake: Awake,
        *,
        k: int,
        factors: dict[str, float] | None = None,
        min_score: float | None = None,
        associate: bool = True,
        explain: bool = False,
    ) -> list[Hit]:
        """The k best memories, best first."""
        weights = replace(self.weights, factors=factors or {})
        rows, paths = self._candidates(self._legs(question, where, max(k, LEG)), where, associate=associate)
        if not rows:
            return []
        candidates = self._scored(question, rows, where)
        if associate:
            candidates = candidates._replace(links=self._links(rows, weights, where.now, awake))
        ranking = rank(candidates, weights, where.now)
        best = [i for i in ranking.order if min_score is None or ranking.evidence[i] >= min_score][:k]
        texts = self._memories.read([rows[i].id for i in best])
        return [
            Hit(
                texts[rows[i].id],
                float(ranking.final[i]),
                float(ranking.evidence[i]),
                _explain(ranking, i, rows, paths) if explain else None,
            )
            for i in best
            if rows[i].id in texts
        ]

    def _legs(self, question: Question, where: Where, wanted: int) -> list[list[tuple[Memory, float]]]:
        """The admitted rows of each leg with their scores, best first; a leg that the filter thinned out is asked for more."""
        asked = where.condition()
        if not where.indexed:
            ids = [row.id for row in self._catalogue.rows(where.scope) if where.admits(row)]
            if len(ids) <= RESOLVED:
                asked = Condition(ids=frozenset(map(self._catalogue.point, ids)))
        condition = self._lightened(asked)
        legs: list[list[tuple[Memory, float]]] = [[], []]
        limit, open_legs = wanted, [0, 1]
        while open_legs:
            queries = self._queries(question, condition, limit, where.scope)
            results = self._engine.search(LIVE, [queries[leg] for leg in open_legs])
            for leg, scored in zip(list(open_legs), results, strict=True):
                found = ((self._catalogue.at_point(one.id), one.score) for one in scored)
                legs[leg] = [(row, score) for row, score in found if row is not None and where.admits(row)][:wanted]
                if len(legs[leg]) >= wanted or len(scored) < limit:
                    open_legs.remove(leg)
            limit *= GROWTH
        return legs

    def _queries(self, question: Question, condition: Condition | None, limit: int, scope: str) -> list[Query]:
        # Counted by scope even where all is one scope: over the whole collection the engine counts deleted texts too.
        corpus = None if scope == EVERY_SCOPE else Condition(scope=scope)
        dense = Sparse((), ()) if question.dense is None else question.dense
        return [Query(dense, condition, limit), Query(question.terms, condition, limit, corpus)]

    def _lightened(self, condition: Condition) -> Condition | None:
        """Without the scope where it excludes nothing: a filter that matches everything slows an exact scan."""
        if condition.scope is not None and self._catalogue.count(condition.scope) == len(self._catalogue):
            condition = replace(condition, scope=None)
        return None if condition == Condition() else condition

    def _candidates(
        self, legs: list[list[tuple[Memory, float]]], where: Where, *, associate: bool
    ) -> tuple[list[Memory], dict[str, str]]:
        """The union of both legs and, behind it, the admitted neighbours of the best of it."""
        rows: dict[str, Memory] = {}
        paths: dict[str, str] = {}
        promise: dict[str, float] = {}  # what each has of `base` by what the legs tell
        floor = self._floor(where.scope)
        for leg, path in zip(legs, ("dense", "keyword"), strict=True):
            best = 1.0 if path == "dense" else max(leg[0][1] if leg else 0.0, floor)
            for row, score in leg:
                rows[row.id] = row
                paths.setdefault(row.id, path)
                promise[row.id] = promise.get(row.id, 0.0) + score / best
        if associate:
            for memory in heapq.nlargest(BRINGING, promise, key=promise.__getitem__):
                for row in self._neighbours(memory, where):
                    rows[row.id] = row
                    paths.setdefault(row.id, "association")
        return list(rows.values()), paths

    def _neighbours(self, memory: str, where: Where) -> Iterator[Memory]:
        """The admitted ones: along the session one and two steps either way, along the strongest other edges one step."""
        for step in (self._synapses.after, self._synapses.before):
            for row in self._admitted(step(memory), where):
                yield row
                yield from self._admitted(step(row.id), where)
        ties = self._synapses.ties(memory)
        others = sorted(ties, key=lambda other: ties[other].weight, reverse=True)
        yield from islice(self._admitted(others, where), NEIGHBOURS)

    def _admitted(self, memories: Iterable[str], where: Where) -> Iterator[Memory]:
        rows = map(self._catalogue.get, memories)
        return (row for row in rows if row is not None and where.admits(row))

    def _scored(self, question: Question, rows: Sequence[Memory], where: Where) -> Candidates:
        """Both scores of every candidate, and what the query says by name and by date."""
        number = {self._catalogue.point(row.id): i for i, row in enumerate(rows)}
        queries = self._queries(question, Condition(ids=frozenset(number)), len(rows), where.scope)
        cosine, bm25 = np.zeros(len(rows)), np.zeros(len(rows))
        for column, scored in zip((cosine, bm25), self._engine.search(LIVE, queries), strict=True):
            _fill(column, scored, number)
        text = unicodedata.normalize("NFC", question.text)  # as what is stored
        named = self._catalogue.names_in(where.scope, text, where.clearance)
        name = next(iter(named)) if len(named) == 1 else None
        asked = spans(text)
        return Candidates(
            rows, cosine, bm25,
            wrote=[i for i, row in enumerate(rows) if name and row.author == name],
            mentions=[i for i, row in enumerate(rows) if name and row.author != name and name in row.entities],
            dated=[i for i, row in enumerate(rows) if covered(asked, row.event_at)],
            floor=self._floor(where.scope),
        )  # fmt: skip

    def _floor(self, scope: str) -> float:
        return floor_of(len(self._catalogue) if scope == EVERY_SCOPE else self._catalogue.count(scope))

    def _links(self, rows: Sequence[Memory], weights: Weights, now: float, awake: Awake) -> list[Link]:
        """Who receives which share of whose base, among the candidates."""
        number = {row.id: i for i, row in enumerate(rows)}
        links: list[Link] = []
        steps = ((self._synapses.after, 0.0), (self._synapses.before, weights.answer))
        for receiver, row in enumerate(rows):
            for step, answer in steps:
                for one in step(row.id):
                    giver = number.get(one)
                    if giver is None:
                        continue  # what is hidden, or was not found worth a look, hands nothing on
                    links.append(Link(receiver, giver, weights.next_one + (answer if rows[giver].asks else 0.0)))
                    for two in step(one):
                        giver = number.get(two)
                        if giver is not None:
                            links.append(Link(receiver, giver, weights.next_two))
        return links + self._associations(rows, number, weights.edge, now, awake)

    def _associations(
        self, rows: Sequence[Memory], number: dict[str, int], most: float, now: float, awake: Awake
    ) -> list[Link]:
        """Shares over all other edges: `most` for a full weight, and at most that in sum for one receiver."""
        ends: list[tuple[int, int]] = []
        edges: list[Synapse] = []
        for receiver, row in enumerate(rows):
            ties = self._synapses.ties(row.id)
            for other in ties.keys() & number.keys():
                ends.append((receiver, number[other]))
                edges.append(ties[other])
        if not edges:
            return []
        receivers = np.array([receiver for receiver, _ in ends])
        stored, as_of = np.array([edge.weight for edge in edges]), np.array([edge.as_of for edge in edges])
        weight = edge_weights(stored, as_of, [edge.kind for edge in edges], now, awake)
        shares = most * weight / MAX_EDGE_WEIGHT
        shares *= np.minimum(1.0, most / np.maximum(np.bincount(receivers, shares), most))[receivers]
        return [Link(*pair, share) for pair, share in zip(ends, shares.tolist(), strict=True)]


def _fill(column: np.ndarray[Any, np.dtype[np.float64]], scored: list[Scored], number: dict[str, int]) -> None:
    for one in scored:
        column[number[one.id]] = one.score


def _explain(ranking: Ranking, index: int, rows: Sequence[Memory], paths: dict[str, str]) -> dict[str, Any]:
    """The terms, and the way by which it was found: of two legs that found it, the one that says more."""
    giver = int(ranking.via[index])
    via = rows[giver].id if giver >= 0 else None
    path = paths[rows[index].id]
    if path == "association":
        path = f"association via {via}" if via else path
    elif ranking.terms["bm25"][index] > ranking.terms["cosine"][index]:
        path = "keyword"
    return why(ranking, index, path, via)
