"""Changes that a run makes: checked, journalled, applied in small batches; `inverse` takes them back by their images.

A plan holds what it saw (`seq` of a memory, the edge as it was). `apply` re-checks that in the lane at the moment of
writing: whatever changed since is skipped and counted. The before-images are committed before the batch is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from storage.catalogue import Catalogue
from storage.comments import Comments
from storage.engine import Payload
from storage.ledger import Ledger
from storage.memories import Memories, Vectors
from storage.model import Memory, Synapse
from storage.records import Records
from storage.synapses import Synapses

BATCH: Final = 256
#: What a move to the bin is called, by its reason, where `decay`'s ceiling does not count it.
OPS: Final = {"expired": "expire", "undone": "retract", "scope": "clear"}


class Patch(NamedTuple):
    """Set fields of a memory that is still at `seq`."""

    memory: str
    seq: int
    fields: Mapping[str, Any]


class Move(NamedTuple):
    """Set the fields that decide where a memory lives; `op`: forget, expire, retract, clear, restore or supersede."""

    memory: str
    seq: int
    fields: Mapping[str, Any]
    op: str


class Erase(NamedTuple):
    """Remove a memory with its edges and versions for good; this alone cannot be taken back."""

    memory: str
    seq: int


class Insert(NamedTuple):
    """Add a memory that is not there yet, in whatever state it says it is."""

    row: Memory
    vectors: Vectors


class RecordChange(NamedTuple):
    """Turn the record at `key` from `before` to `after` (payloads); None = there is none."""

    key: str
    before: Payload | None
    after: Payload | None
    scope: str


class Edge(NamedTuple):
    """Turn the edge at `key` from `before` to `after`; None = there is none."""

    key: str
    before: Synapse | None
    after: Synapse | None
    scope: str


Change = Patch | Move | Erase | Edge | Insert | RecordChange
#: Hears what a run changed, in the lane and right after it was done: the run, and each change with its scope.
Watcher = Callable[[str, Sequence[tuple[Change, str]]], None]


@dataclass(slots=True)
class Applied:
    """What was done, and what was skipped since it had changed meanwhile."""

    done: list[Change] = field(default_factory=list)
    skipped: list[Change] = field(default_factory=list)

    def extend(self, other: Applied) -> None:
        """Add what a later batch did."""
        self.done += other.done
        self.skipped += other.skipped


class Changer:
    """Applies changes to one store. All calls are made in the lane."""

    def __init__(
        self, catalogue: Catalogue, memories: Memories, synapses: Synapses, records: Records, comments: Comments, ledger: Ledger
    ) -> None:  # fmt: skip
        self._catalogue = catalogue
        self._memories = memories
        self._synapses = synapses
        self._records = records
        self._comments = comments
        self._ledger = ledger
        self.watcher: Watcher | None = None

    def apply(
        self, run: str | None, changes: Sequence[Change], now: float, *, taking_back: bool = False
    ) -> Applied:  # fmt: skip
        """Make the changes that still fit; without a run (the learning flush) they are not journalled.

        `taking_back` are a run's changes by which it takes back its own: no undo of it ever makes them again.
        """
        applied = Applied()
        touched: set[str] = set()  # of two changes to one thing the second did not see the first
        records = self._records.get([change.key for change in changes if isinstance(change, RecordChange)])
        for change in changes:
            thing = thing_of(change)
            fits = thing not in touched and self._fits(change, records)
            (applied.done if fits else applied.skipped).append(change)
            touched.add(thing)
        if run is None or not applied.done:
            self._write(applied.done)
            return applied
        entries = [self._entry(change) for change in applied.done]
        self._ledger.write_journal(run, now, entries, undone=taking_back)
        self._write(applied.done)
        if self.watcher is not None:
            scopes = [scope for _, _, scope, _, _ in entries]
            self.watcher(run, list(zip(applied.done, scopes, strict=True)))
        return applied

    def _write(self, changes: Sequence[Change]) -> None:
        """The new comes before the old goes: a crash in between leaves both."""
        edges = [one for one in changes if isinstance(one, Edge)]
        records = [one for one in changes if isinstance(one, RecordChange)]
        self._memories.insert([one for one in changes if isinstance(one, Insert)])
        self._records.put({one.key: one.after for one in records if one.after is not None})
        self._memories.patch({one.memory: one.fields for one in changes if isinstance(one, Patch)})
        self._memories.move({one.memory: one.fields for one in changes if isinstance(one, Move)})
        self._synapses.put([one.after for one in edges if one.after is not None])
        self._synapses.drop([one.key for one in edges if one.after is None])
        self._drop([one.key for one in records if one.after is None])
        self.erase([one.memory for one in changes if isinstance(one, Erase)])

    def erase(self, ids: Sequence[str]) -> None:
        """Remove memories for good, and all that hangs on them: what points at them goes first."""
        if ids:
            self._ledger.let_go(ids)
            gone = frozenset(ids)
            left = [row.id for row in self._catalogue.gone() if row.superseded_by in gone and row.id not in gone]
            self._memories.patch({memory: {"superseded_by": None} for memory in left})
            self._comments.release(self._comments.of(ids))
            self._synapses.drop_around(ids)
            self._records.erase(ids)
            self._memories.erase(ids)

    def erase_taken(self, ids: Sequence[str]) -> None:
        """Remove for good what merges took from these memories, from whoever has it now."""
        self._drop(self._records.taken_from(ids))

    def _drop(self, records: Sequence[str]) -> None:
        self._comments.release(records)
        self._records.drop(records)

    def _fits(self, change: Change, records: Mapping[str, Payload]) -> bool:
        if isinstance(change, Edge):
            return self._synapses.get(change.key) == change.before and ends_exist(self._catalogue, change.after)
        if isinstance(change, RecordChange):
            return same(records.get(change.key), change.before)
        if isinstance(change, Insert):
            return change.row.id not in self._catalogue
        row = self._catalogue.get(change.memory)
        return row is not None and row.seq == change.seq

    def _entry(self, change: Change) -> tuple[str, str, str, Any, Any]:
        if isinstance(change, Edge):
            return "edge", change.key, change.scope, change.before, change.after
        if isinstance(change, RecordChange):
            return "record", change.key, change.scope, change.before, change.after
        if isinstance(change, Insert):
            return "insert", change.row.id, change.row.scope, None, {"version": change.row.version}
        row = self._memories.row(change.memory)
        if isinstance(change, Erase):
            return "erase", row.id, row.scope, None, None
        before = {name: getattr(row, name) for name in change.fields}
        return change.op if isinstance(change, Move) else "patch", row.id, row.scope, before, dict(change.fields)


def thing_of(change: Change) -> str:
    """What a change is about: a memory's id, or the key of an edge or a record."""
    match change:
        case Edge() | RecordChange():
            return change.key
        case Insert():
            return change.row.id
        case Patch() | Move() | Erase():
            return change.memory


def ends_exist(catalogue: Catalogue, edge: Synapse | None) -> bool:
    """Whether an edge, if it is one, would hang in the air at neither end."""
    return edge is None or (edge.a in catalogue and edge.b in catalogue)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same: a list is its tuple, and the engine may alter the last digit of a float."""
    match one, other:
        case float(), float():
            return math.isclose(one, other, rel_tol=1e-15)
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
        case (list() | tuple(), list() | tuple()):
            return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
