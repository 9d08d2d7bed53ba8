"""Methods that read memories. Only `recall` and `recall_multi` count as access; nothing here writes."""

from __future__ import annotations

import base64
import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, Literal, NotRequired, TypedDict

from pydantic import Field

from daemon import shapes
from daemon.methods.filters import Filters, read_scope
from daemon.parts import Parts
from daemon.shapes import HitShape, MemoryShape, VersionShape
from daemon.wire import Cleared, Method, Scoped, format_instant
from jobs.decay import NEWBORN
from storage.catalogue import count_by
from storage.errors import Conflict, Invalid
from storage.graph import visible
from storage.memories import missing
from storage.model import DAY, Memory, cleared
from storage.recall import Hit, Question
from storage.where import Where

MAX_QUERY_CHARS: Final = 16_384
PREFIX_CHARS: Final = 8  # an id may be shortened to so many
FACTORS: Final = ("relevance", "recency", "importance", "emotion", "citation", "heat")


class RecallOptions(Filters):
    """What both recalls take."""

    min_score: float | None = Field(default=None, description="Leave out what has less evidence than this.")
    weights: dict[str, float] | None = Field(
        default=None,
        description="Factors of this one recall for relevance, recency, importance, emotion, citation, heat; 1.0 each, 0 = off.",
    )
    associate: bool = Field(default=True, description="Follow edges to neighbours.")
    learn: bool = Field(default=True, description="Count as access, and wire together what is returned.")
    explain: bool = Field(default=False, description="Tell why each hit scored as it did.")


class RecallParams(RecallOptions):
    """One question."""

    query: str = Field(max_length=MAX_QUERY_CHARS, description="What to look for, in any language.")
    k: int = Field(default=5, ge=1, le=200, description="How many hits.")


class RecallMultiParams(RecallOptions):
    """Several questions at once; each memory appears once, with its best score."""

    queries: list[str] = Field(min_length=1, max_length=32, description="What to look for.")
    k: int = Field(default=3, ge=1, le=200, description="Hits a query.")
    n: int | None = Field(
        default=None, ge=1, le=1000, description="Hits in all; default k times the number of queries."
    )


class GetParams(Cleared):
    """One memory by its id."""

    id: str = Field(
        min_length=1, max_length=128, description="A memory's id, or a unique prefix of at least 8 characters."
    )


class ListParams(Filters):
    """A page of memories."""

    state: Literal["live", "superseded", "forgotten"] = Field(default="live", description="Live, or in the bin.")
    sort: Literal["created", "updated", "accessed", "emotion", "importance", "retention"] = Field(
        default="created", description="Highest or newest first; `retention` lowest first: what fades next."
    )
    limit: int = Field(default=50, ge=1, le=500, description="Memories a page.")
    cursor: str | None = Field(default=None, description="Where the page before ended.")


class HistoryParams(GetParams):
    """The former texts of a memory."""

    limit: int = Field(default=10, ge=1, le=1000, description="How many, newest first.")


class FadingParams(Scoped):
    """What is about to be forgotten."""

    days: float = Field(default=7.0, gt=0, le=3650, description="Within so many days from now.")


class Recalled(TypedDict):
    """Hits, best first; `degraded` says what was missing."""

    hits: list[HitShape]
    took_ms: float
    degraded: NotRequired[str]


class Listed(TypedDict):
    """A page; `cursor` is null on the last."""

    memories: list[MemoryShape]
    cursor: str | None


class History(TypedDict):
    """Former texts, newest first."""

    versions: list[VersionShape]


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


async def recall(parts: Parts, params: RecallParams) -> Recalled:
    """Find the k memories that answer best."""
    started = parts.clock.monotonic()
    hits, degraded = await _hits(parts, params, [params.query], params.k, params.k)
    return _recalled(parts, hits, degraded, started)


async def recall_multi(parts: Parts, params: RecallMultiParams) -> Recalled:
    """Ask several questions, merge by best score, learn once."""
    started = parts.clock.monotonic()
    hits, degraded = await _hits(parts, params, params.queries, params.k, params.n or params.k * len(params.queries))
    return _recalled(parts, hits, degraded, started)


async def _hits(parts: Parts, options: RecallOptions, queries: list[str], k: int, n: int) -> tuple[list[Hit], bool]:
    now = parts.clock.now()
    where = options.to_where(now)
    factors = _factors(options.weights)
    best: dict[str, Hit] = {}
    degraded = False
    for query in queries:
        if not query.strip():
            raise Invalid("The query is empty.", hint="dreamctl list --sort created", field="query")
        dense, terms = await parts.embedding.run(parts.gate.question, query)
        degraded = degraded or dense is None

        question = Question(query, dense, terms)
        for hit in await parts.lane.run(_search, parts, question, where, options, factors, k):
            if hit.memory.id not in best or hit.score > best[hit.memory.id].score:
                best[hit.memory.id] = hit
    hits = sorted(best.values(), key=lambda hit: -hit.score)[:n] if len(queries) > 1 else list(best.values())
    if options.learn:
        parts.learn.note([hit.memory.id for hit in hits], now)
    return hits, degraded


