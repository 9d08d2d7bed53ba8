"""An SQLite file of agentmaker: the memories of its `MemoryStore`, the facts of its `KVStore`, or both."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from storage.errors import Invalid
from storage.exchange.items import Fault, Item
from storage.exchange.mapping import stable_id
from storage.exchange.record import Record, attempt, memory
from storage.exchange.sqlite_files import Connection, Row, columns, is_sqlite, opened, read_through, rows

SYSTEM: Final = "agentmaker"
TABLES: Final = ("memories", "kv")
#: What its subsystems call themselves; another base is the caller's own, and a level of the scope.
BASES: Final = ("memory", "kv")

_OWNER: Final = {"base", "sc_user"}


def matches(path: Path) -> bool:
    """Whether it is such a file. Raises Invalid where it is locked or damaged."""
    if not is_sqlite(path):
        return False
    with opened(path) as connection:
        return _is_ours(connection)


def read(path: Path) -> Iterator[Item | Fault]:
    """Its memories, those that were superseded too, and its facts. Raises Invalid where the file is locked or damaged."""
    with opened(path) as connection:
        if not _is_ours(connection):
            raise Invalid(
                f"{path} is no database of agentmaker.",
                hint="name the file that its MemoryStore or KVStore opens",
                field="path",
            )
        read_through(connection, TABLES)
        if _has(connection, "memories"):
            shared = _shared(connection)
            for place, row in rows(connection, "memories"):
                yield attempt(place, partial(_memory, shared=shared), row)
        if _has(connection, "kv"):
            for place, row in rows(connection, "kv"):
                yield attempt(place, _fact, row)


def _is_ours(connection: Connection) -> bool:
    return any(_has(connection, table) for table in TABLES)


def _has(connection: Connection, table: str) -> bool:
    needed = {"id", "content"} if table == "memories" else {"key", "value"}
    return (needed | _OWNER).issubset(columns(connection, table))


def _shared(connection: Connection) -> set[Any]:
    """The ids that several owners have: there they are told apart by the owner, here an id is one memory's."""
    return {own for (own,) in connection.execute("SELECT id FROM memories GROUP BY id HAVING count(*) > 1")}


def _memory(row: Row, *, shared: Collection[Any]) -> Item:
    """One memory. agentmaker keeps a memory until it is told to forget it, so it is a `long` one."""
    record = Record(row)
    scope = _scope(record)
    kind, subtype = record.kind("type")
    fields = {
        "id": _id(record, "id", scope, shared),
        "content": record.content("content"),
        "scope": scope,
        "type": kind,
        "subtype": subtype,
        "tier": "long",
        "importance": record.share("importance"),
        "created_at": record.instant("created_at"),
        "updated_at": record.instant("updated_at"),
        "accessed_at": record.instant("last_accessed_at"),
        "invalid_at": record.instant("invalid_at"),
        "superseded_by": _id(record, "superseded_by", scope, shared),
    }
    return memory(**fields, metadata=record.metadata(_value(record.value("metadata"))))


def _fact(row: Row) -> Item:
    record = Record(row)
    key = record.text("key")
    if not key:
        raise ValueError("key is missing or no text")
    return Item("fact", "", {"scope": _scope(record), "key": key, "value": _value(record.value("value"))})


def _scope(record: Record) -> str:
    part = "" if record.value("base") in BASES else "base"
    return record.scope(user="sc_user", agent="sc_agent", session="sc_session", app="sc_app", part=part)


def _id(record: Record, name: str, scope: str, shared: Collection[Any]) -> str | None:
    """Our id; of one that several owners have, each gets one of its own."""
    kept = "original_id" if name == "id" else name
    own = record.text(name)
    if own in shared:
        record.keep(kept, own)
        return stable_id(SYSTEM, own, scope)
    return record.id(name, SYSTEM, kept=kept)


def _value(text: Any) -> Any:
    """What a JSON text says; another text as it is."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return text
