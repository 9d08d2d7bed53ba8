"""What mem0's `get_all` gives, as one JSON document or an object a line: its memories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from storage.exchange.items import Fault, Item
from storage.exchange.json_files import first_record, records
from storage.exchange.record import Record, attempt, memory
from storage.model import DAY, TYPES

SYSTEM: Final = "mem0"
LISTS: Final = ("results", "memories")
#: Beside `memory`, one of these is in every record.
MARKS: Final = frozenset({"hash", "user_id", "agent_id", "run_id", "created_at", "updated_at"})


def matches(path: Path) -> bool:
    """Whether the file begins with a record of mem0."""
    record = first_record(path, LISTS)
    return isinstance(record, dict) and "memory" in record and "kind" not in record and not MARKS.isdisjoint(record)


def read(path: Path) -> Iterator[Item | Fault]:
    """Its memories. Raises Invalid where the file is cut or no JSON."""
    for entry in records(path, LISTS):
        yield entry if isinstance(entry, Fault) else attempt(entry[0], _memory, entry[1])


def _memory(value: Any) -> Item:
    """One memory. mem0 keeps a memory until somebody deletes it, so it is a `long` one."""
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - whatever a record is refused for is a ValueError
    record = Record(value)
    own = record.value("metadata")
    fields = {
        "id": record.id("id", SYSTEM),
        "content": record.content("memory"),
        "author": record.word("actor_id") or record.word("role"),
        "session": record.word("run_id"),
        "scope": record.scope(user="user_id", agent="agent_id", session="run_id", app="app_id"),
        "type": _type(own),
        "tags": record.tags("categories"),
        "tier": "long",
        "created_at": record.instant("created_at"),
        "updated_at": record.instant("updated_at"),
        "expires_at": _expiry(record),
    }
    return memory(**fields, metadata=record.metadata(own))


def _type(metadata: Any) -> str | None:
    """The type where mem0 says `procedural_memory` or the like in the metadata, where it stays."""
    named = metadata.get("memory_type") if isinstance(metadata, dict) else None
    kind = named.removesuffix("_memory") if isinstance(named, str) else None
    return kind if kind in TYPES else None


def _expiry(record: Record) -> float | None:
    """A memory of mem0 is shown until the end of its last day, in UTC."""
    last_day = record.instant("expiration_date")
    return None if last_day is None else last_day + DAY if last_day % DAY == 0 else last_day
