"""Import: what a file holds becomes memories, with what hangs on them. It is a run, and can be undone.

In a first pass everything is read, checked, let through the gate and compared with what is here; what is to be stored waits
in a spool. A file that is cut, or of a newer format, is refused there, before anything was written. The second pass embeds
and writes in small batches. What is here already always stays as it is.

Nothing is ever half imported: where the second pass does not come to its end, what it wrote is taken back, by itself or,
after a kill, by the next start. What an earlier undo had put into the bin lies there again then, but for what had to make
room, since the file has another text under its id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from jobs import unfinished
from jobs.context import BATCH, EXAMPLES, Context, Report, check_counts
from storage.changes import Change, Edge, Erase, RecordChange, thing_of
from storage.errors import DreamdError, Unavailable
from storage.exchange.admission import Passed, passed
from storage.exchange.arriving import steps
from storage.exchange.census import Census, change_for, memory_of
from storage.exchange.detect import Source, unreadable
from storage.exchange.items import KINDS, Fault
from storage.exchange.sessions import chained
from storage.exchange.spool import Spool, Waiting
from storage.exchange.telling import OTHER, word
from storage.lane import Stopping
from storage.memories import Vectors
from storage.model import DEFAULT_SCOPE, Memory, cleared, scored_text
from storage.store import Stores

NAME: Final = "import"
DEADLINE: Final = 6 * 3600.0  # seconds
LISTED: Final = 100  # conflicts, failures, and names of what is unknown, that are told one by one
PROBE: Final = "a text that every embedder takes"


class Wanted(NamedTuple):
    """What is imported, and for whom."""

    path: Path
    source: Source
    clearance: str
    default_sensitivity: str
    kinds: frozenset[str]  # of what redaction masks


@dataclass(slots=True)
class Outcome:
    """What an import did, or would do. `counts` are things stored, `kept` such as are here already, each by kind."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)  # kinds, and fields, that have no place here
    redactions: Counter[str] = field(default_factory=Counter)
    scopes: Counter[str] = field(default_factory=Counter)  # of the memories stored
    conflicts: list[tuple[str, str]] = field(default_factory=list)  # id and place
    conflicts_total: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)  # place and why
    failed_total: int = 0
    began: bool = False  # to write
    taken_back: bool = True
    error: Exception | None = None

    def fail(self, place: str, detail: str) -> None:
        """Note something that is not stored, and why."""
        self.failed_total += 1
        if len(self.failed) < LISTED:
            self.failed.append((place, detail))

    def differ(self, memory: str, place: str) -> None:
        """Note a memory of which ours is kept."""
        self.conflicts_total += 1
        if len(self.conflicts) < LISTED:
            self.conflicts.append((memory, place))

    def pass_over(self, name: str) -> None:
        """Note a kind, or a field, that has no place here; of very many names the rest have one together."""
        known = name in self.unknown or len(self.unknown) < LISTED - 1
        self.unknown[name if known else OTHER] += 1

    def report(self) -> Report:
        """The same as a run tells it."""
        told = {"skipped": self.kept["memory"], "conflicts": self.conflicts_total, "failed": self.failed_total}
        shown = [{"id": one, "reason": f"ours differs from {place}"} for one, place in self.conflicts]
        shown += [{"reason": f"{place}: {detail}"} for place, detail in self.failed]
        shown = shown[:EXAMPLES]
        return Report({**self.counts, **told}, shown, changed=self.counts.total())


def run(ctx: Context, wanted: Wanted, outcome: Outcome) -> Report:
    """Import, or in a dry run only say what that would do; `outcome` is filled as it goes."""
    census = Census(wanted.clearance, ctx.dry_run, ctx.now)
    through = False
    try:
        if not ctx.dry_run:
            ctx.read_in_turns(unfinished.taking_back(ctx.stores, ctx.now))  # what one before could not take back
            ctx.texts.vectors([PROBE])  # an embedder that is away is told of now, not when all is read
        with Spool(ctx.stores.folder) as spool:
            _take_in(ctx, wanted, census, spool, outcome)
            _store(ctx, wanted, census, spool, outcome)
            if not ctx.cut_short and outcome.began:
                ctx.read(check_counts, ctx.stores)
                ctx.read(unfinished.end, ctx.stores, ctx.run_id)
        through = not ctx.cut_short
    except Stopping:
        ctx.cut_short = True
    except Exception as error:
        outcome.error = error
        raise
    finally:
        if outcome.began and not through:
            outcome.taken_back = _take_back(ctx)
    return outcome.report() if through else Report({})


