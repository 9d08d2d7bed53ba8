"""What makes a memory of a file one that is here: it is new, or takes the place of what an undo took back."""

from __future__ import annotations

from typing import Any, Final

from storage.changes import Change, Erase, Insert, Move, Patch, same
from storage.exchange.census import was_undone
from storage.forget import NOWHERE
from storage.memories import ROW, Vectors
from storage.model import Memory, cleared
from storage.store import Stores

_OWN: Final = frozenset({"id", "seq"})  # of what is here, and no file's to say


def steps(stores: Stores, memory: Memory, vectors: Vectors, clearance: str) -> list[Change]:
    """The changes, to be made one after the other; the last one says whether it is there. Called in the lane.

    What was undone goes on as what the file says, field by field, so that another undo brings it back as it was; where
    its text is another, and so are its vectors, it makes room.
    """
    row = stores.catalogue.get(memory.id)
    if row is None or not was_undone(row) or not cleared(row.sensitivity, clearance):
        return [Insert(memory, vectors)]
    if not _says_the_same(stores, row, memory):
        return [Erase(row.id, row.seq), Insert(memory, vectors)]
    fields = _fields(row, memory)
    if memory.state != "live":
        return [Patch(row.id, row.seq, fields)]
    rest = {name: value for name, value in fields.items() if name not in NOWHERE}
    first: list[Change] = [Patch(row.id, row.seq, rest)] if rest else []
    return [*first, Move(row.id, row.seq + len(first), NOWHERE, "restore")]


def _says_the_same(stores: Stores, row: Memory, memory: Memory) -> bool:
    """Whether one has the text of the other, and lies where it lies."""
    if (row.scope, row.content_hash) != (memory.scope, memory.content_hash):
        return False
    stored = stores.memories.read([row.id]).get(row.id)
    return stored is not None and (stored.content, stored.context) == (memory.content, memory.context)


def _fields(row: Memory, memory: Memory) -> dict[str, Any]:
    """What is to be set so that a row is as the memory is."""
    told = {name: getattr(memory, name) for name in ROW if name not in _OWN}
    return {name: value for name, value in told.items() if not same(value, getattr(row, name))}
