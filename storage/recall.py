"""Recall: two legs find candidates, edges bring their neighbours, evidence ranks them all. Reads only.

    (1) both legs, `LEG` best each, ids only, under the one filter;
    (2) both legs again over the union and its neighbours, so that each candidate has both scores.

Payloads are read for the k hits alone. Everything here is called in the lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from storage.catalogue import Catalogue
from storage.dates import covered, spans
from storage.engine import Condition, Engine, Query, Scored, Sparse, Vector
from storage.fading import Awake
from storage.memories import LIVE, Memories
from storage.model import EVERY_SCOPE, MAX_EDGE_WEIGHT, Memory, point_id
from storage.rank import Candidates, Link, Ranking, Weights, rank, why
from storage.synapses import ASSOCIATIVE, Synapses, faded
from storage.where import Where

LEG: Final = 50  # candidates a leg
GROWTH: Final = 4  # when the filter eats a leg, ask for so many times more
RESOLVED: Final = 2_000  # up to so many ids an unindexed filter is resolved in the catalogue
NEIGHBOURS: Final = 8  # strongest associative edges followed a candidate
RANKED_NEAR: Final = 30  # the best so many candidates bring their neighbours


class Question(NamedTuple):
    """A query as the embedder and the tokenizer see it; `dense` is None while the embedder is away."""

    text: str
    dense: Vector | None
    terms: Sparse


class Hit(NamedTuple):
    """A memory, its score, and on request why it scored so."""

    memory: Memory
    score: float
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
        first = self._legs(question, where)
        rows, paths = self._candidates(first, where, associate=associate)
        if not rows:
            return []
        candidates = self._scored(question, rows, where)
        if associate:
            candidates = candidates._replace(links=self._links(rows, weights, where.now, awake))
        ranking = rank(candidates, weights, where.now)
        best = [i for i in ranking.order if min_score is None or ranking.evidence[i] >= min_score][:k]
        texts = self._memories.read([rows[i].id for i in best])
        return [
            Hit(texts[rows[i].id], float(ranking.final[i]), _explain(ranking, i, rows, paths) if explain else None)
            for i in best
            if rows[i].id in texts
        ]

    def _legs(self, question: Question, where: Where) -> list[list[Memory]]:
        """The admitted rows of each leg, best first; a leg that the filter thinned out is asked for more."""
        asked = where.condition()
        if not where.indexed:
            ids = [row.id for row in self._catalogue.rows(where.scope) if where.admits(row)]
            if len(ids) <= RESOLVED:
                asked = Condition(ids=frozenset(map(point_id, ids)))
        condition = self._lightened(asked, where.scope)
        legs: list[list[Memory]] = [[], []]
        limit, open_legs = LEG, [0, 1]
        while open_legs:
            queries = self._queries(question, condition, limit, where.scope)
            results = self._engine.search(LIVE, [queries[leg] for leg in open_legs])
            for leg, scored in zip(list(open_legs), results, strict=True):
                rows = [
                    row for row in (self._catalogue.at_point(one.id) for one in scored) if row and where.admits(row)
                ]
                legs[leg] = rows[:LEG]
                if len(rows) >= LEG or len(scored) < limit:
                    open_legs.remove(leg)
            limit *= GROWTH
        return legs

    def _queries(self, question: Question, condition: Condition | None, limit: int, scope: str) -> list[Query]:
        corpus = self._lightened(Condition(scope=None if scope == EVERY_SCOPE else scope), scope)
        dense = Sparse((), ()) if question.dense is None else question.dense
        return [Query(dense, condition, limit), Query(question.terms, condition, limit, corpus)]

    def _lightened(self, condition: Condition, scope: str) -> Condition | None:
        """Without the scope where it excludes nothing: a filter that matches everything slows an exact scan."""
        if condition.scope is not None and all(
            name == scope or name.startswith(scope + "/") for name in self._catalogue.scopes()
        ):
            condition = replace(condition, scope=None)
        return None if condition == Condition() else condition

    def _candidates(
        self, legs: list[list[Memory]], where: Where, *, associate: bool
    ) -> tuple[list[Memory], dict[str, str]]:
        """The union of both legs and, behind it, the neighbours that the filter admits."""
        paths: dict[str, str] = {}
        for rows, path in zip(legs, ("dense", "keyword"), strict=True):
            for row in rows:
                paths.setdefault(row.id, path)
        if associate:
            near = {row.id: None for rows in legs for row in rows[:RANKED_NEAR]}
            for memory in near:
                for neighbour in self._neighbours(memory):
                    other = self._catalogue.get(neighbour)
                    if other is not None and neighbour not in paths and where.admits(other):
                        paths[neighbour] = "association"
        return [row for row in map(self._catalogue.get, paths) if row is not None], paths

    def _neighbours(self, memory: str) -> list[str]:
        """Along the session one and two steps either way; along the strongest stored associative edges one step."""
        found: list[str] = []
        for step in (self._synapses.after, self._synapses.before):
            for one in step(memory):
                found.append(one)
                found.extend(step(one))
        edges = [edge for edge in self._synapses.of(memory) if edge.kind in ASSOCIATIVE]
        strongest = sorted(edges, key=lambda edge: edge.weight, reverse=True)[:NEIGHBOURS]
        return found + [edge.other(memory) for edge in strongest]

    def _scored(self, question: Question, rows: Sequence[Memory], where: Where) -> Candidates:
        """Both scores of every candidate, and what the query says by name and by date."""
        number = {point_id(row.id): i for i, row in enumerate(rows)}
        queries = self._queries(question, Condition(ids=frozenset(number)), len(rows), where.scope)
        cosine, bm25 = np.zeros(len(rows)), np.zeros(len(rows))
        for column, scored in zip((cosine, bm25), self._engine.search(LIVE, queries), strict=True):
            _fill(column, scored, number)
        named = self._catalogue.names_in(where.scope, question.text)
        name = next(iter(named)) if len(named) == 1 else None
        asked = spans(question.text)
        return Candidates(
            rows, cosine, bm25,
            wrote=[i for i, row in enumerate(rows) if name and row.author == name],
            mentions=[i for i, row in enumerate(rows) if name and row.author != name and name in row.entities],
            dated=[i for i, row in enumerate(rows) if covered(asked, row.event_at)],
        )  # fmt: skip

    def _links(self, rows: Sequence[Memory], weights: Weights, now: float, awake: Awake) -> list[Link]:
        """Who receives which share of whose base, among the candidates."""
        number = {row.id: i for i, row in enumerate(rows)}
        links: list[Link] = []
        for receiver, row in enumerate(rows):
            for step in (self._synapses.after, self._synapses.before):
                for one in step(row.id):
                    links += _link(receiver, number.get(one), weights.next_one)
                    for two in step(one):
                        links += _link(receiver, number.get(two), weights.next_two)
            for one in self._synapses.before(row.id):
                giver = number.get(one)
                if giver is not None and rows[giver].asks:
                    links += _link(receiver, giver, weights.answer)
            links += self._associations(receiver, row.id, number, weights, now, awake)
        return links

    def _associations(
        self, receiver: int, memory: str, number: dict[str, int], weights: Weights, now: float, awake: Awake
    ) -> list[Link]:
        links: list[Link] = []
        for edge in self._synapses.of(memory):
            giver = number.get(edge.other(memory))
            if giver is None or edge.kind == "next":
                continue
            links.append(Link(receiver, giver, weights.edge * faded(edge, now, awake) / MAX_EDGE_WEIGHT))
        total = sum(link.share for link in links)
        if total > weights.edge:
            links = [link._replace(share=link.share * weights.edge / total) for link in links]
        return links


def _link(receiver: int, giver: int | None, share: float) -> list[Link]:
    return [] if giver is None else [Link(receiver, giver, share)]


def _fill(column: np.ndarray[Any, np.dtype[np.float64]], scored: list[Scored], number: dict[str, int]) -> None:
    for one in scored:
        column[number[one.id]] = one.score


def _explain(ranking: Ranking, index: int, rows: Sequence[Memory], paths: dict[str, str]) -> dict[str, Any]:
    giver = int(ranking.via[index])
    via = rows[giver].id if giver >= 0 else None
    path = paths[rows[index].id]
    return why(ranking, index, f"association via {via}" if path == "association" and via else path, via)
