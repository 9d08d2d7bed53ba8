"""Methods that show memories as they are kept. They neither write nor count as access."""

from __future__ import annotations

import base64
import heapq
import json
import math
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from daemon import shapes
from daemon.methods.filters import Filters
from daemon.parts import Parts
from daemon.shapes import MemoryShape, VersionShape
from daemon.wire import Cleared, Id, Method
from storage.errors import Conflict, Invalid, command
from storage.instants import EARLIEST, LATEST
from storage.memories import missing
from storage.model import SENSITIVITIES, Memory, cleared
from storage.where import visible

PREFIX_CHARS: Final = 8  # an id may be shortened to so many
MAX_CURSOR_CHARS: Final = 1024

Sort: TypeAlias = Literal["created", "updated", "accessed", "emotion", "importance", "retention"]


class GetParams(Cleared):
    """One memory by its id."""

    id: Id = Field(description="A memory's id, or a unique prefix of at least 8 characters.")


class HistoryParams(GetParams):
    """The former texts of a memory."""

    limit: int = Field(default=10, ge=1, le=1000, description="How many, newest first.")


class ListParams(Filters):
    """A page of memories."""

    state: Literal["live", "superseded", "forgotten"] = Field(default="live", description="Live, or in the bin.")
    sort: Sort = Field(
        default="created", description="Highest or newest first; `retention` lowest first: what fades next."
    )
    limit: int = Field(default=50, ge=1, le=500, description="Memories a page.")
    cursor: str | None = Field(default=None, max_length=MAX_CURSOR_CHARS, description="Where the page before ended.")


class Listed(TypedDict):
    """A page; `cursor` is null on the last."""

    memories: list[MemoryShape]
    cursor: str | None


class History(TypedDict):
    """Former texts, newest first."""

    versions: list[VersionShape]


class Cursor(NamedTuple):
    """Where a page ended: at this value of the sort and this id. `as_of` is when the first page was asked for."""

    sort: str
    as_of: float
    value: float
    id: str


async def get(parts: Parts, params: GetParams) -> MemoryShape:
    """One memory with its context and its retention."""
    return await parts.lane.run(_get, parts, params)


def _get(parts: Parts, params: GetParams) -> MemoryShape:
    now = parts.clock.now()
    memory = parts.stores.memories.read_one(resolve(parts, params.id, params.clearance, now))
    return shapes.memory(
        memory, context=True, retention=retention(parts, memory, now),
        successor=_successor(parts, memory, params.clearance, now),
    )  # fmt: skip


async def history(parts: Parts, params: HistoryParams) -> History:
    """The former texts of a memory, newest first."""
    return await parts.lane.run(_history, parts, params)


def _history(parts: Parts, params: HistoryParams) -> History:
    versions = parts.stores.records.versions(resolve(parts, params.id, params.clearance, parts.clock.now()))
    shown = [shapes.version(one) for one in versions if cleared(one.sensitivity, params.clearance)]
    return {"versions": shown[: params.limit]}


def resolve(parts: Parts, wanted: str, clearance: str, now: float) -> str:
    """The id that is meant: exactly this one, else the only one that begins so; what the caller may not see is not there."""
    catalogue = parts.stores.catalogue
    row = catalogue.get(wanted)
    if row is not None and visible(row, clearance, now):
        return wanted
    if len(wanted) < PREFIX_CHARS:
        raise missing(wanted, row, clearance)
    rows = [row for row in catalogue.every() if row.id.startswith(wanted)]
    ids = [row.id for row in rows if visible(row, clearance, now)]
    if not ids:
        raise missing(wanted, max(rows, key=lambda row: SENSITIVITIES.index(row.sensitivity), default=None), clearance)
    if len(ids) > 1:
        first = heapq.nsmallest(10, ids)
        raise Conflict(f"{len(ids)} memories begin with {wanted!r}.", hint=command("get", first[0]), ids=first)
    return ids[0]


