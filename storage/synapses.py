"""Edges between memories: points without vectors in the store, mirrored as an adjacency in RAM.

A stored weight is a pair (weight, as_of) and fades lazily: reading computes, nothing is rewritten by time passing. All
calls are made in the lane.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from storage.engine import Engine, Payload, Point
from storage.fading import Awake, edge_weight
from storage.model import EDGE_KINDS, Synapse, synapse_key

SYNAPSES: Final = "synapses"
BATCH: Final = 256
NOTHING: Final[Mapping[str, Synapse]] = {}
#: The kinds of the one associative edge of a pair, weakest claim first: a stronger claim renames the edge.
ASSOCIATIVE: Final = ("hebbian", "similar", "concept", "manual")


class Synapses:
    """Every edge, by key and by either end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._edges: dict[str, Synapse] = {}
        self._around: dict[str, dict[str, Synapse]] = {}
        self._ties: dict[str, dict[str, Synapse]] = {}
        self._after: dict[str, list[str]] = {}
        self._before: dict[str, list[str]] = {}

    def load(self) -> None:
        """Read every edge into RAM; what a later version stored under a kind that we do not know is left alone."""
        for batch in self._engine.scroll(SYNAPSES):
            for record in batch:
                if record.payload.get("kind") in EDGE_KINDS:
                    self._remember(record.id, from_payload(record.payload))

    def clear(self) -> None:
        """Know of no edge."""
        for index in (self._edges, self._around, self._ties, self._after, self._before):
            index.clear()

    def __len__(self) -> int:
        return len(self._edges)

    def every(self) -> Iterator[tuple[str, Synapse]]:
        """All edges with their keys."""
        return iter(self._edges.items())

    def get(self, key: str) -> Synapse | None:
        """The edge with this key."""
        return self._edges.get(key)

    def between(self, a: str, b: str) -> Synapse | None:
        """The associative edge of a pair."""
        return self._edges.get(synapse_key(a, b, "hebbian"))

    def of(self, memory: str) -> Iterable[Synapse]:
        """The edges at a memory, masked or not: who reads them must ask the filter about the other end."""
        return self._around.get(memory, {}).values()

    def ties(self, memory: str) -> Mapping[str, Synapse]:
        """The edges at a memory by their other end, without `next`; of two to one end, the one stored heavier."""
        return self._ties.get(memory, NOTHING)

    def degree(self, memory: str) -> int:
        """How many associative edges a memory has."""
        return sum(edge.kind in ASSOCIATIVE for edge in self.of(memory))

    def after(self, memory: str) -> list[str]:
        """The memories that follow a memory in its session: one, save for what came back out of the bin."""
        return self._after.get(memory, [])

    def before(self, memory: str) -> list[str]:
        """The memories that a memory follows in its session."""
        return self._before.get(memory, [])

    def put(self, edges: Sequence[Synapse]) -> None:
        """Write edges whole; the same key is replaced."""
        for start in range(0, len(edges), BATCH):
            batch = edges[start : start + BATCH]
            self._engine.upsert(SYNAPSES, [Point(edge.key, to_payload(edge)) for edge in batch])
            for edge in batch:
                self._remember(edge.key, edge)

    def drop(self, keys: Sequence[str]) -> None:
        """Delete edges; keys that are not there do not matter."""
        known = [key for key in keys if key in self._edges]
        for start in range(0, len(known), BATCH):
            batch = known[start : start + BATCH]
            self._engine.delete(SYNAPSES, batch)
            for key in batch:
                self._forget(key)

    def drop_around(self, memories: Iterable[str]) -> int:
        """Delete every edge at these memories, which go for good; returns how many."""
        keys = list({key for memory in memories for key in self._around.get(memory, {})})
        self.drop(keys)
        return len(keys)

    def _remember(self, key: str, edge: Synapse) -> None:
        if key in self._edges:
            self._forget(key)
        self._edges[key] = edge
        self._around.setdefault(edge.a, {})[key] = edge
        self._around.setdefault(edge.b, {})[key] = edge
        if edge.kind == "next":
            self._after.setdefault(edge.a, []).append(edge.b)
            self._before.setdefault(edge.b, []).append(edge.a)
        else:
            self._tie(edge)

    def _forget(self, key: str) -> None:
        edge = self._edges.pop(key)
        for end in {edge.a, edge.b}:
            around = self._around[end]
            around.pop(key, None)
            if not around:
                del self._around[end]
        if edge.kind == "next":
            self._after[edge.a].remove(edge.b)
            self._before[edge.b].remove(edge.a)
        else:
            self._untie(edge)

    def _tie(self, edge: Synapse) -> None:
        held = self._ties.get(edge.a, NOTHING).get(edge.b)
        if held is None or edge.weight > held.weight:
            self._ties.setdefault(edge.a, {})[edge.b] = edge
            self._ties.setdefault(edge.b, {})[edge.a] = edge

    def _untie(self, edge: Synapse) -> None:
        """Forget the tie that this edge was; a lighter one between the same two takes its place."""
        if self._ties.get(edge.a, NOTHING).get(edge.b) is not edge:
            return
        for one, other in ((edge.a, edge.b), (edge.b, edge.a)):
            self._ties[one].pop(other, None)
            if not self._ties[one]:
                del self._ties[one]
        for left in self.of(edge.a):
            if left.kind != "next" and left.other(edge.a) == edge.b:
                self._tie(left)


def to_payload(edge: Synapse) -> Payload:
    """An edge as it is stored."""
    return edge._asdict()


def from_payload(payload: dict[str, Any]) -> Synapse:
    """The edge in a payload; the ids are the very strings that the memories have."""
    intern = sys.intern
    return Synapse(
        intern(payload["a"]), intern(payload["b"]), intern(payload["kind"]), payload["weight"], payload["as_of"],
        payload["created_at"], payload.get("label", ""),
    )  # fmt: skip


def faded(edge: Synapse, now: float, awake: Awake) -> float:
    """The weight of an edge at `now`."""
    return float(edge_weight(edge.weight, edge.as_of, edge.kind, now, awake))


def stronger_kind(one: str, other: str) -> str:
    """Of two associative kinds the one with the stronger claim."""
    return max(one, other, key=ASSOCIATIVE.index)


def associate(a: str, b: str, kind: str, weight: float, now: float, *, label: str = "") -> Synapse:
    """A new associative edge, its ends in order."""
    low, high = sorted((a, b))
    return Synapse(low, high, kind, weight, now, now, label)
