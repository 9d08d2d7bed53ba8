"""`context`: what belongs before the next answer in a conversation, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from daemon.methods.counting import Cut, counted, cut
from daemon.methods.embedding import question_of
from daemon.methods.filters import read_scope
from daemon.methods.recall import Query
from daemon.methods.talk import Session, kept_name
from daemon.parts import Parts
from daemon.wire import Method, Scoped
from storage.errors import Conflict, Unavailable, command
from storage.learn import taught
from storage.model import Memory
from storage.recall import Hit, Question
from storage.talk import Turn
from storage.text import is_blank
from storage.where import Where
from storage.window import Eviction, Piece, Recency, best, exponential, linear, window

MAX_TOKENS: Final = 2_000_000  # as much as any model reads
BATCH: Final = 64  # memories whose texts are read and counted together
FACTS: Final = 8  # priorities: what comes first when all is put together
TURNS: Final = 7

Strategy = Literal["window", "summary", "progressive"]


class ContextParams(Scoped):
    """What an agent needs to go on."""

    session: Session
    query: Query | None = Field(default=None, description="What it is about: facts are recalled for it.")
    facts: int = Field(default=5, ge=0, le=200, description="How many.")
    max_tokens: int = Field(default=4096, gt=0, le=MAX_TOKENS, description="What all of it may take.")
    strategy: Strategy = Field(
        default="window", description="window: the latest turns as they are; summary and progressive need a model."
    )
    eviction: Eviction = Field(
        default="fifo",
        description="Who leaves first: the oldest, the least important, or the oldest question and answer.",
    )
    recency: Recency = Field(default="linear", description="How the scores of the turns rise.")
    min_score: float = Field(default=0.5, ge=0, lt=1, description="Linear: the score of the oldest turn.")
    decay_rate: float = Field(default=2.0, gt=0, description="Exponential: how steeply they rise.")


class ContextItem(TypedDict):
    """Something to read; `role` is of turns, `truncated` says that it was cut to fit."""

    kind: Literal["active", "fact", "turn"]
    id: str
    role: NotRequired[str]
    priority: int
    score: float
    content: str
    tokens: int
    truncated: bool


class Context(TypedDict):
    """Live context and facts, then the turns in order; `evicted` counts the turns that there was no room for."""

    strategy: str
    items: list[ContextItem]
    tokens: int
    max_tokens: int
    summary: str
    summary_tokens: int
    evicted: int
    degraded: NotRequired[str]


class Found(NamedTuple):
    """What there is: hits, rows of live context, and the session with its rows."""

    hits: list[Hit]
    active: list[Memory]
    scope: str
    turns: list[Turn]


async def context(parts: Parts, params: ContextParams) -> Context:
    """Facts first, then as many turns as fit beside them."""
    if params.strategy != "window":
        raise Unavailable(
            f"The strategy {params.strategy} summarises with a language model, and none is set.",
            hint="Use strategy window, or set model under [llm] in dreamd.toml.",
            retry_after_s=3600.0,
        )
    now = parts.clock.now()
    where = Where(now=now, scope=read_scope(params.scope), clearance=params.clearance)
    session = await kept_name(parts, params.session)
    question = await _question(parts, params)
    found = await parts.lane.run(_found, parts, where, session, question, params.facts)
    facts = await _facts(parts, where, found, params.max_tokens)
    if found.hits:
        shown = {item["id"] for item in facts}
        answered = taught([(hit.memory.id, hit.evidence) for hit in found.hits])
        parts.learn.note([memory for memory in answered if memory in shown], now)
        parts.meter.observe_hits(len(found.hits))
    turns = await _turns(parts, params, found.turns, params.max_tokens - sum(item["tokens"] for item in facts))
    staying = {item["id"] for item in turns}
    evicted = [turn.id for turn in found.turns if turn.id not in staying]
    if evicted:
        parts.events.emit("evicted", found.scope, evicted)
    items = facts + turns
    result: Context = {
        "strategy": params.strategy, "items": items, "tokens": sum(item["tokens"] for item in items),
        "max_tokens": params.max_tokens, "summary": "", "summary_tokens": 0, "evicted": len(evicted),
    }  # fmt: skip
    degraded = question is not None and question.dense is None
    return {**result, "degraded": "keyword-only"} if degraded else result


async def _question(parts: Parts, params: ContextParams) -> Question | None:
    if params.query is None or not params.facts or is_blank(params.query):
        return None
    dense, terms = await question_of(parts, params.query)
    return Question(params.query, dense, terms)


def _found(parts: Parts, where: Where, session: str, question: Question | None, facts: int) -> Found:
    """Called in the lane. Raises Conflict where several scopes below the one that is read have such a session."""
    stores = parts.stores
    if question is not None and question.dense is not None and not parts.gate.fits(question.dense):
        question = question._replace(dense=None)  # the embedder was exchanged since
    scopes = stores.talk.scopes_of(session, where.scope, where.clearance)
    if len(scopes) > 1:
        raise Conflict(
            f"The session {session!r} was spoken in several scopes: {', '.join(scopes)}.",
            hint=command("context", session, scope=scopes[0]),
            scopes=scopes,
        )
    hits = [] if question is None else stores.recaller.recall(question, where, stores.awake, k=facts)
    rows = (row for row in stores.catalogue.rows(where.scope) if row.type == "active" and where.admits(row))
    active = sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)
    turns = stores.talk.turns(scopes[0], session, where.clearance) if scopes else []
    return Found(hits, active, scopes[0] if scopes else where.scope, turns)


async def _facts(parts: Parts, where: Where, found: Found, budget: int) -> list[ContextItem]:
    """Live context, newest first, then the hits, as many as the budget holds."""
    item = partial(_item, priority=FACTS)
    items: list[ContextItem] = []
    for start in range(0, len(found.active), BATCH):
        if sum(one["tokens"] for one in items if one["tokens"] <= budget) > budget:
            break
        memories = await parts.lane.run(still_there, parts, where, found.active[start : start + BATCH])
        counts = await counted(parts, [memory.content for memory in memories], most=budget)
        items += [
            item("active", memory.id, 1.0, memory.content, tokens)
            for memory, tokens in zip(memories, counts, strict=True)
        ]
    known = {row.id for row in found.active}
    hits = [hit for hit in found.hits if hit.memory.id not in known]
    counts = await counted(parts, [hit.memory.content for hit in hits], most=budget)
    items += [
        item("fact", hit.memory.id, hit.score, hit.memory.content, tokens)
        for hit, tokens in zip(hits, counts, strict=True)
    ]
    return [items[place] for place in best([one["tokens"] for one in items], budget)]


def still_there(parts: Parts, where: Where, rows: Sequence[Memory]) -> list[Memory]:
    """The whole memories for these rows, in order, without those that may not be seen any more. Called in the lane."""
    texts = parts.stores.texts(rows)
    return [texts[row.id] for row in rows if row.id in texts and where.admits(texts[row.id])]


async def _turns(parts: Parts, params: ContextParams, rows: Sequence[Turn], budget: int) -> list[ContextItem]:
    """The turns that fit, in order, the last one or the last pair cut where it is too long alone; a whole sign stays, or none."""
    sizes = await _sizes(parts, rows)
    pieces = [Piece(row.role, tokens, row.importance) for row, tokens in zip(rows, sizes, strict=True)]
    allotted = window(pieces, budget, params.eviction)
    whole = await parts.lane.run(_read, parts, [rows[place] for place in allotted])
    kept = [(whole[rows[place].id], sizes[place], room) for place, room in allotted.items() if rows[place].id in whole]
    cuts = await cut(parts, [Cut(turn.content, room) for turn, size, room in kept if room < size])
    if any(is_blank(one.text) for one in cuts):
        return []
    shorter = iter(cuts)
    items: list[ContextItem] = []
    for place, (turn, size, room) in enumerate(kept):
        text = next(shorter) if room < size else Cut(turn.content, size)
        score = _score(params, place, len(kept))
        one = _item("turn", turn.id, score, text.text, text.tokens, priority=TURNS, truncated=room < size)
        items.append({**one, "role": turn.role})
    return items


async def _sizes(parts: Parts, rows: Sequence[Turn]) -> list[int]:
    """The tokens of each turn; what another tokenizer counted is counted anew."""
    stale = [row for row in rows if row.counter != parts.tokens.name]
    whole = list((await parts.lane.run(_read, parts, stale)).values()) if stale else []
    anew = await counted(parts, [turn.content for turn in whole]) if whole else []
    sizes = {row.id: row.tokens for row in rows} | {turn.id: size for turn, size in zip(whole, anew, strict=True)}
    return [sizes[row.id] for row in rows]


def _read(parts: Parts, rows: Sequence[Turn]) -> dict[str, Turn]:
    """Called in the lane."""
    return {turn.id: turn for turn in parts.stores.talk.read(rows)}


def _score(params: ContextParams, place: int, count: int) -> float:
    if params.recency == "linear":
        return linear(place, count, params.min_score)
    return exponential(place, count, params.decay_rate)


def _item(
    kind: Literal["active", "fact", "turn"],
    memory: str,
    score: float,
    content: str,
    tokens: int,
    *,
    priority: int,
    truncated: bool = False,
) -> ContextItem:
    return {
        "kind": kind, "id": memory, "priority": priority, "score": round(score, 4), "content": content, "tokens": tokens,
        "truncated": truncated,
    }  # fmt: skip


METHODS: Final = (
    Method(
        "context", "talk", ContextParams, Context, context, False,
        "Put together what an agent needs to go on in a session.", ("session", "query"),
    ),
)  # fmt: skip
