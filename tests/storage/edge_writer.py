"""A process that writes to the embedded engine until it is killed, and the model that says what must be there after.

Run as `python -m tests.storage.edge_writer FOLDER SEED`: it prints a line after each acknowledged write.
"""

from __future__ import annotations

import random
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from storage import edge_files
from storage.edge import EdgeEngine
from storage.engine import Collection, Point, Sparse

MEMORIES = Collection("memories", 8, ("scopes", "tags", "sensitivity"))
EDGES = Collection("synapses")
COLLECTIONS = (MEMORIES, EDGES)
PLENTY = 1 << 40


class Write(NamedTuple):
    verb: str  # upsert, patch, delete, flush or vacuum
    payloads: dict[str, dict[str, Any]] = {}  # noqa: RUF012


def identity(*parts: Any) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, repr(parts)))


def point(point_id: str, payload: dict[str, Any] | None = None, *, seed: int = 1, terms: Sequence[int] = (7,)) -> Point:
    """A point for `MEMORIES`; its direction comes from `seed`."""
    vector = np.random.default_rng(seed).normal(size=MEMORIES.dimension).astype(np.float32)
    return Point(point_id, payload or {}, vector / np.linalg.norm(vector), Sparse(tuple(terms), (1.0,) * len(terms)))


def noise(seed: object, length: int) -> str:
    """Text that does not compress; what does takes hardly any room in a segment."""
    return random.Random(repr(seed)).randbytes(length // 2).hex()


def open_engine(folder: Path, collections: Sequence[Collection] = COLLECTIONS) -> EdgeEngine:
    """Open without regard to the disk's room, so that tests do not depend on the machine's."""
    return EdgeEngine.open(folder, collections, reserve_mb=1, free_bytes=lambda _: PLENTY)


def segment(store: Path, collection: str = MEMORIES.name) -> Path:
    """The folder of the collection's only segment."""
    (only,) = edge_files.segments(store / collection).values()
    return only


def contents(engine: EdgeEngine, collection: str = MEMORIES.name) -> dict[str, dict[str, Any]]:
    return {record.id: record.payload for batch in engine.scroll(collection, batch=100) for record in batch}


def writes(seed: int) -> Iterator[Write]:
    """An endless mix of writes, the same for the same seed."""
    dice = random.Random(seed)
    ids: list[str] = []
    for turn in range(sys.maxsize):
        verb = dice.choices(["upsert", "patch", "delete", "flush", "vacuum"], [10, 6, 4, 2, 1])[0]
        if verb == "upsert":
            fresh = [identity(seed, turn, n) for n in range(dice.randint(1, 20))]
            again = dice.sample(ids, min(len(ids), dice.randint(0, 5)))
            ids += fresh
            yield Write(verb, {point_id: {"turn": turn, "tags": [f"t{turn % 3}"]} for point_id in fresh + again})
        elif verb in ("patch", "delete"):
            chosen = [*dice.sample(ids, min(len(ids), 10)), identity("nobody", turn)]
            yield Write(verb, {point_id: {"patched": dice.randint(0, 3)} for point_id in chosen})
        else:
            yield Write(verb)


def expect(state: dict[str, dict[str, Any]], write: Write) -> dict[str, dict[str, Any]]:
    """What the collection holds after `write`, given what it held before."""
    match write.verb:
        case "upsert":
            return state | write.payloads
        case "patch":
            return {point_id: payload | write.payloads.get(point_id, {}) for point_id, payload in state.items()}
        case "delete":
            return {point_id: payload for point_id, payload in state.items() if point_id not in write.payloads}
    return state


def perform(engine: EdgeEngine, write: Write) -> None:
    match write.verb:
        case "upsert":
            engine.upsert(MEMORIES.name, [point(point_id, payload) for point_id, payload in write.payloads.items()])
        case "patch":
            engine.set_payload(MEMORIES.name, write.payloads)
        case "delete":
            engine.delete(MEMORIES.name, list(write.payloads))
        case "flush":
            engine.flush()
        case "vacuum":
            engine.vacuum(MEMORIES.name)


if __name__ == "__main__":
    engine = open_engine(Path(sys.argv[1]))
    for write in writes(int(sys.argv[2])):
        perform(engine, write)
        print("acknowledged", flush=True)
