"""Forgetting a whole scope with all that lies below it: its memories, and its facts, turns and session states.

Memories go to the bin, where an undo of the run finds them; the other records are journalled and come back by it too.
With `hard` everything is erased for good, what lies in the bin already and every image in the journal as well. Whoever
asks spells the scope out, so neither ceiling nor protection holds anything back. What the caller's clearance does not
cover stays, and is told to nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from jobs.context import BATCH, EXAMPLES, Context, Report, check_counts
from storage.changes import OPS, Change, Erase, Move, RecordChange
from storage.engine import Payload
from storage.forget import SCRUB_DUE
from storage.model import Memory, cleared, point_id

NAME: Final = "forget_scope"
DEADLINE: Final = 3600.0  # seconds
REASON: Final = "scope"


class Rule(NamedTuple):
    """Which scope is forgotten, by whom, and whether for good."""

    scope: str
    clearance: str
    hard: bool


@dataclass(slots=True)
class Outcome:
    """What went: memories, how many of them were live, other records, and when the oldest of it all was made."""

    forgotten: list[str] = field(default_factory=list)
    live: int = 0
    records: int = 0
    since: float = math.inf


class Found(NamedTuple):
    """Ids of memories and keys of records that are to go, and those that the clearance does not cover."""

    memories: list[str]
    records: list[str]
    hidden: frozenset[str]


def plan(rows: Iterable[Memory], records: Mapping[str, Payload], now: float, *, hard: bool = False) -> list[Change]:
    """The changes that make these rows and records go; a record that goes for good is not to be journalled."""
    if hard:
        return [Erase(row.id, row.seq) for row in rows]
    fields = {"forgotten_at": now, "forgotten_reason": REASON}
    moves = [Move(row.id, row.seq, fields, OPS[REASON]) for row in rows if row.state == "live"]
    return [*moves, *(RecordChange(key, payload, None, payload["scope"]) for key, payload in records.items())]


def run(ctx: Context, rule: Rule, outcome: Outcome) -> Report:
    """Forget what is in the scope as the run begins; `outcome` is filled as it goes."""
    found = _found(ctx, rule)
    if rule.hard:
        _blank(ctx, rule, found)
    parts = list(_parts(found))
    for number, part in enumerate(parts, 1):
        if ctx.must_stop():
            break
        ctx.read(_go, ctx, rule, part, outcome)
        ctx.progress(number, len(parts))
    if rule.hard:
        _blank(ctx, rule, found)  # a merge by hand may have journalled some of it meanwhile
    ctx.read(check_counts, ctx.stores)
    named = [] if rule.hard else outcome.forgotten[:EXAMPLES]  # the ledger keeps no name of what was erased
    examples = [{"id": memory, "reason": REASON} for memory in named]
    counts = {"forgotten": len(outcome.forgotten), "records": outcome.records}
    return Report(counts, examples, changed=sum(counts.values()))


def _found(ctx: Context, rule: Rule) -> Found:
    rows = ctx.read(_rows, ctx, rule)
    memories = [row.id for row in rows if cleared(row.sensitivity, rule.clearance)]
    records: list[str] = []
    hidden = {row.id for row in rows}.difference(memories)
    batches = ctx.stores.records.within(rule.scope)
    while (batch := ctx.read(next, batches, None)) is not None:
        for key, payload in batch.items():
            (records.append if is_covered(payload, rule.clearance) else hidden.add)(key)
    return Found(memories, records, frozenset(hidden))


def is_covered(record: Payload, clearance: str) -> bool:
    """Whether a clearance covers a record; one without a level of its own is everybody's."""
    return "sensitivity" not in record or cleared(record["sensitivity"], clearance)


def _rows(ctx: Context, rule: Rule) -> list[Memory]:
    catalogue = ctx.stores.catalogue
    return [*catalogue.rows(rule.scope), *(catalogue.gone(rule.scope) if rule.hard else ())]


def _blank(ctx: Context, rule: Rule, found: Found) -> None:
    """Leave no image behind, and say that a scrub is due.

    Before anything goes, so that a crash leaves memories that cannot be taken back rather than text of what is gone.
    """
    ledger = ctx.stores.ledger
    ctx.note(ledger.set_fact, SCRUB_DUE, ctx.now)
    ctx.note(ledger.erase_images, found.memories)
    ctx.note(ledger.erase_names, found.memories)
    ctx.note(ledger.erase_images_within, rule.scope, found.hidden)
    ctx.note(ledger.canaries.forget_within, rule.scope)
    ledger.empty_log()


class _Part(NamedTuple):
    """What goes in one lane call."""

    memories: Sequence[str] = ()
    records: Sequence[str] = ()


def _parts(found: Found) -> Iterator[_Part]:
    for start in range(0, len(found.memories), BATCH):
        yield _Part(memories=found.memories[start : start + BATCH])
    for start in range(0, len(found.records), BATCH):
        yield _Part(records=found.records[start : start + BATCH])


def _go(ctx: Context, rule: Rule, part: _Part, outcome: Outcome) -> None:
    """Plan and apply one part as it is at this moment, so that nothing changes in between. Called in the lane."""
    stores = ctx.stores
    named = [row for memory in part.memories if (row := stores.catalogue.get(memory)) is not None]
    rows = [row for row in named if cleared(row.sensitivity, rule.clearance)]
    records = {
        key: payload for key, payload in stores.records.get(part.records).items() if is_covered(payload, rule.clearance)
    }
    if rule.hard:
        stores.ledger.note_erased([*(point_id(row.id) for row in rows), *records], ctx.now)
        stores.changer.erase_taken([row.id for row in rows])
    applied = stores.changer.apply(ctx.run_id, plan(rows, records, ctx.now, hard=rule.hard), ctx.now)
    if rule.hard:
        stores.records.drop(list(records))
    gone = [change.memory for change in applied.done if isinstance(change, Move | Erase)]
    outcome.forgotten += gone
    outcome.live += sum(row.state == "live" for row in rows)
    outcome.records += len(records)
    outcome.since = min([outcome.since, *(row.created_at for row in rows), *map(_made_at, records.values())])


def _made_at(record: Payload) -> float:
    """When a record was made, by whichever name its kind has for that; one that does not say was always there."""
    return float(next((record[name] for name in ("created_at", "written_at", "at") if name in record), 0.0))
