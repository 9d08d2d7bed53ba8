"""The memories as points: `memories` holds the live ones, `bin` the superseded and the forgotten.

Every write goes to the engine first and to the catalogue after it accepted. All calls are made in the lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from storage.catalogue import Catalogue
from storage.engine import Engine, Payload, Point, Record, Sparse, Vector
from storage.errors import NotFound
from storage.model import FIELDS, TUPLES, Memory, point_id, prefixes

LIVE: Final = "memories"
BIN: Final = "bin"
INDEXES: Final = ("scopes", "tags", "sensitivity")


class Vectors(NamedTuple):
    """What recall finds a memory by: its unit row and its terms."""

    dense: Vector
    text: Sparse


def to_payload(memory: Memory) -> Payload:
    """A memory as it is stored; fields that are None are left out, `scopes` lists every scope that sees it."""
    payload: Payload = {"scopes": list(prefixes(memory.scope))}
    for name in FIELDS:
        value = getattr(memory, name)
        if value is not None:
            payload[name] = list(value) if name in TUPLES else value
    return payload


def from_payload(payload: Mapping[str, Any]) -> Memory:
    """The memory in a payload; keys of a later version are passed over (and stay in the store)."""
    known: dict[str, Any] = {name: payload[name] for name in FIELDS if name in payload}
    known |= {name: tuple(known[name]) for name in TUPLES & known.keys()}
    return Memory(**known)


class Memories:
    """Reading and writing whole memories, by id."""

    def __init__(self, engine: Engine, catalogue: Catalogue) -> None:
        self._engine = engine
        self._catalogue = catalogue

    def load(self, *, mend: bool = True) -> None:
        """Fill the catalogue from the store; a memory found in both collections lives where its `seq` is higher.

        The other copy is what a crash in the middle of a move left behind; `mend` removes it.
        """
        rows: dict[str, Memory] = {}
        home: dict[str, str] = {}
        stale: dict[str, list[str]] = {LIVE: [], BIN: []}
        for collection in (LIVE, BIN):
            for batch in self._engine.scroll(collection):
                for record in batch:
                    memory = replace(from_payload(record.payload), content="", context="")
                    former = rows.get(memory.id)
                    if former is not None and former.seq >= memory.seq:
                        stale[collection].append(record.id)
                        continue
                    if former is not None:
                        stale[home[memory.id]].append(record.id)
                    rows[memory.id], home[memory.id] = memory, collection
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
        """Add live memories; they are acknowledged when this returns."""
        self._engine.upsert(
            LIVE, [Point(point_id(memory.id), to_payload(memory), *vectors) for memory, vectors in memories]
        )
        for memory, _ in memories:
            self._catalogue.put(memory)

    def rewrite(self, memory: Memory, vectors: Vectors) -> Memory:
        """Write an edited live memory whole, with new vectors; its `seq` rises."""
        memory = replace(memory, seq=memory.seq + 1)
        self._engine.upsert(LIVE, [Point(point_id(memory.id), to_payload(memory), *vectors)])
        self._catalogue.put(memory)
        return memory

    def patch(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Set fields of live or binned memories that do not touch their vectors; `seq` rises by one each."""
        patches: dict[str, dict[str, Payload]] = {LIVE: {}, BIN: {}}
        rows: list[Memory] = []
        for memory, fields in changes.items():
            row = self.row(memory)
            row = replace(row, **fields, seq=row.seq + 1)
            payload = {name: list(value) if name in TUPLES else value for name, value in fields.items()}
            patches[_home(row)][point_id(memory)] = payload | {"seq": row.seq}
            rows.append(row)
        for collection, patch in patches.items():
            if patch:
                self._engine.set_payload(collection, patch)
        for row in rows:
            self._catalogue.put(row)

    def move(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Set fields that change the state, and carry each memory to the collection where that state lives.

        The target is written and flushed before the source is deleted; a crash between leaves the memory in both, and
        the next start keeps the higher `seq`.
        """
        homes = {memory: _home(self.row(memory)) for memory in changes}
        for source, target in ((LIVE, BIN), (BIN, LIVE)):
            ids = {point_id(memory): memory for memory, home in homes.items() if home == source}
            records = self._engine.retrieve(source, list(ids), vectors=True)
            moved = [self._changed(record, changes[ids[record.id]]) for record in records.values()]
            if not moved:
                continue
            self._engine.upsert(target, [point for _, point in moved])
            self._engine.flush(target)
            self._engine.delete(source, [point.id for _, point in moved])
            for memory, _ in moved:
                self._catalogue.put(memory)

    def erase(self, ids: Sequence[str]) -> None:
        """Remove memories for good, wherever they are."""
        for collection in (LIVE, BIN):
            here = [memory for memory in ids if (row := self._catalogue.get(memory)) and _home(row) == collection]
            self._engine.delete(collection, [point_id(memory) for memory in here])
            for memory in here:
                self._catalogue.drop(memory)

    @staticmethod
    def _changed(record: Record, fields: Mapping[str, Any]) -> tuple[Memory, Point]:
        memory = from_payload(record.payload)
        memory = replace(memory, **fields, seq=memory.seq + 1)
        kept = {key: value for key, value in record.payload.items() if key not in FIELDS}
        return memory, Point(record.id, kept | to_payload(memory), record.dense, record.text)


def missing(memory: str) -> NotFound:
    """The one answer for a memory that does not exist or lies above the caller's clearance."""
    return NotFound(f"There is no memory {memory!r}.", hint="dreamctl list")


def _home(row: Memory) -> str:
    return LIVE if row.state == "live" else BIN


def _memory(record: Record) -> Memory:
    return from_payload(record.payload)
