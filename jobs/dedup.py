"""Dedup: memories of one scope that say the same become one, and such as say nearly the same are proposed to be looked at.

Twins (`storage.twins`) are found by what they say, whatever their vectors are, and merged (`storage.merge`): of several
the pinned one stays, then the higher tier, the one with more uses, the older, then by id. Never both of two, and nobody
pinned or core, or whom an undo or a `restore` parted from a twin, is retired. Each merge is made in one call of the lane,
stands as a whole or not at all, and is checked against what is stored at that moment.

No more than max(25 %, 10) of a scope are retired in any 24 awake hours, at every level of its path: a ceiling of its own,
since a merge loses nothing that is said; but a fault in what we call the same should be seen before it went through half a
store. 5,000 memories that came twice are one again after three nights. What was looked at for twins is remembered (`matching`):
texts are read of what is new or changed and of those that may say the same, and nothing of any other scope.

Near pairs (cosine from `propose` on, by blocked products) are not merged: a number, a name or a "not" is often all that
differs. The nearest of a run wait in the ledger for somebody's judgement, 200 at most a run and 2,000 in all. Pairs beyond
that are not lost, since one of each is looked at again. Only what is new or changed is compared with its scope; the same
two texts are proposed once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from jobs import unfinished
from jobs.context import EXAMPLES, Context, Report, check_counts
from jobs.decay import LEAST, moved_lately, room, within
from jobs.matching import Matching
from jobs.proposing import IN_ALL, Proposing
from storage import merge
from storage.errors import Refused
from storage.ledger import Ledger
from storage.model import Memory
from storage.nearness import Found
from storage.store import Stores
from storage.twins import Essence, Meaning, is_kept, precedence, twins
from storage.where import Where

MERGED: Final = "supersede"  # the journal's word for a move that the ceiling counts
CEILING: Final = 0.25  # of a scope that is retired in 24 hours
BATCH: Final = 2_000  # rows looked up in one lane call: 1 ms
VARIANTS: Final = 64  # different metadata in one text, beyond which it is a form that is filled in


class Merge(NamedTuple):
    """A memory that stays, and its twin that becomes part of it."""

    survivor: Memory
    duplicate: Memory


class Plan(NamedTuple):
    """Which twins are merged now, in order, and which wait for the ceiling."""

    merges: list[Merge]
    deferred: list[Merge]


def plan(
    rows: Sequence[Memory], essences: Mapping[str, Essence], left: Counter[str], spared: frozenset[str] = frozenset()
) -> Plan:  # fmt: skip
    """Choose who stays of each class of twins among these rows of one scope, and who becomes part of whom.

    Rows without an essence are passed over; `left` says how many may still be retired at each level (`decay.room`) and is
    lessened; nobody of `spared` is retired. Where a memory says the same as several that contradict each other, it joins the
    first of them.
    """
    classes: dict[int, list[Memory]] = {}
    for row in rows:
        if row.id in essences and row.type != "active":
            classes.setdefault(essences[row.id].common, []).append(row)
    merges = [
        merged
        for alike in classes.values()
        if len(alike) > 1
        for variant in _variants(alike)
        for merged in _merges(variant, essences, spared)
    ]
    merges.sort(key=lambda one: (one.survivor.id, precedence(one.duplicate)))
    now = {row.id for row in within([one.duplicate for one in merges], left)}
    return Plan(
        [one for one in merges if one.duplicate.id in now], [one for one in merges if one.duplicate.id not in now]
    )


def _variants(alike: list[Memory]) -> list[list[Memory]]:
    """One class, or of a text that has very many different metadata a class for each of them."""
    by_metadata: dict[str, list[Memory]] = {}
    for row in alike:
        by_metadata.setdefault(json.dumps(row.metadata, sort_keys=True), []).append(row)
    return [alike] if len(by_metadata) <= VARIANTS else list(by_metadata.values())


def _merges(alike: Sequence[Memory], essences: Mapping[str, Essence], spared: frozenset[str]) -> Iterator[Merge]:
    kept: list[tuple[Memory, Meaning]] = []
    for row in sorted(alike, key=precedence):
        meaning = Meaning.of(row, essences[row.id].case)
        place = next((n for n, (_, other) in enumerate(kept) if other.admits(meaning)), None)
        if place is None or is_kept(row) or row.id in spared:
            kept.append((row, meaning))
        else:
            survivor, other = kept[place]
            kept[place] = survivor, other.united_with(meaning)
            yield Merge(survivor, row)


# -- a run


@dataclass(slots=True)
class _Done:
    """What became of the twins so far."""

    merged: list[Merge] = field(default_factory=list)
    deferred: int = 0  # they wait for the ceiling
    skipped: int = 0


def run(ctx: Context) -> Report:
    """Merge the twins of each scope in which something is new or changed, then propose the nearest pairs."""
    if not ctx.dry_run:
        ctx.read_in_turns(unfinished.taking_back(ctx.stores, ctx.now))  # what one before could not take back
    rows = ctx.read(lambda: list(ctx.stores.catalogue.rows()))
    where = Where(now=ctx.now)
    alive = [row for row in rows if where.admits(row)]
    matching, proposing = Matching(ctx, rows), Proposing(ctx, rows, frozenset(row.id for row in alive))
    left, spared = ctx.read(_room, ctx, rows), _parted(ctx.stores.ledger, rows)
    done = _Done(skipped=len(rows) - len(alive))
    for scope, members in _by_scope(alive):
        if not (any(map(matching.is_new, members)) or proposing.has_new(members)):
            continue
        if ctx.must_stop():
            break
        rest = _merge_twins(ctx, matching, members, left, spared, done)
        if not ctx.cut_short:
            proposing.compare(scope, rest)
        if ctx.cut_short:
            break
    found = proposing.finish()
    if done.merged and not ctx.dry_run:
        ctx.read(check_counts, ctx.stores)
    counts = {
        "examined": proposing.examined + len(done.merged), "merged": len(done.merged), "proposed": len(found),
        "deferred": done.deferred, "left_out": proposing.left_out, "skipped": done.skipped + proposing.without_vector,
    }  # fmt: skip
    return Report(counts, _examples(done.merged, found), changed=len(done.merged), reason=_reason(done, proposing))


def _by_scope(rows: Sequence[Memory]) -> list[tuple[str, list[Memory]]]:
    """The memories that may have a like, by exact scope."""
    scopes: dict[str, list[Memory]] = {}
    for row in rows:
        if row.type != "active":
            scopes.setdefault(row.scope, []).append(row)
    return sorted(scopes.items())


def _room(ctx: Context, rows: Sequence[Memory]) -> Counter[str]:
    """How many may be retired at each level. Called in the lane."""
    return room(Counter(row.scope for row in rows), moved_lately(ctx, MERGED), CEILING)


def _parted(ledger: Ledger, rows: Sequence[Memory]) -> frozenset[str]:
    """Those that were merged once and came back, by an undo or out of the bin, and those they had been merged into."""
    merged = ledger.keys_of(MERGED)
    back = [row.id for row in rows if row.id in merged]
    images = [one.after for memory in back for one in ledger.journal_at(memory) if one.op == MERGED]
    return frozenset([*back, *(after["superseded_by"] for after in images if after is not None)])


def _merge_twins(
    ctx: Context, matching: Matching, rows: Sequence[Memory], left: Counter[str], spared: frozenset[str], done: _Done
) -> list[Memory]:
    """Merge the twins among these rows; those that stay, as they are now, but for such as wait to be merged."""
    essences = matching.essences(rows)
    if ctx.cut_short:
        return []
    planned = plan(rows, essences, left, spared)
    done.deferred += len(planned.deferred)
    out = {one.duplicate.id for one in planned.deferred}
    for number, one in enumerate(planned.merges, 1):
        if ctx.must_stop():
            return []
        outcome = ctx.read(_merge, ctx, one)
        if outcome == "merged":
            done.merged.append(one)
        else:
            done.skipped += 1
        if outcome != "refused":
            out.add(one.duplicate.id)
        ctx.progress(number, len(planned.merges))
    matching.note(rows, out)
    ids = [row.id for row in rows if row.id not in out]
    slices = [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
    return [row for some in slices for row in ctx.read(_live, ctx.stores, some)]


def _merge(ctx: Context, planned: Merge) -> Literal["merged", "waiting", "refused"]:
    """Merge two twins, if that is what they still are at this moment; in a dry run say whether that would be done.

    What was recalled and not yet folded is in use, and waits, as does what changed meanwhile. Called in the lane.
    """
    stores, survivor, duplicate = ctx.stores, planned.survivor.id, planned.duplicate.id
    whole = stores.memories.read((survivor, duplicate))
    where = Where(now=ctx.now)
    if len(whole) < 2 or not all(map(where.admits, whole.values())) or duplicate in ctx.learned(keep=True).accesses:
        return "waiting"
    if is_kept(whole[duplicate]) or not twins(whole[survivor], whole[duplicate]):
        return "waiting"
    try:
        changes = merge.intended(stores, survivor, duplicate, "secret", ctx.now)
    except Refused:  # together they are over a limit
        return "refused"
    if not ctx.dry_run:
        with unfinished.whole(stores, ctx.run_id, ctx.now):
            stores.changer.apply(ctx.run_id, changes, ctx.now)
    return "merged"


def _live(stores: Stores, ids: Sequence[str]) -> list[Memory]:
    """The rows of those that are live now. Called in the lane."""
    rows = [row for row in map(stores.catalogue.get, ids) if row is not None]
    return [row for row in rows if row.state == "live"]


def _examples(merged: Sequence[Merge], found: Sequence[Found]) -> list[dict[str, Any]]:
    made = [
        {
            "survivor": one.survivor.id, "duplicate": one.duplicate.id,
            "reason": "the same text" if _same_text(one) else "the same words",
        }
        for one in merged[:EXAMPLES]
    ]  # fmt: skip
    near = [{"pair": [one.a, one.b], "cosine": one.cosine} for one in found[:EXAMPLES]]
    return made[: EXAMPLES - min(len(near), EXAMPLES // 2)] + near[: EXAMPLES - min(len(made), EXAMPLES // 2)]


def _same_text(one: Merge) -> bool:
    return one.survivor.content_hash == one.duplicate.content_hash


def _reason(done: _Done, proposing: Proposing) -> str | None:
    """Why it did less than it could, if it did."""
    told = []
    if done.deferred:
        twins_wait = f"{done.deferred} twins wait: "
        told.append(f"{twins_wait}at most max({CEILING:.0%}, {LEAST}) of a scope are merged in 24 hours")
    if not proposing.has_room:
        told.append(f"{IN_ALL:,} near pairs wait to be judged: no others were looked for")
    return "; ".join(told) or None