def _search(
    parts: Parts, question: Question, where: Where, options: RecallOptions, factors: dict[str, float], k: int
) -> list[Hit]:
    return parts.stores.recaller.recall(
        question, where, parts.stores.awake, k=k, factors=factors, min_score=options.min_score,
        associate=options.associate, explain=options.explain,
    )  # fmt: skip


def _recalled(parts: Parts, hits: list[Hit], degraded: bool, started: float) -> Recalled:
    parts.counts.recall_hits.append(len(hits))
    result: Recalled = {
        "hits": [shapes.hit(hit) for hit in hits],
        "took_ms": round((parts.clock.monotonic() - started) * 1e3, 2),
    }
    return {**result, "degraded": "keyword-only"} if degraded else result


def _factors(weights: dict[str, float] | None) -> dict[str, float]:
    for name, factor in (weights or {}).items():
        if name not in FACTORS:
            raise Invalid(f"There is no weight {name!r}.", hint=f"Use: {', '.join(FACTORS)}.", field="weights")
        if not 0 <= factor <= 100:  # also refuses NaN
            raise Invalid(
                f"The weight {name!r} must lie between 0 and 100.", hint="1.0 leaves it as it is.", field="weights"
            )
    return weights or {}


async def get(parts: Parts, params: GetParams) -> MemoryShape:
    """One memory with its context and its retention."""
    return await parts.lane.run(_get, parts, params)


def _get(parts: Parts, params: GetParams) -> MemoryShape:
    memory = parts.stores.memories.read_one(resolve(parts, params.id, params.clearance))
    return shapes.memory(memory, context=True, retention=retention(parts, memory))


async def history(parts: Parts, params: HistoryParams) -> History:
    """The former texts of a memory, newest first."""

    def read() -> History:
        versions = parts.stores.records.versions(resolve(parts, params.id, params.clearance))
        return {
            "versions": [shapes.version(one) for one in versions if cleared(one.sensitivity, params.clearance)][
                : params.limit
            ]
        }

    return await parts.lane.run(read)


def resolve(parts: Parts, wanted: str, clearance: str) -> str:
    """The id that is meant: exactly this one, else the only one that begins so among those the caller may see."""
    if wanted in parts.stores.catalogue:
        return visible(parts.stores, wanted, clearance).id
    if len(wanted) < PREFIX_CHARS:
        raise missing(wanted)
    rows = (
        row
        for row in parts.stores.catalogue.every()
        if row.id.startswith(wanted) and cleared(row.sensitivity, clearance)
    )
    ids = sorted(row.id for row in rows)
    if not ids:
        raise missing(wanted)
    if len(ids) > 1:
        raise Conflict(f"{len(ids)} memories begin with {wanted!r}.", hint=f"dreamctl get {ids[0]}", ids=ids[:10])
    return ids[0]


async def list_(parts: Parts, params: ListParams) -> Listed:
    """A page of memories that meet the filters, stable under writes."""
    return await parts.lane.run(_list, parts, params)


def _list(parts: Parts, params: ListParams) -> Listed:
    now = parts.clock.now()
    where = params.to_where(now, state=params.state)
    rows = (
        parts.stores.catalogue.rows(where.scope) if params.state == "live" else parts.stores.catalogue.gone(where.scope)
    )
    value = _sort_value(parts, params.sort, now)
    after = None if params.cursor is None else _decoded(params.cursor, params.sort)
    keyed = ((value(row), row.id) for row in rows if where.admits(row))
    page = heapq.nsmallest(params.limit + 1, (key for key in keyed if after is None or key > after))
    more = len(page) > params.limit
    page = page[: params.limit]
    texts = parts.stores.memories.read([memory for _, memory in page])
    memories = [shapes.memory(texts[memory]) for _, memory in page if memory in texts]
    return {"memories": memories, "cursor": _encoded(params.sort, page[-1]) if more else None}


def _sort_value(parts: Parts, sort: str, now: float) -> Callable[[Memory], float]:
    del now
    match sort:
        case "updated":
            return lambda row: -row.updated_at
        case "accessed":
            return lambda row: -(row.accessed_at or 0.0)
        case "emotion":
            return lambda row: -row.emotion
        case "importance":
            return lambda row: -row.importance
        case "retention":
            return lambda row: retention(parts, row)
        case _:
            return lambda row: -row.created_at


