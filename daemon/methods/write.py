"""Methods that write one memory: remember, update, revert and its marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from daemon import announce, shapes
from daemon.methods.embedding import admitted, vectors_of
from daemon.parts import Parts
from daemon.shapes import MemoryShape
from daemon.wire import Id, Instant, Method, Sensitivity, Share, Source, Tier, Type, Writing
from storage.errors import Conflict, NotFound, command
from storage.gate import Admitted
from storage.memories import Vectors
from storage.model import Version, cleared
from storage.remember import NeedsVectors, Write, Writer, Written

TRIES: Final = 3  # a write that meets another writer looks again so often


class Options(Writing):
    """What a memory may be given beside its text; what is absent keeps its value or takes its default."""

    author: str | None = Field(default=None, description="Who said it.")
    tags: list[str] | None = Field(default=None, description="Tags, kept in lower case.")
    type: Type | None = Field(default=None, description="semantic (default), episodic, procedural or active.")
    subtype: str | None = Field(default=None, description="A finer type of your own.")
    tier: Tier | None = Field(
        default=None, description="How long it is kept: short (default) fades, long is demoted when unused, core stays."
    )
    importance: Share | None = Field(default=None, description="0..1, default 0.5.")
    emotion: Share | None = Field(default=None, description="0..1; left out, it is inherited from what lies near.")
    sensitivity: Sensitivity | None = Field(default=None, description="Who may see it; default as configured.")
    source: Source | None = Field(default=None, description="stated (default), inferred or learned.")
    confidence: Share | None = Field(default=None, description="How sure it is, 0..1.")
    metadata: dict[str, Any] | None = Field(default=None, description="A JSON object of your own.")
    context: str | None = Field(
        default=None, description="The longer original text, at most 1 MiB; only `get` returns it."
    )
    session: str | None = Field(
        default=None, description="The conversation it belongs to; neighbours in a session are linked."
    )
    event_at: Instant | None = Field(default=None, description="When it happened.")
    expires_at: Instant | None = Field(default=None, description="When it stops being true.")
    pinned: bool | None = Field(default=None, description="Never decays, never demoted.")
    scope: str | None = Field(default=None, description="Where it belongs, such as alice/coder; default `default`.")

    def given(self) -> dict[str, Any]:
        """The fields of the memory that were given."""
        return {name: getattr(self, name) for name in self.model_fields_set & _KEPT}


_KEPT: Final = {*Options.model_fields, "content", "id", "connect_to"} - Writing.model_fields.keys()


class NewOptions(Options):
    """What a new memory may be given beside its text."""

    id: Id | None = Field(default=None, description="An id of your own; the same id again updates.")
    connect_to: list[Id] | None = Field(
        default=None, max_length=64, description="Memories of this scope to connect it to."
    )


class RememberParams(NewOptions):
    """One memory to remember."""

    content: str = Field(description="The text to remember, at most 256 KiB.")


class UpdateParams(Options):
    """An edit of one memory."""

    id: Id
    content: str | None = Field(default=None, description="The text to remember, at most 256 KiB.")
    if_version: int | None = Field(
        default=None, description="Refuse with `conflict` unless it is still at this version."
    )


class IdParams(Writing):
    """One memory."""

    id: Id


class RevertParams(IdParams):
    """A former version to go back to."""

    version: int = Field(ge=1, description="Its number in `history`.")


class EmotionParams(IdParams):
    """A new emotion."""

    emotion: Share = Field(description="0..1")


class TierParams(IdParams):
    """A new retention class."""

    tier: Tier = Field(description="core stays, long is demoted when unused, short fades.")


class Remembered(TypedDict):
    """What `remember` did."""

    id: str
    created: bool
    restored: NotRequired[bool]
    version: int
    sensitivity: str
    redactions: dict[str, int]


Commit = Callable[[Writer, Write, Vectors | None, float], Written]


async def remember(parts: Parts, params: RememberParams) -> Remembered:
    """Keep one memory."""
    commit = partial(Writer.remember, new_id=parts.clock.new_id())
    return remembered(parts, *await _write(parts, params.given(), params.clearance, commit))


async def update(parts: Parts, params: UpdateParams) -> MemoryShape:
    """Edit one memory."""
    given = params.given()
    return await _edit(parts, given.pop("id"), given, params.clearance, if_version=params.if_version)


async def revert(parts: Parts, params: RevertParams) -> MemoryShape:
    """Edit a memory back to what a former version said; it is never less sensitive than that version was."""
    version = await parts.lane.run(_former, parts, params)
    given = {
        "content": version.content, "context": version.context, "type": version.type, "tags": list(version.tags),
        "metadata": version.metadata, "sensitivity_floor": version.sensitivity,
    }  # fmt: skip
    return await _edit(parts, params.id, given, params.clearance)


def _former(parts: Parts, params: RevertParams) -> Version:
    """The version that is meant. Called in the lane."""
    row = parts.stores.memories.live(params.id, params.clearance, parts.clock.now())
    withheld = None
    for version in parts.stores.records.versions(row.id):
        if version.number == params.version:
            if cleared(version.sensitivity, params.clearance):
                return version
            withheld = version.sensitivity
    raise NotFound(
        f"Memory {params.id!r} has no former version {params.version}.",
        hint=command("history", params.id),
        withheld=withheld,
    )


async def pin(parts: Parts, params: IdParams) -> MemoryShape:
    """Protect a memory from decay and demotion."""
    return await _mark(parts, params, {"pinned": True})


async def unpin(parts: Parts, params: IdParams) -> MemoryShape:
    """Let a memory fade again."""
    return await _mark(parts, params, {"pinned": False})


async def set_emotion(parts: Parts, params: EmotionParams) -> MemoryShape:
    """Say how strongly a memory is felt."""
    return await _mark(parts, params, {"emotion": params.emotion})


async def set_tier(parts: Parts, params: TierParams) -> MemoryShape:
    """Say how long a memory is kept."""
    return await _mark(parts, params, {"tier": params.tier})


async def _mark(parts: Parts, params: IdParams, mark: dict[str, Any]) -> MemoryShape:
    """Set a field that is no text: neither gate nor embedder has a say in it."""
    write = Write(mark, {}, params.clearance)

    def commit(writer: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
        return writer.update(params.id, write, vectors, now)

    written = await parts.lane.run(_committed, parts, commit, write, None)
    return shapes.memory(written.memory)


async def _edit(
    parts: Parts, memory: str, given: Mapping[str, Any], clearance: str, *, if_version: int | None = None
) -> MemoryShape:
    def commit(writer: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
        return writer.update(memory, write, vectors, now, if_version=if_version)

    written, _ = await _write(parts, given, clearance, commit, memory)
    return shapes.memory(written.memory)


async def _write(
    parts: Parts, given: Mapping[str, Any], clearance: str, commit: Commit, memory: str | None = None
) -> tuple[Written, Mapping[str, int]]:
    """Through the gate, then through the embedder where needed, then into the store; `memory` is the one to edit.

    Returns what was done, and what was masked on the way.
    """
    kept = await admitted(parts, given)
    return await stored(parts, kept, clearance, commit, memory), kept.redactions


async def stored(parts: Parts, kept: Admitted, clearance: str, commit: Commit, memory: str | None = None) -> Written:
    """What left the gate through the embedder where needed, then into the store; what was masked is counted."""
    write = Write(kept.fields, kept.redactions, clearance)
    text = await parts.lane.run(parts.stores.writer.text_to_embed, write, memory)
    for _ in range(TRIES):
        vectors = None if text is None else (await vectors_of(parts, [text]))[0]
        try:
            written = await parts.lane.run(_committed, parts, commit, write, vectors)
        except NeedsVectors as wanted:
            text = wanted.text
            continue
        parts.meter.count_redactions(kept.redactions)
        return written
    raise Conflict("The memory kept changing meanwhile.", hint="Send the request again.")


def _committed(parts: Parts, commit: Commit, write: Write, vectors: Vectors | None) -> Written:
    """Make a write and tell of it. Called in the lane."""
    written = commit(parts.stores.writer, write, vectors, parts.clock.now())
    announce.written(parts.events, written)
    return written


def remembered(parts: Parts, written: Written, redactions: Mapping[str, int]) -> Remembered:
    """The answer to a `remember`, and its count where the memory came back."""
    memory = written.memory
    result: Remembered = {
        "id": memory.id, "created": written.created, "version": memory.version, "sensitivity": memory.sensitivity,
        "redactions": dict(redactions),
    }  # fmt: skip
    if not written.restored:
        return result
    parts.meter.count_restored(1)
    return {**result, "restored": True}


METHODS: Final = (
    Method("remember", "write", RememberParams, Remembered, remember, True, "Remember a text.", ("content",)),
    Method(
        "update",
        "write",
        UpdateParams,
        MemoryShape,
        update,
        True,
        "Edit a memory; what is not given stays.",
        ("id", "content"),
    ),
    Method(
        "revert",
        "write",
        RevertParams,
        MemoryShape,
        revert,
        True,
        "Edit a memory back to a former version.",
        ("id", "version"),
    ),
    Method("pin", "write", IdParams, MemoryShape, pin, True, "Protect a memory from decay and demotion.", ("id",)),
    Method("unpin", "write", IdParams, MemoryShape, unpin, True, "Let a memory fade again.", ("id",)),
    Method(
        "set_emotion",
        "write",
        EmotionParams,
        MemoryShape,
        set_emotion,
        True,
        "Say how strongly a memory is felt, 0..1.",
        ("id", "emotion"),
    ),
    Method(
        "set_tier",
        "write",
        TierParams,
        MemoryShape,
        set_tier,
        True,
        "Say how long a memory is kept: core, long or short.",
        ("id", "tier"),
    ),
)
