"""What a person or an agent does to the graph: connect, disconnect, look at neighbours, count. Called in the lane."""

from __future__ import annotations

import heapq
from collections import Counter
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from storage.errors import NotFound, Refused, command
from storage.fading import Awake, add, edge_weights
from storage.model import Memory, Synapse
from storage.store import Stores
from storage.synapses import ASSOCIATIVE, associate, faded, stronger_kind
from storage.where import Where


class Neighbour(NamedTuple):
    """A memory at the other end of an edge, and the edge's weight now."""

    memory: Memory
    edge: Synapse
    weight: float


def visible(stores: Stores, memory: str, clearance: str) -> Memory:
    """The row of a memory in any state that the caller may know of. Raises NotFound."""
    return stores.memories.visible(memory, clearance)


def connect(stores: Stores, a: str, b: str, weight: float, label: str, now: float, clearance: str) -> Synapse:
    """Join two memories by hand: min(faded old weight + weight, 10); a former label stays unless a new one is given."""
    one, other = (stores.memories.live(end, clearance, now) for end in (a, b))
    if a == b:
        raise Refused("A memory cannot be connected to itself.", hint=command("neighbors", a))
    if one.scope != other.scope:
        raise Refused(f"{a!r} and {b!r} lie in different scopes; no edge crosses scopes.", hint=command("get", b))
    before = stores.synapses.between(a, b)
    if before is None:
        edge = associate(a, b, "manual", float(add(0.0, weight)), now, label=label)
    else:
        total = float(add(faded(before, now, stores.awake), weight))
        kind = stronger_kind(before.kind, "manual")
        edge = before._replace(kind=kind, weight=total, as_of=now, label=label or before.label)
    stores.synapses.put([edge])
    return edge


def disconnect(stores: Stores, a: str, b: str, clearance: str) -> Synapse:
    """Remove the associative edge of a pair; it is what comes back. Raises NotFound where there is none."""
    visible(stores, a, clearance)
    visible(stores, b, clearance)
    edge = stores.synapses.between(a, b)
    if edge is None:
        raise NotFound(f"There is no edge between {a!r} and {b!r}.", hint=command("neighbors", a))
    stores.synapses.drop([edge.key])
    return edge


def neighbours(stores: Stores, memory: str, now: float, clearance: str) -> list[Neighbour]:
    """The live memories around one, strongest edge first, with their text; what the caller may not see is not there."""
    visible(stores, memory, clearance)
    where = Where(now=now, clearance=clearance)
    ends = ((edge, stores.catalogue.get(edge.other(memory))) for edge in stores.synapses.of(memory))
    edges = [edge for edge, other in ends if other is not None and where.admits(other)]
    texts = stores.memories.read([edge.other(memory) for edge in edges])
    found = [
        Neighbour(text, edge, faded(edge, now, stores.awake))
        for edge in edges
        if (text := texts.get(edge.other(memory))) is not None
    ]
    return sorted(found, key=lambda one: (-one.weight, one.memory.id))


class Snapshot(NamedTuple):
    """The live graph that a caller may see, as it was at one instant."""

    nodes: frozenset[str]
    edges: list[Synapse]
    now: float
    awake: Awake


def snapshot(stores: Stores, now: float, clearance: str) -> Snapshot:
    """The references that `statistics` works on, taken in one short call of the lane."""
    where = Where(now=now, clearance=clearance)
    nodes = frozenset(row.id for row in stores.catalogue.rows() if where.admits(row))
    return Snapshot(nodes, [edge for _, edge in stores.synapses.every()], now, stores.awake)


def statistics(graph: Snapshot) -> dict[str, Any]:
    """Counts over a graph; degrees count associative edges. Pure: it may run outside the lane."""
    edges = [edge for edge in graph.edges if edge.a in graph.nodes and edge.b in graph.nodes]
    degree = Counter(end for edge in edges if edge.kind in ASSOCIATIVE for end in (edge.a, edge.b))
    degrees = [degree[node] for node in graph.nodes] or [0]
    touched = {end for edge in edges for end in (edge.a, edge.b)}
    stored, as_of = np.array([edge.weight for edge in edges]), np.array([edge.as_of for edge in edges])
    weights = (
        edge_weights(stored, as_of, [edge.kind for edge in edges], graph.now, graph.awake).tolist() if edges else []
    )
    strongest = heapq.nsmallest(5, zip(weights, edges, strict=True), key=lambda one: (-one[0], one[1].key))
    return {
        "nodes": len(graph.nodes), "edges": len(edges), "by_kind": dict(Counter(edge.kind for edge in edges).most_common()),
        "mean_degree": round(sum(degrees) / len(degrees), 3), "median_degree": float(median(degrees)),
        "max_degree": max(degrees), "isolated": len(graph.nodes - touched),
        "strongest": [{"a": edge.a, "b": edge.b, "kind": edge.kind, "weight": round(weight, 4)} for weight, edge in strongest],
    }  # fmt: skip
