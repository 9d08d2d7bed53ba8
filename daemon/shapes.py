"""How a memory, an edge, a version and a run look on the wire."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from storage.graph import Neighbour
from storage.instants import format_instant
from storage.ledger import Run
from storage.model import Memory, Version
from storage.recall import Hit


class BriefShape(TypedDict):
    """A memory without that which may be of any length beside its text."""

    id: str
    content: str
    author: str
    scope: str
    session: str
    type: str
    subtype: str
    tags: list[str]
    tier: str
    heat: str
    pinned: bool
    emotion: float
    importance: float
    confidence: float
    source: str
    provenance: str
    sensitivity: str
    redactions: dict[str, int]
    version: int
    state: str
    created_at: str
    updated_at: str
    event_at: str | None
    accessed_at: str | None
    access_count: int
    expires_at: str | None
    invalid_at: str | None
    superseded_by: str | None
    forgotten_at: str | None
    content_hash: str


class MemoryShape(BriefShape):
    """A memory; `context` only where one memory was asked for by its id."""

    context: NotRequired[str]
    entities: list[str]
    metadata: dict[str, Any]
    source_turns: list[str]
    change_summary: str
    forgotten_reason: str
    retention: NotRequired[float]


class HitShape(MemoryShape):
    """A memory that recall found; `why` exactly when `explain`."""

    score: float
    why: NotRequired[dict[str, Any]]


class NeighbourShape(TypedDict):
    """A memory at the other end of an edge."""

    id: str
    weight: float
    kind: str
    label: str
    content: str


class VersionShape(TypedDict):
    """A former text of a memory."""

    version: int
    content: str
    context: str
    type: str
    tags: list[str]
    metadata: dict[str, Any]
    sensitivity: str
    change_summary: str
    created_at: str
    replaced_at: str


class CanaryShape(TypedDict):
    """What a night did to what real questions find: `jobs.canary` says how it is measured."""

    questions: int
    overlap: float
    rank: float
    rank_before: float
    alarm: bool


class RunShape(TypedDict):
    """A recorded run of a job."""

    run_id: str
    job: str
    trigger: str
    dry_run: bool
    outcome: str | None
    reason: str | None
    counts: dict[str, int]
    examples: list[dict[str, Any]]
    started_at: str
    ended_at: str | None
    took_s: float | None
    late_by_s: float | None
    cost_usd: float
    seed: int
    parent: str | None
    undo_of: str | None
    undone_by: str | None
    canary: CanaryShape | None


_INSTANTS = ("created_at", "updated_at", "event_at", "accessed_at", "expires_at", "invalid_at", "forgotten_at")
_LISTS = ("tags", "entities", "source_turns")
_AS_THEY_ARE = (
    "id", "content", "author", "scope", "session", "type", "subtype", "metadata", "tier", "heat", "pinned", "emotion",
    "importance", "confidence", "source", "provenance", "sensitivity", "redactions", "version", "change_summary", "state",
    "access_count", "forgotten_reason", "content_hash",
)  # fmt: skip


def memory(
    one: Memory, *, context: bool = False, retention: float | None = None, successor: str | None = None
) -> MemoryShape:
    """A memory with all its fields; `superseded_by` is the `successor` that the caller may know of, never the stored one."""
    shape: dict[str, Any] = {name: getattr(one, name) for name in _AS_THEY_ARE} | {"superseded_by": successor}
    shape |= {name: list(getattr(one, name)) for name in _LISTS}
    shape |= {name: format_instant(getattr(one, name)) for name in _INSTANTS}
    if context:
        shape["context"] = one.context
    if retention is not None:
        shape["retention"] = round(retention, 4)
    return shape  # type: ignore[return-value]


def brief(one: Memory) -> BriefShape:
    """A memory with the fields that have a bound."""
    told = memory(one)
    return {name: value for name, value in told.items() if name in BriefShape.__required_keys__}  # type: ignore[return-value]


def hit(found: Hit) -> HitShape:
    """A memory with its score."""
    shape: dict[str, Any] = {**memory(found.memory), "score": round(found.score, 4)}
    if found.why is not None:
        shape["why"] = found.why
    return shape  # type: ignore[return-value]


def neighbour(one: Neighbour) -> NeighbourShape:
    """A neighbour with the weight its edge has now."""
    return {
        "id": one.memory.id, "weight": round(one.weight, 4), "kind": one.edge.kind, "label": one.edge.label,
        "content": one.memory.content,
    }  # fmt: skip


def version(one: Version) -> VersionShape:
    """A former text."""
    return {
        "version": one.number, "content": one.content, "context": one.context, "type": one.type, "tags": list(one.tags),
        "metadata": one.metadata, "sensitivity": one.sensitivity, "change_summary": one.change_summary,
        "created_at": format_instant(one.created_at) or "", "replaced_at": format_instant(one.replaced_at) or "",
    }  # fmt: skip


def run(one: Run) -> RunShape:
    """A recorded run."""
    return {
        "run_id": one.id, "job": one.job, "trigger": one.trigger, "dry_run": one.dry_run, "outcome": one.outcome,
        "reason": one.reason, "counts": one.counts, "examples": one.examples,
        "started_at": format_instant(one.started_at) or "", "ended_at": format_instant(one.ended_at),
        "took_s": took(one),
        "late_by_s": one.late_by, "cost_usd": one.cost_micro_usd / 1e6, "seed": one.seed, "parent": one.parent,
        "undo_of": one.undo_of, "undone_by": one.undone_by, "canary": canary(one),
    }  # fmt: skip


def canary(one: Run) -> CanaryShape | None:
    """How a night measured, if it was."""
    return one.canary  # type: ignore[return-value]


def took(one: Run) -> float | None:
    """The seconds that a run took, if it has ended."""
    return None if one.ended_at is None else round(max(one.ended_at - one.started_at, 0.0), 3)
