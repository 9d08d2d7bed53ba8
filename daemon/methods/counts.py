"""Methods that tell of a scope in numbers: tags, stats and what is about to be forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict

from daemon.methods.filters import read_scope
from daemon.methods.read import retention
from daemon.parts import Parts
from daemon.wire import Method, Scoped
from jobs.decay import NEWBORN
from storage.catalogue import count_by
from storage.errors import command
from storage.instants import format_instant
from storage.model import DAY, Memory, cleared
from storage.where import Where

READ_AT_ONCE: Final = 256  # texts read in one lane call


class FadingParams(Scoped):
    """What is about to be forgotten."""

    days: float = Field(default=7.0, gt=0, le=3650, description="Within so many days from now.")


class TagCount(TypedDict):
    """A tag and how many memories have it."""

    tag: str
    count: int


class Tags(TypedDict):
    """Tags, commonest first."""

    tags: list[TagCount]


class Stats(TypedDict):
    """Counts over live memories that the caller may see."""

    total: int
    by_type: dict[str, int]
    by_source: dict[str, int]
    by_subtype: dict[str, int]
    by_tier: dict[str, int]
    by_heat: dict[str, int]
    by_sensitivity: dict[str, int]
    by_provenance: dict[str, int]
    avg_confidence: float
    unique_tags: int
    top_tags: list[TagCount]
    total_versions: int
    memories_with_history: int


class FadingMemory(TypedDict):
    """A memory that will be forgotten unless something saves it."""

    id: str
    content: str
    retention: float
    forgotten_at: str
    saved_by: str


class Fading(TypedDict):
    """What goes first stands first."""

    memories: list[FadingMemory]


class Going(NamedTuple):
    """When a memory goes, if nothing saves it, and how well it is retained now."""

    at: float
    row: Memory
    retention: float


async def tags(parts: Parts, params: Scoped) -> Tags:
    """Every tag of a scope, commonest first."""
    return {"tags": _tag_counts(await parts.lane.run(_visible_rows, parts, params))}


async def stats(parts: Parts, params: Scoped) -> Stats:
    """Counts over the live memories of a scope."""
    rows = await parts.lane.run(_visible_rows, parts, params)
    shown = {row.id for row in rows}
    versions: Counter[str] = Counter()
    batches = parts.stores.records.levels()
    while (batch := await parts.lane.run(next, batches, None)) is not None:
        versions.update(owner for owner, level in batch if owner in shown and cleared(level, params.clearance))
    return await asyncio.to_thread(_stats, rows, versions)


def _stats(rows: Sequence[Memory], versions: Counter[str]) -> Stats:
    """Pure: it runs outside the lane."""
    tag_counts = _tag_counts(rows)
    return {
        "total": len(rows), "by_type": count_by(rows, "type"), "by_source": count_by(rows, "source"),
        "by_subtype": {name: count for name, count in count_by(rows, "subtype").items() if name},
        "by_tier": count_by(rows, "tier"), "by_heat": count_by(rows, "heat"), "by_sensitivity": count_by(rows, "sensitivity"),
        "by_provenance": count_by(rows, "provenance"),
        "avg_confidence": round(sum(row.confidence for row in rows) / len(rows), 4) if rows else 0.0,
        "unique_tags": len(tag_counts), "top_tags": tag_counts[:10],
        "total_versions": versions.total(), "memories_with_history": len(versions),
    }  # fmt: skip


async def fading(parts: Parts, params: FadingParams) -> Fading:
    """What will be forgotten within some days, when, and what would save it."""
    going = await parts.lane.run(_going, parts, params)
    shown: list[FadingMemory] = []
    for start in range(0, len(going), READ_AT_ONCE):
        shown += await parts.lane.run(_described, parts, going[start : start + READ_AT_ONCE])
    return {"memories": shown}


def _going(parts: Parts, params: FadingParams) -> list[Going]:
    now = parts.clock.now()
    horizon = now + params.days * DAY
    ends = ((forgotten_at(parts, row), row) for row in _visible_rows(parts, params))
    going = [Going(at, row, retention(parts, row, now)) for at, row in ends if at is not None and at <= horizon]
    return sorted(going, key=lambda one: (one.at, one.row.id))


def _described(parts: Parts, going: Sequence[Going]) -> list[FadingMemory]:
    """With their texts; what went in the meantime is left out. Called in the lane."""
    texts = parts.stores.texts(one.row for one in going)
    return [
        {
            "id": row.id, "content": texts[row.id].content, "retention": round(kept, 4),
            "forgotten_at": format_instant(at) or "", "saved_by": _saved_by(parts, row),
        }
        for at, row, kept in going if row.id in texts
    ]  # fmt: skip


def forgotten_at(parts: Parts, row: Memory) -> float | None:
    """When `decay` may take a live memory at the earliest, if nobody uses it and the daemon stays awake; None = never."""
    return min((end for end in (_faded_at(parts, row), row.expires_at) if end is not None), default=None)


def _faded_at(parts: Parts, row: Memory) -> float | None:
    if row.tier != "short" or row.pinned:
        return None
    at = parts.retention.forgotten_at(row.used_at, row.access_count, row.importance, row.emotion, parts.stores.awake)
    return None if at is None else max(at, row.created_at + NEWBORN)


def _saved_by(parts: Parts, row: Memory) -> str:
    """What keeps a memory: a use helps against fading only, a later end against expiry only."""
    later = command("update", row.id, expires_at="+30d")
    use = f"a recall of it, or: {command('pin', row.id)}, or: {command('set_tier', row.id, 'long')}"
    if row.expires_at is None:
        return use
    faded = _faded_at(parts, row)
    return later if faded is None or row.expires_at <= faded else use


def _visible_rows(parts: Parts, params: Scoped) -> list[Memory]:
    where = Where(now=parts.clock.now(), scope=read_scope(params.scope), clearance=params.clearance)
    return [row for row in parts.stores.catalogue.rows(where.scope) if where.admits(row)]


def _tag_counts(rows: Iterable[Memory]) -> list[TagCount]:
    counts = Counter(tag for row in rows for tag in row.tags)
    return [{"tag": tag, "count": count} for tag, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]


METHODS: Final = (
    Method("tags", "read", Scoped, Tags, tags, False, "Count the tags of a scope."),
    Method("stats", "read", Scoped, Stats, stats, False, "Count the memories of a scope."),
    Method(
        "fading",
        "read",
        FadingParams,
        Fading,
        fading,
        False,
        "List what will be forgotten soon, and what would save it.",
    ),
)