def _successor(parts: Parts, memory: Memory, clearance: str, now: float) -> str | None:
    """What took the place of a memory, where the caller may know of it and it is still there."""
    row = None if memory.superseded_by is None else parts.stores.catalogue.get(memory.superseded_by)
    return row.id if row is not None and visible(row, clearance, now) else None


async def list_(parts: Parts, params: ListParams) -> Listed:
    """A page of memories that meet the filters, stable under writes."""
    return await parts.lane.run(_list, parts, params)


def _list(parts: Parts, params: ListParams) -> Listed:
    now, catalogue = parts.clock.now(), parts.stores.catalogue
    where = params.to_where(now, state=params.state)
    after = None if params.cursor is None else _decoded(params.cursor, params.sort)
    as_of = now if after is None else after.as_of
    every = catalogue.rows(where.scope) if params.state == "live" else catalogue.gone(where.scope)
    rows = [row for row in every if where.admits(row)]
    keys = zip(_values(parts, params.sort, as_of, rows), (row.id for row in rows), strict=True)
    page = heapq.nsmallest(params.limit + 1, (key for key in keys if after is None or key > after[2:]))
    more = len(page) > params.limit
    page = page[: params.limit]
    texts = parts.stores.memories.read([memory for _, memory in page])
    shown = [texts[memory] for _, memory in page]
    memories = [shapes.memory(one, successor=_successor(parts, one, params.clearance, now)) for one in shown]
    return {"memories": memories, "cursor": _encoded(Cursor(params.sort, as_of, *page[-1])) if more else None}


def _values(parts: Parts, sort: Sort, as_of: float, rows: Sequence[Memory]) -> list[float]:
    """What the rows are sorted by, lowest first; retention as it was for the first page, for between two pages all fades."""
    if sort == "retention":
        # Rounded, for the last bit may differ with the row's place in the array.
        strengths: list[float] = np.round(parts.retention.of_rows(rows, as_of, parts.stores.awake), 9).tolist()
        return strengths
    name = {"created": "created_at", "updated": "updated_at", "accessed": "accessed_at"}.get(sort, sort)
    return [-(getattr(row, name) or 0.0) for row in rows]


def retention(parts: Parts, row: Memory, now: float) -> float:
    """How well a memory is retained; core and long are outside the curve only for `decay`."""
    return parts.retention.of(row.used_at, row.access_count, row.importance, row.emotion, now, parts.stores.awake)


def _encoded(cursor: Cursor) -> str:
    return base64.urlsafe_b64encode(json.dumps(cursor, ensure_ascii=False).encode()).decode()


def _decoded(cursor: str, sort: str) -> Cursor:
    hint = "Leave `cursor` out to begin anew."
    try:
        decoded = _checked(*json.loads(base64.urlsafe_b64decode(cursor)))
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Invalid("The cursor is not one of ours.", hint=hint, field="cursor") from None
    if decoded.sort != sort:
        raise Invalid(f"The cursor belongs to another sort than {sort}.", hint=hint, field="cursor")
    return decoded


def _checked(sort: Any, as_of: Any, value: Any, memory: Any) -> Cursor:
    """The members of a cursor, if they are what we write. Raises TypeError, ValueError, OverflowError."""
    if not (isinstance(sort, str) and isinstance(memory, str) and {type(as_of), type(value)} <= {int, float}):
        raise TypeError(sort)
    cursor = Cursor(sort, float(as_of), float(value), memory)
    if not (EARLIEST <= cursor.as_of <= LATEST and math.isfinite(cursor.value)):
        raise ValueError(as_of)
    return cursor


METHODS: Final = (
    Method("get", "read", GetParams, MemoryShape, get, False, "Show one memory in full.", ("id",)),
    Method("list", "read", ListParams, Listed, list_, False, "List memories, filtered and sorted."),
    Method("history", "read", HistoryParams, History, history, False, "Show the former texts of a memory.", ("id",)),
)
