"""Methods that write memories: remember, update, forget and what takes them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NotRequired, TypedDict

from pydantic import Field

from daemon import problem, shapes
from daemon.parts import Parts
from daemon.shapes import MemoryShape
from daemon.wire import Cleared, Id, Instant, Method, Sensitivity, Share, Source, Tier, Type, validated
from storage import forget as forgetting
from storage.errors import Conflict, DreamdError, Invalid, NotFound
from storage.graph import visible
from storage.memories import Vectors
from storage.model import Memory
from storage.remember import NeedsVectors, Write, Writer, Written

MAX_ITEMS: Final = 10_000
SLICE: Final = 32  # items embedded and stored in one go
TRIES: Final = 3  # a write that meets another writer looks again so often


class Fields(Cleared):
    """What a memory may be given; what is absent keeps its value or takes its default."""

    content: str | None = Field(default=None, description="The text to remember, at most 256 KiB.")
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
    request_id: str | None = Field(default=None, max_length=128, description="Makes a retry safe for 24 hours.")

    def given(self) -> dict[str, Any]:
        """The fields that were given."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"clearance", "request_id", "if_version"}}


class RememberParams(Fields):
    """One memory to remember."""

    content: str = Field(description="The text to remember, at most 256 KiB.")
    id: Id | None = Field(default=None, description="An id of your own; the same id again updates.")
    connect_to: list[Id] | None = Field(
        default=None, max_length=64, description="Memories of this scope to connect it to."
    )


class UpdateParams(Fields):
    """An edit of one memory."""

    id: Id
    if_version: int | None = Field(
        default=None, description="Refuse with `conflict` unless it is still at this version."
    )


class RememberManyParams(Cleared):
    """Many memories; a bad one never stops the rest."""

    items: list[dict[str, Any]] = Field(max_length=MAX_ITEMS, description="Each as the params of `remember`.")
    request_id: str | None = Field(default=None, max_length=128)


class ForgetParams(Cleared):
    """What to forget."""

    id: Id | None = None
    ids: list[Id] | None = Field(default=None, max_length=MAX_ITEMS)
    hard: bool = Field(
        default=False, description="Erase everywhere at once instead of moving to the bin; cannot be taken back."
    )
    superseded_by: Id | None = Field(default=None, description="The live memory that takes its place; history is kept.")
    request_id: str | None = Field(default=None, max_length=128)


class IdParams(Cleared):
    """One memory."""

    id: Id
    request_id: str | None = Field(default=None, max_length=128)


class RevertParams(IdParams):
    """A former version to go back to."""

    version: int = Field(ge=1, description="Its number in `history`.")


class EmotionParams(IdParams):
    """A new emotion."""

    emotion: Share = Field(description="0..1")


class TierParams(IdParams):
    """A new retention class."""

    tier: Tier


class Remembered(TypedDict):
    """What `remember` did."""

    id: str
    created: bool
    restored: NotRequired[bool]
    version: int
    sensitivity: str
    redactions: dict[str, int]


class RememberedMany(TypedDict):
    """A result or a problem for each item, in their order."""

    results: list[dict[str, Any]]
    created: int
    failed: int


class ForgottenShape(TypedDict):
    """The ids that were forgotten and those that do not exist; `snapshots` that still hold what was erased hard."""

    forgotten: list[str]
    missing: list[str]


Commit = Callable[[Writer, Write, Vectors | None, float], Written]


async def remember(parts: Parts, params: RememberParams) -> Remembered:
    """Keep one memory."""
    new_id = parts.clock.new_id()
    return _remembered(parts, await _write(parts, params.given(), params.clearance, _remember_as(new_id)))


