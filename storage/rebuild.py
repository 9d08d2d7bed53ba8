"""The store with other vectors, made in `store.next` while the present one serves: what is there already is not made again.

The memories and the bin are written anew, a few at a time. Edges and records have no vectors: their shards are copied at
the end. A file `REINDEX` says which embedder the vectors come from, and what had been erased when this began; it goes once
all is there. All calls are made in the lane, except `sync`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from storage import durable, swap
from storage.edge import EdgeEngine
from storage.edge_files import empty
from storage.embed import Fingerprint
from storage.engine import Payload, Point
from storage.errors import Corrupt, Invalid
from storage.memories import BIN, LIVE, Vectors
from storage.model import Memory, scored_text
from storage.records import RECORDS, Records
from storage.snapshots import Coming
from storage.store import Stores, collections
from storage.swap import NEXT, PROGRESS
from storage.synapses import SYNAPSES


class Copied(NamedTuple):
    """Which state of a memory a copy is of."""

    collection: str
    seq: int
    created_at: float

    @classmethod
    def of(cls, row: Memory) -> Copied:
        """What a copy of a memory as it is now would be."""
        return cls(LIVE if row.state == "live" else BIN, row.seq, row.created_at)


class Source(NamedTuple):
    """A memory as it is stored, which state of it that is, and the text that its vectors are made from."""

    point: str
    state: Copied
    payload: Payload
    text: str


class Rebuild:
    """`store.next` under way; make one with `begin`."""

    def __init__(self, stores: Stores, embedder: Fingerprint, erasures: int, reserve_mb: int) -> None:
        self._stores = stores
        self._embedder = embedder
        self._erasures = erasures  # noted when it was begun
        self._reserve_mb = reserve_mb
        self._folder = stores.folder / NEXT
        vectored = [one for one in collections(embedder.dimension) if one.dimension]
        self._engine = EdgeEngine.open(self._folder, vectored, reserve_mb=reserve_mb)
        self.copied = self._found()  # by point

    @classmethod
    def begin(cls, stores: Stores, embedder: Fingerprint, reserve_mb: int) -> Rebuild:
        """Go on with what was made for this embedder, if it can be read; else begin anew."""
        progress = _progress(stores.folder / NEXT)
        if progress.get("embedder") == embedder.to_dict():
            with suppress(Corrupt, Invalid):
                return cls(stores, embedder, progress.get("erasures", 0), reserve_mb)
        erasures = stores.ledger.last_erasure()
        begun = json.dumps({"embedder": embedder.to_dict(), "erasures": erasures})
        durable.write(swap.cleared(stores.folder) / PROGRESS, begun)
        return cls(stores, embedder, erasures, reserve_mb)

    def present(self) -> dict[str, Copied]:
        """What a copy of each memory would be that was made now, by point."""
        catalogue = self._stores.catalogue
        return {catalogue.point(row.id): Copied.of(row) for row in catalogue.every()}

    def sources(self, points: Sequence[str]) -> list[Source]:
        """What is to be copied of these memories, as they are now; those that are gone are left out.

        Raises Corrupt where one that is known is not in the store.
        """
        rows = [row for row in map(self._stores.catalogue.at_point, points) if row is not None]
        states = {self._stores.catalogue.point(row.id): Copied.of(row) for row in rows}
        found: list[Source] = []
        for collection in (LIVE, BIN):
            here = [point for point, state in states.items() if state.collection == collection]
            for record in self._stores.engine.retrieve(collection, here).values():
                text = scored_text(record.payload.get("author", ""), record.payload.get("content", ""))
                found.append(Source(record.id, states[record.id], record.payload, text))
        if len(found) < len(states):
            lost = len(states) - len(found)
            raise Corrupt(
                f"{lost} memories that are known are not in the store.", hint="restart dreamd, then dreamctl doctor"
            )
        return found

    def put(self, sources: Sequence[Source], vectors: Sequence[Vectors]) -> None:
        """Write copies with their new vectors, in the place of what was copied of them before."""
        self.drop([one.point for one in sources if self._home(one.point) not in (None, one.state.collection)])
        for collection in (LIVE, BIN):
            points = [
                Point(one.point, one.payload, new.dense, new.text)
                for one, new in zip(sources, vectors, strict=True)
                if one.state.collection == collection
            ]
            self._engine.upsert(collection, points)
        for one in sources:
            self.copied[one.point] = one.state

    def drop(self, points: Sequence[str]) -> None:
        """Remove copies of what is no more, or lies elsewhere now."""
        for collection in (LIVE, BIN):
            self._engine.delete(collection, [point for point in points if self._home(point) == collection])
        for point in points:
            del self.copied[point]

    def sync(self) -> None:
        """Bring what was made so far to the disk, so that little is left to do in the lane."""
        durable.sync_tree(self._folder)

    def complete(self) -> Coming:
        """Add edges and records, check that all is there, and close it. Raises Corrupt where something is missing."""
        self.close()
        for name in (SYNAPSES, RECORDS):
            if (self._folder / name).exists():  # of a completion that was cut short
                empty(self._folder / name)
                (self._folder / name).rmdir()
        self._stores.engine.copy_to(self._folder, SYNAPSES, RECORDS)
        dimension = self._embedder.dimension
        engine = EdgeEngine.open(self._folder, collections(dimension), reserve_mb=self._reserve_mb)
        try:
            self._check(engine.counts())
            Records(engine).set_fingerprint(self._embedder)
            engine.flush()
            marks = engine.marks()
        finally:
            engine.close()
        durable.remove(self._folder / PROGRESS)
        durable.sync_tree(self._folder)
        return Coming(dimension, self._embedder, marks, scrub=self._stores.ledger.last_erasure() > self._erasures)

    def close(self) -> None:
        """Let go of the files; a second call does nothing."""
        self._engine.close()

    def _home(self, point: str) -> str | None:
        copied = self.copied.get(point)
        return None if copied is None else copied.collection

    def _check(self, held: Mapping[str, int]) -> None:
        catalogue, engine = self._stores.catalogue, self._stores.engine
        due = {LIVE: len(catalogue), BIN: catalogue.gone_count}
        due |= {name: engine.count(name) for name in (SYNAPSES, RECORDS)}
        for name, count in due.items():
            if held[name] != count:
                raise Corrupt(f"The new {name} holds {held[name]} of {count} points.", hint="dreamctl reindex")

    def _found(self) -> dict[str, Copied]:
        """What was copied before; what a kill left in both collections is not counted, and made anew."""
        found: dict[str, Copied] = {}
        twice: list[str] = []
        for collection in (LIVE, BIN):
            for batch in self._engine.scroll(collection, fields=("seq", "created_at")):
                for record in batch:
                    if record.id in found:
                        twice.append(record.id)
                    payload = record.payload
                    found[record.id] = Copied(collection, payload.get("seq", 0), payload.get("created_at", 0.0))
        for point in twice:
            del found[point]
        for collection in (LIVE, BIN):
            self._engine.delete(collection, twice)
        return found


def _progress(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / PROGRESS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}
