"""Pruning: an unused edge fades, and a faded edge goes.

    w(now) = w * 2^(-awake time / half-life); dropped below 0.1

Only what has faded is touched: weights are stored with their instant and never rewritten by time passing, so that how
often this runs cannot matter (`storage.fading` has the formula). `next` and `derived` edges do not fade.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Edge
from storage.fading import Awake
from storage.model import Synapse
from storage.synapses import faded

FLOOR: Final = 0.1


class Plan(NamedTuple):
    """The edges to drop, and how many were looked at."""

    drop: tuple[Edge, ...]
    examined: int


def plan(
    edges: Iterable[tuple[str, Synapse]], scopes: Mapping[str, str], now: float, awake: Awake, floor: float = FLOOR
) -> Plan:
    """The edges that have faded below the floor; `scopes` names the scope of each memory."""
    everything = list(edges)
    drop = tuple(
        Edge(key, edge, None, scopes.get(edge.a, "")) for key, edge in everything if faded(edge, now, awake) < floor
    )
    return Plan(drop, len(everything))


def run(ctx: Context) -> Report:
    """Drop the faded edges."""
    edges, scopes = ctx.read(_snapshot, ctx)
    planned = plan(edges, scopes, ctx.now, ctx.stores.awake)
    applied = ctx.apply(planned.drop)
    examples = [
        {"edge": [change.before.a, change.before.b], "reason": f"faded below {FLOOR}"}
        for change in planned.drop[:EXAMPLES]
        if change.before is not None
    ]
    done = len(planned.drop) if ctx.dry_run else len(applied.done)
    return Report(
        {"examined": planned.examined, "pruned": done, "skipped": len(applied.skipped)}, examples, changed=done
    )


def _snapshot(ctx: Context) -> tuple[list[tuple[str, Synapse]], dict[str, str]]:
    return list(ctx.stores.synapses.every()), {row.id: row.scope for row in ctx.stores.catalogue.every()}