async def update(parts: Parts, params: UpdateParams) -> MemoryShape:
    """Edit one memory."""
    given = params.given()
    memory = given.pop("id")
    await parts.lane.run(visible, parts.stores, memory, params.clearance)

    def commit(writer: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
        return writer.update(memory, write, vectors, now, if_version=params.if_version)

    written = await _write(parts, given, params.clearance, commit)
    return shapes.memory(await parts.lane.run(parts.stores.memories.read_one, written.memory.id))


async def remember_many(parts: Parts, params: RememberManyParams) -> RememberedMany:
    """Keep many memories, a slice at a time; each item has its own result or problem."""
    results: list[dict[str, Any]] = []
    for start in range(0, len(params.items), SLICE):
        results += await _slice(parts, params.items[start : start + SLICE], params.clearance)
    failed = sum("kind" in result for result in results)
    return {"results": results, "created": sum(result.get("created", False) for result in results), "failed": failed}


async def forget(parts: Parts, params: ForgetParams) -> ForgottenShape:
    """Move memories to the bin, or erase them."""
    ids = params.ids if params.ids is not None else [params.id] if params.id is not None else None
    if ids is None or (params.ids is not None and params.id is not None):
        raise Invalid("Give either `id` or `ids`.", hint="dreamctl forget ID", field="id")

    def do() -> forgetting.Forgotten:
        return forgetting.forget(
            parts.stores, ids, parts.clock.now(), params.clearance, hard=params.hard, superseded_by=params.superseded_by
        )

    done = await parts.lane.run(do)
    reason = "hard" if params.hard else "superseded" if params.superseded_by else "request"
    parts.counts.add(parts.counts.forgotten, {reason: len(done.forgotten)})
    _wrote(parts)
    return {"forgotten": done.forgotten, "missing": done.missing}


async def restore(parts: Parts, params: IdParams) -> MemoryShape:
    """Bring a memory back out of the bin."""
    row = await parts.lane.run(forgetting.restore, parts.stores, params.id, params.clearance)
    parts.counts.restored += 1
    _wrote(parts)
    return shapes.memory(await parts.lane.run(parts.stores.memories.read_one, row.id))


async def revert(parts: Parts, params: RevertParams) -> MemoryShape:
    """Edit a memory back to what a former version said."""
    await parts.lane.run(visible, parts.stores, params.id, params.clearance)
    versions = await parts.lane.run(parts.stores.records.versions, params.id)
    version = next((one for one in versions if one.number == params.version), None)
    if version is None:
        raise NotFound(
            f"Memory {params.id!r} has no former version {params.version}.", hint=f"dreamctl history {params.id}"
        )
    given = {
        "content": version.content,
        "context": version.context,
        "type": version.type,
        "tags": list(version.tags),
        "metadata": version.metadata,
    }

    def commit(writer: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
        return writer.update(params.id, write, vectors, now)

    written = await _write(parts, given, params.clearance, commit)
    return shapes.memory(await parts.lane.run(parts.stores.memories.read_one, written.memory.id))


async def pin(parts: Parts, params: IdParams) -> MemoryShape:
    """Protect a memory from decay and demotion."""
    return await _set(parts, params, {"pinned": True})


async def unpin(parts: Parts, params: IdParams) -> MemoryShape:
    """Let a memory fade again."""
    return await _set(parts, params, {"pinned": False})


async def set_emotion(parts: Parts, params: EmotionParams) -> MemoryShape:
    """Say how strongly a memory is felt."""
    return await _set(parts, params, {"emotion": params.emotion})


async def set_tier(parts: Parts, params: TierParams) -> MemoryShape:
    """Say how long a memory is kept."""
    return await _set(parts, params, {"tier": params.tier})


async def _set(parts: Parts, params: IdParams, given: dict[str, Any]) -> MemoryShape:
    def commit(writer: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
        return writer.update(params.id, write, vectors, now)

    await _write(parts, given, params.clearance, commit)
    return shapes.memory(await parts.lane.run(parts.stores.memories.read_one, params.id))


async def _write(parts: Parts, given: Mapping[str, Any], clearance: str, commit: Commit) -> Written:
    """Through the gate, then through the embedder where needed, then into the store."""
    admitted = await parts.embedding.run(parts.gate.admit, given)
    write = Write(admitted.fields, admitted.redactions, clearance)
    text = await parts.lane.run(parts.stores.writer.text_to_embed, write)
    for _ in range(TRIES):
        vectors = None if text is None else (await parts.embedding.run(parts.gate.vectors, [text]))[0]
        try:
            written = await parts.lane.run(commit, parts.stores.writer, write, vectors, parts.clock.now())
        except NeedsVectors as wanted:
            text = wanted.text
            continue
        await _acknowledge(parts)
        parts.counts.add(parts.counts.redactions, admitted.redactions)
        return written
    raise Conflict("The memory kept changing meanwhile.", hint="Send the request again.")


async def _slice(parts: Parts, items: list[dict[str, Any]], clearance: str) -> list[dict[str, Any]]:
    """Admit, embed and store a few items together."""
    results: list[dict[str, Any]] = [{} for _ in items]
    writes: dict[int, Write] = {}
    for number, item in enumerate(items):
        try:
            params = validated(RememberParams, {"clearance": clearance, **item})
            admitted = await parts.embedding.run(parts.gate.admit, params.given())
        except DreamdError as error:
            results[number] = problem.document(error)
        else:
            writes[number] = Write(admitted.fields, admitted.redactions, params.clearance)
    texts = await parts.lane.run(
        lambda: {number: parts.stores.writer.text_to_embed(write) for number, write in writes.items()}
    )
    wanted = {number: text for number, text in texts.items() if text is not None}
    vectors = (
        dict(zip(wanted, await parts.embedding.run(parts.gate.vectors, list(wanted.values())), strict=True))
        if wanted
        else {}
    )
    for number, outcome in (await parts.lane.run(_store_slice, parts, writes, vectors)).items():
        results[number] = (
            problem.document(outcome) if isinstance(outcome, DreamdError) else dict(_remembered(parts, outcome))
        )
        if isinstance(outcome, Written):
            parts.counts.add(parts.counts.redactions, writes[number].redactions)
    await _acknowledge(parts)
    return results


def _store_slice(
    parts: Parts, writes: Mapping[int, Write], vectors: Mapping[int, Vectors]
) -> dict[int, Written | DreamdError]:
    """Store the items of a slice one by one, in the lane."""
    outcomes: dict[int, Written | DreamdError] = {}
    for number, write in writes.items():
        try:
            commit = _remember_as(parts.clock.new_id())
            outcomes[number] = commit(parts.stores.writer, write, vectors.get(number), parts.clock.now())
        except DreamdError as error:
            outcomes[number] = error
        except NeedsVectors:
            outcomes[number] = Conflict("The memory changed meanwhile.", hint="Send this item again.")
    return outcomes


def _remember_as(new_id: str) -> Commit:
    def commit(writer: Writer, write: Write, vectors: Vectors | None, now: float) -> Written:
        return writer.remember(write, vectors, now, new_id)

    return commit


async def _acknowledge(parts: Parts) -> None:
    """In the engine's log a write survives a kill of the process; `durability = "power"` waits for the disk as well."""
    if parts.config.storage.durability == "power":
        await parts.lane.run(parts.stores.engine.flush)
    _wrote(parts)


def _wrote(parts: Parts) -> None:
    parts.counts.last_write_at = parts.clock.now()


def _remembered(parts: Parts, written: Written) -> Remembered:
    memory: Memory = written.memory
    if written.restored:
        parts.counts.restored += 1
    result: Remembered = {
        "id": memory.id, "created": written.created, "version": memory.version, "sensitivity": memory.sensitivity,
        "redactions": memory.redactions,
    }  # fmt: skip
    return {**result, "restored": True} if written.restored else result


METHODS: Final = (
    Method("remember", "write", RememberParams, Remembered, remember, True, "Remember a text.", ("content",)),
    Method(
        "remember_many",
        "write",
        RememberManyParams,
        RememberedMany,
        remember_many,
        True,
        "Remember many texts; a bad one never stops the rest.",
    ),
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
        "forget",
        "write",
        ForgetParams,
        ForgottenShape,
        forget,
        True,
        "Move memories to the bin, or erase them with --hard.",
        ("ids",),
    ),
    Method("restore", "write", IdParams, MemoryShape, restore, True, "Bring a memory back out of the bin.", ("id",)),
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
