"""Pruning: an unused edge fades, and a faded edge goes.

    w(now) = w * 2^(-awake time / half-life); dropped below 0.1

Only what has faded is touched: weights are stored with their instant and never rewritten by time passing, so that how
often this runs cannot matter (`storage.fading` has the formula). `next` and `derived` edges do not fade and stay,
whatever they weigh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Edge
from storage.fading import Awake, edge_weights
from storage.model import Synapse
from storage.synapses import ASSOCIATIVE

FLOOR: Final = 0.1


class Plan(NamedTuple):
    """The edges to drop, and how many were looked at."""

    drop: tuple[Edge, ...]
    examined: int


def plan(edges: Iterable[Synapse], scopes: Mapping[str, str], now: float, awake: Awake) -> Plan:
    """The edges that have faded below the floor; `scopes` names the scope of each memory."""
    fading = [edge for edge in edges if edge.kind in ASSOCIATIVE]
    weights = edge_weights(
        np.array([edge.weight for edge in fading], dtype=np.float64),
        np.array([edge.as_of for edge in fading], dtype=np.float64),
        [edge.kind for edge in fading],
        now,
        awake,
    )
    faded = [edge for edge, weight in zip(fading, weights, strict=True) if weight < FLOOR]
    drop = [Edge(edge.key, edge, None, scopes.get(edge.a, "")) for edge in faded]
    return Plan(tuple(drop), len(fading))


def run(ctx: Context) -> Report:
    """Drop the faded edges."""
    edges, scopes = ctx.read(_edges, ctx), ctx.read(_scopes, ctx)
    planned = plan(edges, scopes, ctx.now, ctx.stores.awake)
    applied = ctx.apply(planned.drop)
    examples = [
        {"edge": [change.before.a, change.before.b], "reason": f"faded below {FLOOR}"}
        for change in applied.done[:EXAMPLES]
        if isinstance(change, Edge) and change.before is not None
    ]
    counts = {"examined": planned.examined, "pruned": len(applied.done), "skipped": len(applied.skipped)}
    return Report(counts, examples, changed=len(applied.done))


def _edges(ctx: Context) -> list[Synapse]:
    return [edge for _, edge in ctx.stores.synapses.every()]


def _scopes(ctx: Context) -> dict[str, str]:
    return {row.id: row.scope for row in ctx.stores.catalogue.every()}
