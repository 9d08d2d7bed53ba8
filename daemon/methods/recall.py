"""Methods that answer questions. They alone count as access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from daemon import shapes
from daemon.methods.embedding import question_of
from daemon.methods.filters import Filters
from daemon.parts import Parts
from daemon.shapes import HitShape
from daemon.wire import Method
from jobs.canary import TOP
from storage.canaries import Canary
from storage.engine import Sparse, Vector
from storage.errors import Invalid
from storage.learn import taught
from storage.recall import Hit, Question
from storage.text import is_blank
from storage.where import Where

MAX_QUERY_CHARS: Final = 16_384
FACTORS: Final = ("relevance", "recency", "importance", "emotion", "citation", "heat")
MAX_FACTOR: Final = 100.0

Query = Annotated[str, Field(max_length=MAX_QUERY_CHARS)]


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

    query: Query = Field(description="What to look for, in any language.")
    k: int = Field(default=5, ge=1, le=200, description="How many hits.")


class RecallMultiParams(RecallOptions):
    """Several questions at once; each memory appears once, with its best score."""

    queries: list[Query] = Field(min_length=1, max_length=32, description="What to look for.")
    k: int = Field(default=3, ge=1, le=200, description="Hits a query.")
    n: int | None = Field(
        default=None, ge=1, le=1000, description="Hits in all; default k times the number of queries."
    )


class Recalled(TypedDict):
    """Hits, best first; `degraded` says what was missing."""

    hits: list[HitShape]
    took_ms: float
    degraded: NotRequired[str]


async def recall(parts: Parts, params: RecallParams) -> Recalled:
    """Find the k memories that answer best."""
    return await _recall(parts, params, [params.query], params.k, params.k)


async def recall_multi(parts: Parts, params: RecallMultiParams) -> Recalled:
    """Ask several questions, merge by best score, learn once."""
    return await _recall(parts, params, params.queries, params.k, params.n or params.k * len(params.queries))


async def _recall(parts: Parts, options: RecallOptions, queries: list[str], k: int, n: int) -> Recalled:
    started, now = parts.clock.monotonic(), parts.clock.now()
    where, factors = options.to_where(now), _factors(options.weights)
    if any(map(is_blank, queries)):
        field = "query" if isinstance(options, RecallParams) else "queries"
        raise Invalid("The query is empty.", hint="dreamctl list --sort created", field=field)
    best: dict[str, Hit] = {}
    degraded = False
    for query in queries:
        dense, terms = await question_of(parts, query)
        degraded = degraded or dense is None
        question = Question(query, dense, terms)
        for hit in await parts.lane.run(_search, parts, question, where, options, factors, k):
            if hit.memory.id not in best or hit.score > best[hit.memory.id].score:
                best[hit.memory.id] = hit
    hits = sorted(best.values(), key=lambda hit: -hit.score)[:n]
    if options.learn:
        answers = taught([(hit.memory.id, hit.evidence) for hit in hits])
        parts.learn.note(answers, now)
        if len(queries) == 1 and dense is not None and where.plain:
            _note_canary(parts, dense, terms, where, answers)
    parts.meter.observe_hits(len(hits))
    took_ms = round((parts.clock.monotonic() - started) * 1e3, 2)
    result: Recalled = {"hits": [shapes.hit(hit) for hit in hits], "took_ms": took_ms}
    return {**result, "degraded": "keyword-only"} if degraded else result


def _note_canary(parts: Parts, dense: Vector, terms: Sparse, where: Where, answers: Sequence[str]) -> None:
    """Leave a real question for the next night to be measured by: its vectors, and what answered it."""
    embedder = parts.gate.embedder
    if answers and embedder is not None:
        asked = Canary(where.now, where.scope, where.clearance, dense, terms, tuple(answers[:TOP]))
        parts.canaries.note(asked, embedder.fingerprint)


def _search(
    parts: Parts, question: Question, where: Where, options: RecallOptions, factors: dict[str, float], k: int
) -> list[Hit]:
    if question.dense is not None and not parts.gate.fits(question.dense):
        question = question._replace(dense=None)  # the embedder was exchanged since
    return parts.stores.recaller.recall(
        question, where, parts.stores.awake, k=k, factors=factors, min_score=options.min_score,
        associate=options.associate, explain=options.explain,
    )  # fmt: skip


def _factors(weights: dict[str, float] | None) -> dict[str, float]:
    for name, factor in (weights or {}).items():
        if name not in FACTORS:
            raise Invalid(f"There is no weight {name!r}.", hint=f"Use: {', '.join(FACTORS)}.", field="weights")
        if not 0 <= factor <= MAX_FACTOR:
            raise Invalid(
                f"The weight {name!r} must lie between 0 and {MAX_FACTOR:g}.",
                hint="1.0 leaves it as it is.",
                field="weights",
            )
    return weights or {}


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
)
