"""A folder of anchor-memory: `memories.db` with memories, edges, comments and annotations, and `chroma/` beside it.

What a memory is about and where it came from (`entity`, `source`) is kept in Chroma alone. A vector in Chroma without a row
in `memories.db` is a memory that was deleted, and stays so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from storage.errors import Invalid
from storage.exchange.chroma import metadata_of
from storage.exchange.items import Fault, Item
from storage.exchange.mapping import beside, identity, stable_id
from storage.exchange.record import Record, attempt, memory
from storage.exchange.sqlite_files import Connection, Row, columns, is_sqlite, opened, read_through, rows
from storage.model import MAX_EDGE_WEIGHT, TIERS

SYSTEM: Final = "anchor-memory"
TABLES: Final = ("memories", "edges", "comments", "annotations")
#: From here on anchor-memory takes an edge for one made by hand.
MANUAL_FROM: Final = 1.5

#: What Chroma says once more of what `memories.db` holds.
_TWICE: Final = frozenset({"memory_id", "timestamp", "tag"})
_PAIR: Final = "min(source_id, target_id), max(source_id, target_id)"


class _Known(NamedTuple):
    """Our ids of what was found: what refers to another is a fault."""

    memories: set[str]
    comments: set[str]


def matches(path: Path) -> bool:
    """Whether it is such a folder, or its `memories.db`. Raises Invalid where that is locked or damaged."""
    database = _database(path)
    if not is_sqlite(database):
        return False
    with opened(database) as connection:
        return _is_ours(connection)


def read(path: Path) -> Iterator[Item | Fault]:
    """Its memories, edges, comments and annotations. Raises Invalid where a file of it is locked or damaged."""
    database = _database(path)
    extra = metadata_of(database.parent / "chroma" / "chroma.sqlite3", "memories")
    known = _Known(set(), set())
    with opened(database) as connection:
        if not _is_ours(connection):
            raise Invalid(
                f"{path} is no folder of anchor-memory.", hint="name the folder that holds memories.db", field="path"
            )
        read_through(connection, TABLES)
        yield from _memories(connection, extra, known)
        yield from _edges(connection, known)
        yield from _comments(connection, known)
        yield from _annotations(connection, known)


def _database(path: Path) -> Path:
    return path / "memories.db" if path.is_dir() else path


def _is_ours(connection: Connection) -> bool:
    return {"memory_id", "text"}.issubset(columns(connection, "memories")) and {"source_id", "target_id"}.issubset(
        columns(connection, "edges")
    )


# -- memories


def _memories(connection: Connection, extra: Mapping[Any, Mapping[str, Any]], known: _Known) -> Iterator[Item | Fault]:
    for place, row in rows(connection, "memories"):
        own = {key: value for key, value in extra.get(row.get("memory_id"), {}).items() if key not in _TWICE}
        entry = attempt(place, _memory, beside(row, own))
        if isinstance(entry, Item) and "id" in entry.fields:
            known.memories.add(entry.fields["id"])
        yield entry


def _memory(row: Row) -> Item:
    record = Record(row)
    fields = {
        "id": record.id("memory_id", SYSTEM),
        "content": record.content("text"),
        "context": record.text("context"),
        "tags": record.tags("tag"),
        "entities": _entities(row.get("entity")),
        "tier": record.one_of("tier", TIERS),
        "pinned": bool(record.count("pinned")),
        "emotion": record.share("emotion_score"),
        "created_at": record.instant("timestamp"),
        "accessed_at": record.instant("last_used"),
        "access_count": record.count("usage_count"),
    }
    return memory(**fields, metadata=record.metadata())


def _entities(entity: Any) -> list[str]:
    """The entity where it is one plain name; one of several marks, such as `pair:27|ai_name:Cheng`, is metadata alone."""
    return [entity] if isinstance(entity, str) and not set("|:") & set(entity) else []


# -- what else hangs on them


def _edges(connection: Connection, known: _Known) -> Iterator[Item | Fault]:
    """One edge for the two rows of a pair, which say the same."""
    for _, placed in groupby(rows(connection, "edges", _PAIR), lambda placed: _ends(placed[1])):
        (place, first), *others = placed
        yield attempt(place, partial(_edge, known=known), [first, *(row for _, row in others)])


def _edge(pair: list[Row], *, known: _Known) -> Item:
    """An edge as heavy as it is: no `as_of`, since the weight already faded there and counts from the import on."""
    a, b = _ends(pair[0])
    if a == b:
        raise ValueError("the edge joins a memory to itself")
    if not {a, b} <= known.memories:
        raise ValueError("the edge leads to a memory that is not there, or could not be read")
    weight = min(max(map(_weight, pair)), MAX_EDGE_WEIGHT)
    created = [at for at in (Record(row).instant("created") for row in pair) if at is not None]
    kind = "manual" if weight >= MANUAL_FROM else "hebbian"
    fields = {"a": a, "b": b, "kind": kind, "weight": weight, "label": ""}
    return Item("edge", "", fields | ({"created_at": min(created)} if created else {}))


def _weight(row: Row) -> float:
    weight = row.get("weight")
    if not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise ValueError("weight is no number above 0")
    return float(weight)


def _ends(row: Row) -> tuple[str, str]:
    low, high = sorted(_ours(row.get(name)) for name in ("source_id", "target_id"))
    return low, high


def _comments(connection: Connection, known: _Known) -> Iterator[Item | Fault]:
    """In the order in which they were written: what a reply answers comes before it."""
    for place, row in rows(connection, "comments"):
        entry = attempt(place, partial(_comment, known=known), row)
        if isinstance(entry, Item):
            known.comments.add(entry.fields["id"])
        yield entry


def _comment(row: Row, *, known: _Known) -> Item:
    record = Record(row)
    reply_to = _ours(row.get("reply_to"))
    return _remark(
        record,
        known,
        id=_ours(row.get("comment_id")),
        content=record.content("content"),
        author=record.word("author") or "ai",
        reply_to=reply_to if reply_to in known.comments else None,  # what it answers may have been deleted
        read=bool(record.count("read_by_ai")),
    )


def _annotations(connection: Connection, known: _Known) -> Iterator[Item | Fault]:
    """Notes on a memory: comments that nobody has still to read."""
    for place, row in rows(connection, "annotations"):
        yield attempt(place, partial(_annotation, known=known), row)


def _annotation(row: Row, *, known: _Known) -> Item:
    record = Record(row)
    return _remark(
        record,
        known,
        id=stable_id(
            "annotation", str(row.get("memory_id")), str(row.get("annotation_id"))
        ),  # its own is a mere number
        content=record.content("text"),
        author="ai",
        reply_to=None,
        read=True,
    )


def _remark(record: Record, known: _Known, **fields: Any) -> Item:
    owner = _ours(record.value("memory_id"))
    if owner not in known.memories:
        raise ValueError("it belongs to a memory that is not there, or could not be read")
    created = record.instant("created_at")
    return Item("comment", "", {"memory": owner, **fields} | ({} if created is None else {"created_at": created}))


def _ours(own: Any) -> str:
    """Our id for one of theirs; empty where there is none."""
    return identity(str(own), SYSTEM) if own is not None else ""
