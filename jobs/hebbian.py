"""Hebbian learning: what was recalled together is wired together, and what was recalled stays fresher.

    w' = w(now) + 0.2 * (1 - w(now) / 10), once per recall and unordered pair of its top hits; a new edge starts at 0.2

Source: anchor-memory's +0.2 a co-recall, saturating instead of cut off at 10. Only `accessed_at`, `access_count` and
`access_days` of a memory are written; heat is `demote`'s alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs.context import BATCH, EXAMPLES, Context, Report
from storage.changes import Applied, Change, Edge, Patch
from storage.fading import Awake, strengthen
from storage.learn import Learned, accessed
from storage.model import Memory, Synapse, synapse_key
from storage.store import Stores
from storage.synapses import associate, faded

STEP: Final = 0.2


def plan(
    learned: Learned, rows: Mapping[str, Memory], edges: Mapping[str, Synapse], now: float, awake: Awake
) -> list[Change]:
    """The edges and access counts after what was learned; a pair in two scopes, or with an end gone, teaches nothing."""
    changes: list[Change] = []
    for memory, (times, last_at) in learned.accesses.items():
        row = rows.get(memory)
        if row is not None and row.state == "live":
            changes.append(Patch(memory, row.seq, accessed(row, times, last_at)))
    for (a, b), times in learned.pairs.items():
        one, other = rows.get(a), rows.get(b)
        if one is None or other is None or one.scope != other.scope or {one.state, other.state} != {"live"}:
            continue
        key = synapse_key(a, b, "hebbian")
        before = edges.get(key)
        weight = 0.0 if before is None else faded(before, now, awake)
        for _ in range(times):
            weight = float(strengthen(weight, STEP))
        after = associate(a, b, "hebbian", weight, now) if before is None else before._replace(weight=weight, as_of=now)
        changes.append(Edge(key, before, after, one.scope))
    return changes


def intended(stores: Stores, learned: Learned, now: float) -> list[Change]:
    """The plan against what is stored at this moment. Called in the lane."""
    keys = [synapse_key(a, b, "hebbian") for a, b in learned.pairs]
    edges = {key: edge for key in keys if (edge := stores.synapses.get(key)) is not None}
    ids = {memory for pair in learned.pairs for memory in pair} | learned.accesses.keys()
    rows = {memory: row for memory in ids if (row := stores.catalogue.get(memory)) is not None}
    return plan(learned, rows, edges, now, stores.awake)


def fold(stores: Stores, learned: Learned, now: float, run: str | None) -> Applied:
    """Plan and apply in one lane call, so that nothing can change in between."""
    return stores.changer.apply(run, intended(stores, learned, now), now)


def slices(learned: Learned) -> list[Learned]:
    """The same in parts of at most `BATCH` changes, so that requests can go in between."""
    pairs, accesses = list(learned.pairs.items()), list(learned.accesses.items())
    parts = [Learned({}, dict(accesses[start : start + BATCH])) for start in range(0, len(accesses), BATCH)]
    return parts + [Learned(dict(pairs[start : start + BATCH]), {}) for start in range(0, len(pairs), BATCH)]


def run(ctx: Context) -> Report:
    """Fold what the recalls taught since the last flush. It is little and exists nowhere else: a stop does not cut it."""
    applied = Applied()
    for part in slices(ctx.learned(keep=ctx.dry_run)):
        if ctx.dry_run:
            applied.done += ctx.read(intended, ctx.stores, part, ctx.now)
        else:
            applied.extend(ctx.read(fold, ctx.stores, part, ctx.now, ctx.run_id))
    edges = [change for change in applied.done if isinstance(change, Edge) and change.after is not None]
    counts = {"pairs": len(edges), "accesses": len(applied.done) - len(edges), "skipped": len(applied.skipped)}
    examples = [
        {"edge": [edge.after.a, edge.after.b], "weight": round(edge.after.weight, 4), "reason": "recalled together"}
        for edge in edges[:EXAMPLES]
        if edge.after is not None
    ]
    return Report(counts, examples, changed=len(applied.done))
