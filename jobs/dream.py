"""The dream: replay old memories, link what is near but unlinked, let feelings settle.

(1) Replay: every memory has a fixed place on a circle, and a persistent cursor goes round it in `dream.sweep_days` runs;
so each is visited in time, whatever is added or removed meanwhile. (2) Link: each visited memory gets `similar` edges
(0.3) to its nearest neighbours from `near` on, at most 5 new ones a memory and none beyond degree 30. (3) Settle: the mean
emotion over associative edges >= 0.5; where it differs by more than 0.2, move 0.05 towards it, all computed from the
emotions as they were when the run began, so that order cannot matter.

It cites nothing and touches nothing else. Source: anchor-memory's dream pass, with its sampling, its citations and its
order dependence mended.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Applied, Edge, Patch
from storage.engine import Condition, Query, Vector
from storage.memories import LIVE
from storage.model import Memory, synapse_key
from storage.store import Stores
from storage.synapses import ASSOCIATIVE, associate, faded
from storage.where import Where

CURSOR: Final = "dream:cursor"
LEAST: Final = 50  # visited a run, where there are so many
CHUNK: Final = 64  # visited between two checkpoints
PROBES: Final = 8  # searched in one lane call
NEAREST: Final = 9  # looked at for a memory, itself included
FINER: Final = 6  # times as many are asked for where memories of finer scopes are among them
NEW_EDGES: Final = 5
MAX_DEGREE: Final = 30
SIMILAR: Final = 0.3
FELT_EDGE: Final = 0.5
GAP: Final = 0.2
NUDGE: Final = 0.05

Cursor = tuple[float, str]  # a place on the circle, and the id up to which it was visited there


class Pair(NamedTuple):
    """A visited memory and an unlinked one near it, both of one scope, in the order of their ids."""

    a: str
    b: str
    scope: str
    cosine: float


@dataclass(slots=True)
class Around:
    """What lies around some visited memories: them as they are now, near pairs, degrees, and what neighbours feel."""

    visited: list[Memory] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    degree: dict[str, int] = field(default_factory=dict)
    felt: dict[str, list[float]] = field(default_factory=dict)


class Plan(NamedTuple):
    """What one part of a dream changes."""

    edges: list[Edge]
    patches: list[Patch]


def place(memory: str) -> float:
    """Where a memory stands on the circle, 0..1: by its id alone, spread evenly, for ever."""
    return int.from_bytes(hashlib.blake2b(memory.encode(), digest_size=6).digest()) / 2**48


def due(ids: Sequence[str], cursor: Cursor, sweep_days: float) -> tuple[list[str], Cursor]:
    """The memories to visit now, in order, and where the next run begins: a `sweep_days`th of the circle, or 50 of them."""
    ring = sorted((place(memory), memory) for memory in ids)
    start = bisect_right(ring, cursor)
    ahead = [(at - cursor[0], (at, memory)) for at, memory in ring[start:]]
    ahead += [(at - cursor[0] + 1.0, (at, memory)) for at, memory in ring[:start]]
    share = 1.0 / sweep_days + 1e-9  # so that the shares of a whole sweep never fall short of the circle
    within = sum(distance <= share for distance, _ in ahead)
    visited = [one for _, one in ahead[: max(within, LEAST)]]
    end = visited[-1] if len(visited) > within else ((cursor[0] + share) % 1.0, "")
    return [memory for _, memory in visited], end


def plan(around: Around, fresh: Mapping[str, int], now: float, near: float) -> Plan:
    """Link and settle; `fresh` counts the edges that this run has given each memory already."""
    return Plan(link(around.pairs, around.degree, fresh, now, near), settle(around.visited, around.felt))


def link(
    pairs: Sequence[Pair], degree: Mapping[str, int], fresh: Mapping[str, int], now: float, near: float
) -> list[Edge]:
    """New `similar` edges for the nearest pairs, closest first, within both limits."""
    degrees, new = Counter(degree), Counter(fresh)
    edges: dict[str, Edge] = {}
    for pair in sorted(pairs, key=lambda one: (-one.cosine, one.a, one.b)):
        key = synapse_key(pair.a, pair.b, "similar")
        ends = (pair.a, pair.b)
        full = any(new[end] >= NEW_EDGES or degrees[end] >= MAX_DEGREE for end in ends)
        if pair.cosine < near or key in edges or full:
            continue
        new.update(ends)
        degrees.update(ends)
        edges[key] = Edge(key, None, associate(*ends, "similar", SIMILAR, now), pair.scope)
    return list(edges.values())


def settle(visited: Sequence[Memory], felt: Mapping[str, Sequence[float]]) -> list[Patch]:
    """Nudge each visited memory towards the mean of what its strong neighbours feel."""
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


def run(ctx: Context) -> Report:
    """Dream once over the memories that are due; each part is applied and checkpointed before the next is looked at."""
    emotions, cursor = ctx.read(_snapshot, ctx)
    visits, end = due(list(emotions), cursor, ctx.settings.sweep_days)
    size = max(len(visits), 1) if ctx.dry_run else CHUNK  # what is only planned must know all that was planned
    total, cosine, fresh, visited = Applied(), dict[tuple[str, str], float](), Counter[str](), 0
    for start in range(0, len(visits), size):
        chunk = visits[start : start + size]
        around = _look(ctx, chunk, emotions)
        planned = plan(around, fresh, ctx.now, ctx.settings.near)
        applied = ctx.apply([*planned.edges, *planned.patches], tell=False)
        total.extend(applied)
        cosine |= {(pair.a, pair.b): pair.cosine for pair in around.pairs}
        if ctx.cut_short:
            break
        fresh.update(tip for edge in applied.done if isinstance(edge, Edge) and edge.after for tip in edge.after[:2])
        visited += len(around.visited)
        through = start + len(chunk)
        if not ctx.dry_run:
            here = (place(chunk[-1]), chunk[-1])
            ctx.read(ctx.stores.ledger.set_fact, CURSOR, end if through == len(visits) else here)
        ctx.progress(through, len(visits))
    linked = sum(isinstance(change, Edge) for change in total.done)
    counts = {
        "visited": visited, "linked": linked, "settled": len(total.done) - linked, "skipped": len(total.skipped)
    }  # fmt: skip
    return Report(counts, _examples(total, cosine), changed=len(total.done))


def _snapshot(ctx: Context) -> tuple[dict[str, float], Cursor]:
    """What each live memory feels as the run begins, and where the last run ended."""
    at, memory = ctx.stores.ledger.fact(CURSOR) or (0.0, "")
    return {row.id: row.emotion for row in ctx.stores.catalogue.rows()}, (float(at), str(memory))


def _look(ctx: Context, ids: Sequence[str], emotions: Mapping[str, float]) -> Around:
    around = Around()
    for start in range(0, len(ids), PROBES):
        if ctx.must_stop():
            break
        ctx.read(_probe, ctx, ids[start : start + PROBES], emotions, around)
    return around


def _probe(ctx: Context, ids: Sequence[str], emotions: Mapping[str, float], around: Around) -> None:
    """Look around a few memories, with one call of the engine for all of them."""
    stores = ctx.stores
    alive = Where(now=ctx.now)
    rows = [row for row in map(stores.catalogue.get, ids) if row is not None and alive.admits(row)]
    around.visited += rows
    for row in rows:
        around.felt[row.id] = _felt(ctx, row, emotions)
    records = stores.engine.retrieve(LIVE, [stores.catalogue.point(row.id) for row in rows], fields=[], vectors=True)
    dense = {row.id: record.dense for row in rows if (record := records.get(stores.catalogue.point(row.id)))}
    probes = [(row, vector) for row in rows if (vector := dense.get(row.id)) is not None]
    queries = [_query(stores, row.scope, vector) for row, vector in probes]
    for (row, _), scored in zip(probes, stores.engine.search(LIVE, queries), strict=True):
        near = [(stores.catalogue.at_point(one.id), one.score) for one in scored]
        same = [(other, cosine) for other, cosine in near if other and other.scope == row.scope and alive.admits(other)]
        linked = {edge.other(row.id) for edge in stores.synapses.of(row.id)} | {row.id}
        for other, cosine in same[:NEAREST]:
            if other.id not in linked:
                a, b = sorted((row.id, other.id))
                around.pairs.append(Pair(a, b, row.scope, cosine))
                around.degree |= {end: stores.synapses.degree(end) for end in (a, b)}


def _query(stores: Stores, scope: str, vector: Vector) -> Query:
    """The nearest in a scope: without a filter where it would exclude nothing, and more where finer scopes mix in."""
    seen = stores.catalogue.count(scope)
    condition = None if seen == len(stores.catalogue) else Condition(scope=scope)
    finer = seen > len(stores.catalogue.scope(scope).live)
    return Query(vector, condition, NEAREST * FINER if finer else NEAREST)


def _felt(ctx: Context, row: Memory, emotions: Mapping[str, float]) -> list[float]:
    """What the live neighbours over strong edges felt when the run began."""
    stores = ctx.stores
    return [
        emotions[other]
        for edge in stores.synapses.of(row.id)
        if edge.kind in ASSOCIATIVE
        and (other := edge.other(row.id)) in emotions
        and faded(edge, ctx.now, stores.awake) >= FELT_EDGE
    ]


def _examples(total: Applied, cosine: Mapping[tuple[str, str], float]) -> list[dict[str, Any]]:
    linked = [
        {"edge": list(edge.after[:2]), "reason": f"cosine {cosine[edge.after.a, edge.after.b]:.2f}"}
        for edge in total.done
        if isinstance(edge, Edge) and edge.after is not None
    ]
    settled = [
        {"id": patch.memory, "emotion": patch.fields["emotion"], "reason": "neighbours feel otherwise"}
        for patch in total.done
        if isinstance(patch, Patch)
    ]
    half = EXAMPLES // 2
    return linked[: EXAMPLES - min(len(settled), half)] + settled[:half]
