"""Methods that show memories as they are kept. They neither write nor count as access."""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field
from typing_extensions import TypedDict

from daemon import shapes
from daemon.methods.filters import Filters
from daemon.parts import Parts
from daemon.shapes import MemoryShape, VersionShape
from daemon.wire import Cleared, Method
from storage.errors import Conflict, Invalid
from storage.memories import missing
from storage.model import MAX_ID_CHARS, Memory, cleared
from storage.store import Stores

PREFIX_CHARS: Final = 8  # an id may be shortened to so many
MAX_CURSOR_CHARS: Final = 1024

Sort: TypeAlias = Literal["created", "updated", "accessed", "emotion", "importance", "retention"]


class GetParams(Cleared):
    """One memory by its id."""

    id: str = Field(
        min_length=1, max_length=MAX_ID_CHARS, description="A memory's id, or a unique prefix of at least 8 characters."
    )


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
    memory = parts.stores.memories.read_one(resolve(parts.stores, params.id, params.clearance))
    return shapes.memory(memory, context=True, retention=retention(parts, memory, parts.clock.now()))


async def history(parts: Parts, params: HistoryParams) -> History:
    """The former texts of a memory, newest first."""
    return await parts.lane.run(_history, parts.stores, params)


def _history(stores: Stores, params: HistoryParams) -> History:
    versions = stores.records.versions(resolve(stores, params.id, params.clearance))
    shown = [shapes.version(one) for one in versions if cleared(one.sensitivity, params.clearance)]
    return {"versions": shown[: params.limit]}


def resolve(stores: Stores, wanted: str, clearance: str) -> str:
    """The id that is meant: exactly this one, else the only one that begins so; what the caller may not see is not there."""
    row = stores.catalogue.get(wanted)
    if row is not None and cleared(row.sensitivity, clearance):
        return wanted
    if len(wanted) < PREFIX_CHARS:
        raise missing(wanted)
    ids = [
        row.id
        for row in stores.catalogue.every()
        if row.id.startswith(wanted) and row.id != wanted and cleared(row.sensitivity, clearance)
    ]
    if not ids:
        raise missing(wanted)
    if len(ids) > 1:
        first = heapq.nsmallest(10, ids)
        raise Conflict(f"{len(ids)} memories begin with {wanted!r}.", hint=f"dreamctl get {first[0]}", ids=first)
    return ids[0]


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
    memories = [shapes.memory(texts[memory]) for _, memory in page]
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
        by, as_of, value, memory = json.loads(base64.urlsafe_b64decode(cursor))
        decoded = Cursor(str(by), float(as_of), float(value), str(memory))
    except (ValueError, TypeError):
        raise Invalid("The cursor is not one of ours.", hint=hint, field="cursor") from None
    if decoded.sort != sort:
        raise Invalid(f"The cursor belongs to another sort than {sort}.", hint=hint, field="cursor")
    return decoded


METHODS: Final = (
    Method("get", "read", GetParams, MemoryShape, get, False, "Show one memory in full.", ("id",)),
    Method("list", "read", ListParams, Listed, list_, False, "List memories, filtered and sorted."),
    Method("history", "read", HistoryParams, History, history, False, "Show the former texts of a memory.", ("id",)),
)