def _encoded(sort: str, key: tuple[float, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps([sort, *key]).encode()).decode()


def _decoded(cursor: str, sort: str) -> tuple[float, str]:
    try:
        by, value, memory = json.loads(base64.urlsafe_b64decode(cursor))
        key = float(value), str(memory)
    except (ValueError, TypeError):
        raise Invalid(
            "The cursor is not one of ours.", hint="Leave `cursor` out to begin anew.", field="cursor"
        ) from None
    if by != sort:
        raise Invalid(f"The cursor belongs to `sort={by}`.", hint="Leave `cursor` out to begin anew.", field="cursor")
    return key


async def tags(parts: Parts, params: Scoped) -> Tags:
    """Every tag of a scope, commonest first."""

    def read() -> Tags:
        return {"tags": _tag_counts(_visible_rows(parts, params))}

    return await parts.lane.run(read)


async def stats(parts: Parts, params: Scoped) -> Stats:
    """Counts over the live memories of a scope."""
    return await parts.lane.run(_stats, parts, params)


def _stats(parts: Parts, params: Scoped) -> Stats:
    rows = _visible_rows(parts, params)
    histories = parts.stores.records.with_history()
    versions = [histories[row.id] for row in rows if row.id in histories]
    tag_counts = _tag_counts(rows)
    return {
        "total": len(rows), "by_type": count_by(rows, "type"), "by_source": count_by(rows, "source"),
        "by_subtype": {name: count for name, count in count_by(rows, "subtype").items() if name},
        "by_tier": count_by(rows, "tier"), "by_heat": count_by(rows, "heat"), "by_sensitivity": count_by(rows, "sensitivity"),
        "by_provenance": count_by(rows, "provenance"),
        "avg_confidence": round(sum(row.confidence for row in rows) / len(rows), 4) if rows else 0.0,
        "unique_tags": len(tag_counts), "top_tags": tag_counts[:10],
        "total_versions": sum(versions), "memories_with_history": len(versions),
    }  # fmt: skip


def _visible_rows(parts: Parts, params: Scoped) -> list[Memory]:
    where = Where(now=parts.clock.now(), scope=read_scope(params.scope), clearance=params.clearance)
    return [row for row in parts.stores.catalogue.rows(where.scope) if where.admits(row)]


def _tag_counts(rows: Iterable[Memory]) -> list[TagCount]:
    counts = Counter(tag for row in rows for tag in row.tags)
    return [{"tag": tag, "count": count} for tag, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]


def retention(parts: Parts, row: Memory) -> float:
    """How well a memory is retained now; core and long are outside the curve only for `decay`."""
    now = parts.clock.now()
    return parts.retention.of(row.used_at, row.access_count, row.importance, row.emotion, now, parts.stores.awake)


async def fading(parts: Parts, params: FadingParams) -> Fading:
    """What will be forgotten within some days, when, and what would save it."""
    return await parts.lane.run(_fading, parts, params)


def _fading(parts: Parts, params: FadingParams) -> Fading:
    now = parts.clock.now()
    horizon = now + params.days * DAY
    going = [
        (at, row)
        for row in _visible_rows(parts, params)
        if (at := forgotten_at(parts, row)) is not None and at <= horizon
    ]
    going.sort(key=lambda one: (one[0], one[1].id))
    texts = parts.stores.texts(row for _, row in going)
    return {
        "memories": [
            {
                "id": row.id, "content": texts[row.id].content, "retention": round(retention(parts, row), 4),
                "forgotten_at": format_instant(at) or "", "saved_by": _saved_by(row),
            }
            for at, row in going if row.id in texts
        ]
    }  # fmt: skip


def forgotten_at(parts: Parts, row: Memory) -> float | None:
    """When `decay` may take a live memory at the earliest, if nobody uses it and the daemon stays awake; None = never."""
    ends = [] if row.expires_at is None else [row.expires_at]
    if row.tier == "short" and not row.pinned:
        faded = parts.retention.forgotten_at(
            row.used_at, row.access_count, row.importance, row.emotion, parts.stores.awake
        )
        ends += [] if faded is None else [max(faded, row.created_at + NEWBORN)]
    return min(ends, default=None)


def _saved_by(row: Memory) -> str:
    if row.expires_at is not None:
        return f"update {row.id} with a later expires_at"
    return f"a recall of it, or: dreamctl pin {row.id}, or: dreamctl set_tier {row.id} long"


METHODS: Final = (
    Method(
        "recall", "read", RecallParams, Recalled, recall, False, "Find the memories that answer a question.", ("query",)
    ),
    Method(
        "recall_multi",
        "read",
        RecallMultiParams,
        Recalled,
        recall_multi,
        False,
        "Ask several questions at once.",
        ("queries",),
    ),
    Method("get", "read", GetParams, MemoryShape, get, False, "Show one memory in full.", ("id",)),
    Method("list", "read", ListParams, Listed, list_, False, "List memories, filtered and sorted."),
    Method("history", "read", HistoryParams, History, history, False, "Show the former texts of a memory.", ("id",)),
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