# -- the first pass


def _take_in(ctx: Context, wanted: Wanted, census: Census, spool: Spool, outcome: Outcome) -> None:
    """Read everything; what may be stored waits. Raises Invalid where the file is refused as a whole."""
    memories: list[Passed] = []
    read = 0
    for entry in _entries(wanted):
        if ctx.must_stop():
            return
        read += 1
        if isinstance(entry, Fault):
            outcome.fail(*entry)
        elif entry.kind not in KINDS:
            outcome.pass_over(entry.kind)
        else:
            try:
                one = passed(entry, ctx.texts.admit, wanted.default_sensitivity, wanted.kinds)
            except ValueError as error:
                outcome.fail(entry.place, str(error))
                continue
            outcome.redactions.update(one.redactions)
            for name in one.unknown:
                outcome.pass_over(f"{one.kind}.{word(name)}")
            if one.kind == "memory":
                memories.append(one)
            else:
                spool.add(one.kind, one.place, one.fields)
                if one.kind == "comment" and "id" in one.fields:
                    census.replies.setdefault(one.fields["id"], one.fields.get("reply_to", ""))
        if len(memories) == BATCH:
            _sort(ctx, census, memories, spool, outcome)
            memories = []
            ctx.progress(read, 0)
    _sort(ctx, census, memories, spool, outcome)
    census.break_circles()


def _entries(wanted: Wanted) -> Iterator[Any]:
    try:
        yield from wanted.source.read(wanted.path)
    except OSError as error:
        raise unreadable(wanted.path, error) from error


def _sort(ctx: Context, census: Census, memories: Sequence[Passed], spool: Spool, outcome: Outcome) -> None:
    """Let those memories wait that are not here yet, or come back; note what becomes of the others."""
    built = [memory_of(one.fields, ctx.now) for one in memories]
    own = ["id" in one.fields for one in memories]
    verdicts = ctx.read(_judged, ctx.stores, census, built, own)
    for one, memory, verdict in zip(memories, built, verdicts, strict=True):
        match verdict:
            case "new" | "back":
                spool.add("memory", one.place, {**one.fields, "id": memory.id})
            case "same":
                outcome.kept["memory"] += 1
            case "differs":
                outcome.differ(memory.id, one.place)
            case "hidden":
                outcome.fail(one.place, "its id is not free")


def _judged(stores: Stores, census: Census, memories: Sequence[Memory], own: Sequence[bool]) -> list[str]:
    """Called in the lane."""
    return [census.judge(stores, one, own_id=has_id) for one, has_id in zip(memories, own, strict=True)]


# -- the second pass


def _store(ctx: Context, wanted: Wanted, census: Census, spool: Spool, outcome: Outcome) -> None:
    """Store what waits, the memories first: everything else refers to them."""
    done = 0
    if len(spool) and not ctx.dry_run and not ctx.cut_short:
        outcome.began = True
        ctx.read(unfinished.begin, ctx.stores, ctx.run_id)
    for kind in KINDS:
        for batch in spool.batches(kind, BATCH):
            if ctx.must_stop():
                return
            if kind == "memory":
                _store_memories(ctx, census, batch, outcome)
            else:
                stored, kept = ctx.read(_store_others, ctx, census, kind, batch, outcome)
                outcome.counts[kind] += stored
                outcome.kept[kind] += kept
            done += len(batch)
            ctx.progress(done, len(spool))
    if not wanted.source.whole and not ctx.dry_run:
        for place in census.sessions:
            ctx.apply(ctx.read(chained, ctx.stores, *place, census.new.keys(), ctx.now), tell=False)


def _store_memories(ctx: Context, census: Census, batch: Sequence[Waiting], outcome: Outcome) -> None:
    """Embed and write; what one text alone is at fault for is that text's failure."""
    scopes = {one.place: one.fields.get("scope", DEFAULT_SCOPE) for one in batch}
    if ctx.dry_run:
        outcome.counts["memory"] += len(batch)
        outcome.scopes.update(scopes.values())
        return
    texts = [scored_text(one.fields.get("author", ""), one.fields["content"]) for one in batch]
    made = list(zip(batch, _vectors(ctx, texts), strict=True))
    for one, vectors in made:
        if vectors is None:
            outcome.fail(one.place, "the embedder makes no vector of it")
    taken = ctx.read(_write_memories, ctx, census, [(one, vectors) for one, vectors in made if vectors is not None])
    for place, memory, stored in taken:
        if stored:
            outcome.counts["memory"] += 1
            outcome.scopes[scopes[place]] += 1
        else:  # its id was taken while it waited
            census.differing.add(memory)
            outcome.differ(memory, place)


