"""The dream: replay old memories, link what is near but unlinked, let feelings settle.

(1) Replay: a persistent cursor walks all live memories in the order of creation, so that each is visited once within
`dream.sweep_days`. (2) Link: each visited memory gets `similar` edges (0.3) to its nearest neighbours from `near` on, at
most 5 new ones a memory and none beyond degree 30. (3) Settle: the mean emotion over associative edges >= 0.5; where it
differs by more than 0.2, move 0.05 towards it, all computed from one snapshot, so that order cannot matter.

It cites nothing and touches nothing else. Source: anchor-memory's dream pass, with its sampling, its citations and its
order dependence mended.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Change, Edge, Patch
from storage.engine import Query
from storage.memories import LIVE
from storage.model import EVERY_SCOPE, Memory, point_id, synapse_key
from storage.synapses import ASSOCIATIVE, associate, faded
from storage.where import Where

CURSOR: Final = "dream:cursor"
LEAST: Final = 50  # visited a run, where there are so many
PROBES: Final = 16  # searched in one lane call
NEAREST: Final = 9  # asked for a memory, itself included
NEW_EDGES: Final = 5
MAX_DEGREE: Final = 30
SIMILAR: Final = 0.3
FELT_EDGE: Final = 0.5
GAP: Final = 0.2
NUDGE: Final = 0.05


class Pair(NamedTuple):
    """A visited memory and one that lies near it, with their cosine."""

    a: str
    b: str
    cosine: float


def due(rows: Sequence[Memory], cursor: Sequence[Any] | None, sweep_days: float) -> list[Memory]:
    """The memories to visit now: the next share of all after the cursor (created_at, id), starting over at the end."""
    ordered = sorted(rows, key=lambda row: (row.created_at, row.id))
    budget = min(len(ordered), max(math.ceil(len(ordered) / sweep_days), LEAST))
    start = 0
    if cursor is not None:
        at = (float(cursor[0]), str(cursor[1]))
        start = next((i for i, row in enumerate(ordered) if (row.created_at, row.id) > at), 0)
    return (ordered[start:] + ordered[:start])[:budget]


def link(
    pairs: Sequence[Pair], degree: Mapping[str, int], scopes: Mapping[str, str], now: float, near: float
) -> list[Edge]:
    """New `similar` edges for the nearest unlinked pairs of one scope, closest first, within both limits."""
    degrees, fresh = Counter(degree), Counter[str]()
    edges: dict[str, Edge] = {}
    for pair in sorted(pairs, key=lambda one: (-one.cosine, one.a, one.b)):
        key = synapse_key(pair.a, pair.b, "similar")
        ends = (pair.a, pair.b)
        if pair.cosine < near or pair.a == pair.b or key in edges or scopes[pair.a] != scopes[pair.b]:
            continue
        if any(fresh[end] >= NEW_EDGES or degrees[end] >= MAX_DEGREE for end in ends):
            continue
        fresh.update(ends)
        degrees.update(ends)
        edges[key] = Edge(key, None, associate(pair.a, pair.b, "similar", SIMILAR, now), scopes[pair.a])
    return list(edges.values())


def settle(visited: Sequence[Memory], felt: Mapping[str, Sequence[float]]) -> list[Patch]:
    """Nudge each visited memory towards the mean of what its strong neighbours feel; `felt` is the snapshot."""
    patches = []
    for row in visited:
        emotions = felt.get(row.id, ())
        if not emotions:
            continue
        gap = sum(emotions) / len(emotions) - row.emotion
        if abs(gap) > GAP:
            settled = min(max(row.emotion + math.copysign(NUDGE, gap), 0.0), 1.0)
            patches.append(Patch(row.id, row.seq, {"emotion": round(settled, 6)}))
    return patches


class Plan(NamedTuple):
    """All that one dream changes."""

    edges: list[Edge]
    patches: list[Patch]


def plan(
    visited: Sequence[Memory], pairs: Sequence[Pair], degree: Mapping[str, int], scopes: Mapping[str, str],
    felt: Mapping[str, Sequence[float]], now: float, near: float,
) -> Plan:  # fmt: skip
    """Link and settle from one snapshot."""
    return Plan(link(pairs, degree, scopes, now, near), settle(visited, felt))


def run(ctx: Context) -> Report:
    """Dream once over the memories that are due."""
    rows, cursor = ctx.read(lambda: (list(ctx.stores.catalogue.rows(EVERY_SCOPE)), ctx.stores.ledger.fact(CURSOR)))
    visited = due(rows, cursor, ctx.settings.sweep_days)
    pairs: list[Pair] = []
    seen = 0
    for start in range(0, len(visited), PROBES):
        if ctx.stopping():
            break
        batch = visited[start : start + PROBES]
        pairs += ctx.read(_near, ctx, batch)
        seen += len(batch)
        ctx.progress(seen, len(visited))
    visited = visited[:seen]
    degree, felt = ctx.read(_surroundings, ctx, visited, pairs)
    scopes = {row.id: row.scope for row in rows}
    planned = plan(visited, pairs, degree, scopes, felt, ctx.now, ctx.settings.near)
    changes: list[Change] = [*planned.edges, *planned.patches]
    applied = ctx.apply(changes)
    if visited and not ctx.dry_run:
        last = visited[-1]
        ctx.read(ctx.stores.ledger.set_fact, CURSOR, [last.created_at, last.id])
    done: Sequence[Change] = changes if ctx.dry_run else applied.done
    linked = sum(isinstance(change, Edge) for change in done)
    counts = {"visited": len(visited), "linked": linked, "settled": len(done) - linked, "skipped": len(applied.skipped)}
    return Report(counts, _examples(planned, pairs), changed=len(done), stopped=seen < len(visited))


def _near(ctx: Context, batch: Sequence[Memory]) -> list[Pair]:
    """The near, unlinked pairs around a few memories, in one engine call a scope."""
    stores = ctx.stores
    records = stores.engine.retrieve(LIVE, [point_id(row.id) for row in batch], fields=[], vectors=True)
    probes = [
        (row, record.dense) for row in batch if (record := records.get(point_id(row.id))) and record.dense is not None
    ]
    found: list[Pair] = []
    wheres = [Where(now=ctx.now, scope=row.scope) for row, _ in probes]
    queries = [Query(dense, where.condition(), NEAREST) for (_, dense), where in zip(probes, wheres, strict=True)]
    for (row, _), where, scored in zip(probes, wheres, stores.engine.search(LIVE, queries), strict=True):
        linked = {edge.other(row.id) for edge in stores.synapses.of(row.id)}
        for one in scored:
            other = stores.catalogue.at_point(one.id)
            if (
                other
                and other.id != row.id
                and other.scope == row.scope
                and where.admits(other)
                and other.id not in linked
            ):
                found.append(Pair(min(row.id, other.id), max(row.id, other.id), one.score))
    return found


def _surroundings(
    ctx: Context, visited: Sequence[Memory], pairs: Sequence[Pair]
) -> tuple[dict[str, int], dict[str, list[float]]]:
    """Degrees of all that may be linked, and what the strong live neighbours of the visited feel."""
    stores = ctx.stores
    degree = {end: stores.synapses.degree(end) for pair in pairs for end in (pair.a, pair.b)}
    felt: dict[str, list[float]] = {}
    for row in visited:
        for edge in stores.synapses.of(row.id):
            other = stores.catalogue.get(edge.other(row.id))
            strong = edge.kind in ASSOCIATIVE and faded(edge, ctx.now, stores.awake) >= FELT_EDGE
            if strong and other is not None and other.state == "live":
                felt.setdefault(row.id, []).append(other.emotion)
    return degree, felt


def _examples(planned: Plan, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    cosine = {(pair.a, pair.b): pair.cosine for pair in pairs}
    linked = [
        {"edge": [edge.after.a, edge.after.b], "reason": f"cosine {cosine[edge.after.a, edge.after.b]:.2f}"}
        for edge in planned.edges
        if edge.after is not None
    ]
    settled = [
        {"id": patch.memory, "emotion": patch.fields["emotion"], "reason": "neighbours feel otherwise"}
        for patch in planned.patches
    ]
    half = EXAMPLES // 2
    return linked[: EXAMPLES - min(len(settled), half)] + settled[:half]
