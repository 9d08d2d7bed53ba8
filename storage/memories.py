"""The memories as points: `memories` holds the live ones, `bin` the superseded and the forgotten.

Every write goes to the engine first and to the catalogue after it accepted. All calls are made in the lane.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from storage.catalogue import Catalogue
from storage.embed import Fingerprint
from storage.engine import Engine, Payload, Point, Record, Sparse, Vector
from storage.errors import Conflict, NotFound, command
from storage.model import FIELDS, TUPLES, Memory, cleared, point_id, prefixes
from storage.where import visible

LIVE: Final = "memories"
BIN: Final = "bin"
BATCH: Final = 256  # memories in RAM at once while they move; each may be a megabyte
INDEXES: Final = ("scopes", "tags", "sensitivity")
ROW: Final = tuple(name for name in FIELDS if name not in ("content", "context"))  # what the catalogue keeps
SHARED: Final = frozenset({
    "id", "author", "scope", "session", "type", "subtype", "tier", "heat", "source", "provenance", "sensitivity",
    "change_summary", "forgotten_reason",
})  # fmt: skip


class Vectors(NamedTuple):
    """What recall finds a memory by: the unit row and the terms of one text (`scored_text`), and whose row it is."""

    dense: Vector
    text: Sparse
    of: str
    by: Fingerprint | None = None


def to_payload(memory: Memory) -> Payload:
    """A memory as it is stored; fields that are None are left out, `scopes` lists every scope that sees it."""
    payload: Payload = {"scopes": list(prefixes(memory.scope))}
    for name in FIELDS:
        value = getattr(memory, name)
        if value is not None:
            payload[name] = list(value) if name in TUPLES else value
    return payload


def from_payload(payload: Mapping[str, Any]) -> Memory:
    """The memory in a payload; keys of a later version are passed over (and stay in the store).

    Words that many memories share are kept once.
    """
    known: dict[str, Any] = {name: payload[name] for name in FIELDS if name in payload}
    for name in TUPLES & known.keys():
        known[name] = tuple(map(sys.intern, known[name]))
    for name in SHARED & known.keys():
        known[name] = sys.intern(known[name])
    return Memory(**known)


class Memories:
    """Reading and writing whole memories, by id."""

    def __init__(self, engine: Engine, catalogue: Catalogue) -> None:
        self._engine = engine
        self._catalogue = catalogue

    def load(self, *, mend: bool = True) -> None:
        """Fill the catalogue from the store; a memory found in both collections lives where its `seq` is higher.

        The other copy is what a crash in the middle of a move left behind; `mend` removes it. A point that is no memory
        of ours is left alone: without a row, nothing here ever shows or touches it.
        """
        rows: dict[str, Memory] = {}
        stale: dict[str, list[str]] = {LIVE: [], BIN: []}
        for collection in (LIVE, BIN):
            for batch in self._engine.scroll(collection, fields=ROW):
                for record in batch:
                    if "id" not in record.payload:
                        continue
                    memory = from_payload(record.payload)
                    former = rows.get(memory.id)
                    if former is not None and former.seq >= memory.seq:
                        stale[collection].append(record.id)
                        continue
                    if former is not None:
                        stale[_home(former)].append(record.id)
                    rows[memory.id] = memory
        for collection, points in stale.items():
            if mend:
                self._engine.delete(collection, points)
        for memory in sorted(rows.values(), key=lambda one: (one.created_at, one.id)):
            self._catalogue.put(memory)

    def row(self, memory: str) -> Memory:
        """A memory without its text, in any state. Raises NotFound."""
        row = self._catalogue.get(memory)
        if row is None:
            raise missing(memory)
        return row

    def visible(self, memory: str, clearance: str) -> Memory:
        """A row in any state, if the caller may know of it. Raises NotFound, in the same words where it may not."""
        row = self.row(memory)
        if not cleared(row.sensitivity, clearance):
            raise missing(memory, row, clearance)
        return row

    def live(self, memory: str, clearance: str, now: float) -> Memory:
        """The row of a live memory. Raises NotFound as `visible` does, Conflict where it lies in the bin (`binned`)."""
        row = self.visible(memory, clearance)
        if row.state != "live":
            raise binned(self._catalogue, row, clearance, now)
        return row

    def read(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Whole memories by id, in any state; ids that do not exist are left out."""
        found: dict[str, Memory] = {}
        rows = [row for row in map(self._catalogue.get, ids) if row is not None]
        for collection in (LIVE, BIN):
            points = [point_id(row.id) for row in rows if _home(row) == collection]
            if points:
                records = self._engine.retrieve(collection, points)
                found |= {memory.id: memory for memory in map(_memory, records.values())}
        return found

    def read_one(self, memory: str) -> Memory:
        """One whole memory. Raises NotFound."""
        found = self.read([memory])
        if memory not in found:
            raise missing(memory)
        return found[memory]

    def insert(self, memories: Sequence[tuple[Memory, Vectors]]) -> None:
        """Add memories, each where its state belongs; they are acknowledged when this returns."""
        for collection in (LIVE, BIN):
            here = [(memory, vectors) for memory, vectors in memories if _home(memory) == collection]
            if here:
                self._engine.upsert(collection, [_point(memory, vectors, {}) for memory, vectors in here])
            for memory, _ in here:
                self._catalogue.put(memory)

    def rewrite(self, memory: Memory, vectors: Vectors) -> Memory:
        """Write an edited live memory whole, with new vectors; its `seq` rises."""
        memory = replace(memory, seq=memory.seq + 1)
        point = point_id(memory.id)
        stored = self._engine.retrieve(LIVE, [point])[point].payload
        self._engine.upsert(LIVE, [_point(memory, vectors, stored)])
        self._catalogue.put(memory)
        return memory

    def patch(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Set fields of live or binned memories that change neither state nor vectors; `seq` rises by one each."""
        patched: dict[str, list[Memory]] = {}
        for memory, fields in changes.items():
            row = self.row(memory)
            patched.setdefault(_home(row), []).append(replace(row, **fields, seq=row.seq + 1))
        for collection, rows in patched.items():
            self._engine.set_payload(collection, {point_id(row.id): _fields(row, changes[row.id]) for row in rows})
            for row in rows:
                self._catalogue.put(row)

    def move(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Set fields that change the state, and carry each memory to the collection where that state lives.

        The target is written and flushed before the source is deleted; a crash between leaves the memory in both, and
        the next start keeps the higher `seq`.
        """
        routes: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
        for memory, fields in changes.items():
            row = self.row(memory)
            routes.setdefault((_home(row), _home(replace(row, **fields))), {})[memory] = fields
        for (source, target), moved in routes.items():
            if source == target:
                self.patch(moved)
            else:
                self._carry(moved, source, target)

    def erase(self, ids: Sequence[str]) -> None:
        """Remove memories for good, wherever they are."""
        for collection in (LIVE, BIN):
            here = [memory for memory in ids if (row := self._catalogue.get(memory)) and _home(row) == collection]
            self._engine.delete(collection, [point_id(memory) for memory in here])
            for memory in here:
                self._catalogue.drop(memory)

    def _carry(self, changes: Mapping[str, Mapping[str, Any]], source: str, target: str) -> None:
        points = [point_id(memory) for memory in changes]
        for start in range(0, len(points), BATCH):
            records = self._engine.retrieve(source, points[start : start + BATCH], vectors=True)
            moved: list[tuple[Memory, Point]] = []
            for record in records.values():
                memory = from_payload(record.payload)
                memory = replace(memory, **changes[memory.id], seq=memory.seq + 1)
                moved.append((memory, Point(record.id, _payload(memory, record.payload), record.dense, record.text)))
            self._engine.upsert(target, [point for _, point in moved])
            for memory, _ in moved:  # where the rest fails it lives there already, as the next start will see it
                self._catalogue.put(memory)
            self._engine.flush(target)
            self._engine.delete(source, [point.id for _, point in moved])


def missing(memory: str, row: Memory | None = None, clearance: str = "secret") -> NotFound:
    """The one answer for a memory that does not exist or lies above the caller's clearance, as `row` does where given."""
    withheld = None if row is None or cleared(row.sensitivity, clearance) else row.sensitivity
    return NotFound(f"There is no memory {memory!r}.", hint="dreamctl list", withheld=withheld)


def binned(catalogue: Catalogue, row: Memory, clearance: str, now: float) -> Conflict:
    """The answer for a memory in the bin where a live one is wanted: the live one that took its place, if that may be known.

    To restore a superseded one would make two of what is one by now.
    """
    heir = catalogue.heir(row)
    if heir is None or not visible(heir, clearance, now):
        return Conflict(f"Memory {row.id!r} is {row.state}.", hint=command("restore", row.id), state=row.state)
    return Conflict(
        f"Memory {row.id!r} is {row.state} by {heir.id!r}.",
        hint=command("get", heir.id), state=row.state, superseded_by=heir.id,
    )  # fmt: skip


def _payload(memory: Memory, stored: Payload) -> Payload:
    """The payload of a memory, and whatever else a later version stored with it."""
    return {key: value for key, value in stored.items() if key not in FIELDS} | to_payload(memory)


def _point(memory: Memory, vectors: Vectors, stored: Payload) -> Point:
    return Point(point_id(memory.id), _payload(memory, stored), vectors.dense, vectors.text)


def _fields(row: Memory, changed: Iterable[str]) -> Payload:
    """Some fields of a row as they are stored; None removes one. The sequence number goes with them."""
    return {
        name: list(value) if isinstance(value := getattr(row, name), tuple) else value for name in (*changed, "seq")
    }


def _home(row: Memory) -> str:
    return LIVE if row.state == "live" else BIN


def _memory(record: Record) -> Memory:
    return from_payload(record.payload)