def _vectors(ctx: Context, texts: Sequence[str]) -> list[Vectors | None]:
    """The vectors of each text, None where it has none. Raises Unavailable where the embedder is away."""
    try:
        return list(ctx.texts.vectors(texts))
    except Stopping:
        raise
    except Unavailable:
        ctx.texts.vectors([PROBE])
        if len(texts) == 1:
            return [None]
        return [one for text in texts for one in _vectors(ctx, [text])]


def _write_memories(
    ctx: Context, census: Census, batch: Sequence[tuple[Waiting, Vectors]]
) -> list[tuple[str, str, bool]]:
    """Place and id of each, and whether it was stored. Called in the lane."""
    told: list[tuple[str, str, Change]] = []
    before: list[Change] = []
    for (place, fields), vectors in batch:
        memory = _finished(ctx, census, fields)
        *first, last = steps(ctx.stores, memory, vectors, census.clearance)
        before += first
        told.append((place, memory.id, last))
    apply = ctx.stores.changer.apply
    # What makes room for another text is gone for good, and no undo is to look for it.
    apply(ctx.run_id, [one for one in before if isinstance(one, Erase)], ctx.now, taking_back=True)
    apply(ctx.run_id, [one for one in before if not isinstance(one, Erase)], ctx.now)
    done = set(map(id, apply(ctx.run_id, [last for *_, last in told], ctx.now).done))
    return [(place, memory, id(last) in done) for place, memory, last in told]


def _finished(ctx: Context, census: Census, fields: Mapping[str, Any]) -> Memory:
    """A memory with what only the store can tell: who is named in it, its successor, and when it was made if now."""
    memory = memory_of(fields, ctx.now)
    if "created_at" not in fields:
        created = ctx.stores.catalogue.stamp(ctx.now)
        memory = replace(memory, created_at=created, updated_at=max(created, fields.get("updated_at", created)))
    if "entities" not in fields:
        named = ctx.stores.writer.entities_of(memory.scope, memory.author, memory.content, memory.sensitivity)
        memory = replace(memory, entities=named)
    successor = census.heirs.get(memory.id, "")
    heir = census.new.get(successor) or census.find(ctx.stores, successor)
    fits = heir is not None and heir.scope == memory.scope
    return replace(memory, superseded_by=successor if fits else None)


def _store_others(
    ctx: Context, census: Census, kind: str, batch: Sequence[Waiting], outcome: Outcome
) -> tuple[int, int]:
    """How many were stored, and how many are here already; looked at and written in one call of the lane."""
    changes: list[Edge | RecordChange] = []
    for place, fields in batch:
        try:
            change = change_for(kind, fields, ctx.stores, census)
        except ValueError as error:
            outcome.fail(place, str(error))
            continue
        outcome.kept[kind] += change is None
        changes += [] if change is None else [change]
    if not ctx.dry_run:
        applied = ctx.stores.changer.apply(ctx.run_id, changes, ctx.now)
        return len(applied.done), _shown(ctx, census, applied.skipped)
    there = ctx.stores.records.get([change.key for change in changes]).keys() | census.keys
    fresh = {change.key for change in changes} - there
    census.keys |= fresh
    return len(fresh), _shown(ctx, census, [change for change in changes if change.key not in fresh])


def _shown(ctx: Context, census: Census, kept: Sequence[Change]) -> int:
    """How many of those that are here the caller may know of: what is hidden is counted nowhere."""
    records = ctx.stores.records.get([change.key for change in kept if isinstance(change, RecordChange)])
    levels = (records.get(thing_of(change), {}).get("sensitivity") for change in kept)
    return sum(level is None or cleared(level, census.clearance) for level in levels)


def _take_back(ctx: Context) -> bool:
    """Take back what this run wrote; false where that fails, and is left to the next start."""
    try:
        ctx.read_in_turns(unfinished.taking_back(ctx.stores, ctx.now))
    except DreamdError:
        return False
    return True
