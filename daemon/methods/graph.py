"""Methods on the graph of memories."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from pydantic import Field
from typing_extensions import TypedDict

from daemon import announce, shapes
from daemon.parts import Parts
from daemon.shapes import NeighbourShape
from daemon.wire import Cleared, Id, Method, Writing
from storage import graph
from storage.graph import Neighbour
from storage.memories import missing
from storage.model import MAX_EDGE_WEIGHT, Synapse
from storage.remember import CONNECT_WEIGHT
from storage.where import visible


class PairParams(Writing):
    """Two memories."""

    a: Id
    b: Id


class ConnectParams(PairParams):
    """An edge by hand."""

    weight: float = Field(
        default=CONNECT_WEIGHT, gt=0, le=MAX_EDGE_WEIGHT, description="Added to what is there, at most 10."
    )
    label: str = Field(default="", description="What the edge means.")


class NeighborsParams(Cleared):
    """One memory."""

    id: Id


class EdgeShape(TypedDict):
    """The edge after `connect`."""

    a: str
    b: str
    kind: str
    weight: float
    label: str


class Disconnected(TypedDict):
    """The pair whose edge is gone."""

    a: str
    b: str
    disconnected: bool


class Neighbors(TypedDict):
    """The memories around one, strongest edge first."""

    neighbors: list[NeighbourShape]


class GraphStats(TypedDict):
    """The graph in numbers."""

    nodes: int
    edges: int
    by_kind: dict[str, int]
    mean_degree: float
    median_degree: float
    max_degree: int
    isolated: int
    strongest: list[dict[str, Any]]


async def connect(parts: Parts, params: ConnectParams) -> EdgeShape:
    """Join two memories of one scope by hand."""
    admitted = await parts.embedding.run(parts.gate.admit, {"label": params.label})
    edge = await parts.lane.run(_connect, parts, params, admitted.fields["label"])
    parts.meter.count_redactions(admitted.redactions)
    return {"a": edge.a, "b": edge.b, "kind": edge.kind, "weight": round(edge.weight, 4), "label": edge.label}


def _connect(parts: Parts, params: ConnectParams, label: str) -> Synapse:
    stores, now = parts.stores, parts.clock.now()
    edge = graph.connect(stores, params.a, params.b, params.weight, label, now, params.clearance)
    announce.joined(parts.events, edge, stores.memories.row(edge.a).scope)
    return edge


async def disconnect(parts: Parts, params: PairParams) -> Disconnected:
    """Remove the edge of a pair."""
    await parts.lane.run(_disconnect, parts, params)
    return {"a": params.a, "b": params.b, "disconnected": True}


def _disconnect(parts: Parts, params: PairParams) -> None:
    stores = parts.stores
    edge = graph.disconnect(stores, params.a, params.b, params.clearance)
    announce.joined(parts.events, edge, stores.memories.row(edge.a).scope, gone=True)


async def neighbors(parts: Parts, params: NeighborsParams) -> Neighbors:
    """The memories around one."""
    found = await parts.lane.run(_neighbours, parts, params)
    return {"neighbors": [shapes.neighbour(one) for one in found]}


def _neighbours(parts: Parts, params: NeighborsParams) -> list[Neighbour]:
    now, row = parts.clock.now(), parts.stores.catalogue.get(params.id)
    if row is None or not visible(row, params.clearance, now):
        raise missing(params.id, row, params.clearance)
    return graph.neighbours(parts.stores, params.id, now, params.clearance)


async def graph_stats(parts: Parts, params: Cleared) -> GraphStats:
    """The graph in numbers."""
    seen = await parts.lane.run(graph.snapshot, parts.stores, parts.clock.now(), params.clearance)
    return cast("GraphStats", await asyncio.to_thread(graph.statistics, seen))


METHODS: Final = (
    Method("connect", "graph", ConnectParams, EdgeShape, connect, True, "Join two memories.", ("a", "b")),
    Method(
        "disconnect",
        "graph",
        PairParams,
        Disconnected,
        disconnect,
        True,
        "Remove the edge between two memories.",
        ("a", "b"),
    ),
    Method(
        "neighbors",
        "graph",
        NeighborsParams,
        Neighbors,
        neighbors,
        False,
        "Show what a memory is connected to.",
        ("id",),
    ),
    Method("graph_stats", "graph", Cleared, GraphStats, graph_stats, False, "Show the graph in numbers."),
)
