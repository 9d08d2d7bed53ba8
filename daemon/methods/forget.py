"""Methods that take memories away, and bring them back."""

from __future__ import annotations

import asyncio
from typing import Final, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from daemon import announce, shapes
from daemon.methods.write import IdParams
from daemon.parts import Parts
from daemon.shapes import MemoryShape
from daemon.wire import Id, Method, Writing
from storage import forget as forgetting
from storage.errors import Invalid
from storage.snapshots import holding

MAX_IDS: Final = 1_000  # moved in one lane call, a third of a second


class ForgetParams(Writing):
    """What to forget."""

    id: Id | None = Field(default=None, description="One memory's id.")
    ids: list[Id] | None = Field(default=None, max_length=MAX_IDS, description="Or the ids of several.")
    hard: bool = Field(
        default=False, description="Erase everywhere at once instead of moving to the bin; cannot be taken back."
    )
    superseded_by: Id | None = Field(default=None, description="The live memory that takes its place; history is kept.")


class Forgotten(TypedDict):
    """The ids that were forgotten, and those that do not exist; of what was erased, how many snapshots may still hold it.

    What merges had made part of an erased memory is forgotten with it. What it took the place of otherwise stays
    (`superseded`, where there is any), and so does the memory that it had itself become part of (`merged_into`).
    """

    forgotten: list[str]
    missing: list[str]
    superseded: NotRequired[list[str]]
    merged_into: NotRequired[list[str]]
    snapshots: NotRequired[int]


async def forget(parts: Parts, params: ForgetParams) -> Forgotten:
    """Move memories to the bin, or erase them."""
    ids = params.ids if params.id is None else [params.id]
    if ids is None or (params.id is not None and params.ids is not None):
        raise Invalid("Give either `id` or `ids`.", hint="dreamctl forget ID", field="id")
    done, left, since = await parts.lane.run(_forget, parts, params, ids)
    reason = "hard" if params.hard else "superseded" if params.superseded_by else "request"
    parts.meter.count_forgotten(reason, left)
    result: Forgotten = {"forgotten": done.forgotten, "missing": done.missing}
    if done.superseded:
        result["superseded"] = [*done.superseded]
    if done.merged_into:
        result["merged_into"] = [*done.merged_into]
    if params.hard:
        result["snapshots"] = await asyncio.to_thread(holding, parts.config.state_dir, since)
    return result


def _forget(parts: Parts, params: ForgetParams, ids: list[str]) -> tuple[forgetting.Forgotten, int, float]:
    """What was forgotten, how many live memories that took away, and when the oldest of it was made. Called in the lane."""
    catalogue, now = parts.stores.catalogue, parts.clock.now()
    live = len(catalogue)
    done = forgetting.forget(
        parts.stores, ids, now, params.clearance, hard=params.hard, superseded_by=params.superseded_by
    )
    announce.taken(parts.events, catalogue, done.rows)
    for row in map(catalogue.get, done.missing):
        if row is not None:  # it is there, and above the caller's clearance
            parts.meter.count_egress_refused(row.sensitivity)
    since = min((row.created_at for row in done.rows), default=now)
    return done, live - len(catalogue), since


async def restore(parts: Parts, params: IdParams) -> MemoryShape:
    """Bring a memory back out of the bin."""
    shape, back = await parts.lane.run(_restore, parts, params)
    parts.meter.count_restored(back)
    return shape


def _restore(parts: Parts, params: IdParams) -> tuple[MemoryShape, int]:
    """The memory, and how many came back: none where it was live already. Called in the lane."""
    live = len(parts.stores.catalogue)
    row = forgetting.restore(parts.stores, params.id, params.clearance, parts.clock.now())
    back = len(parts.stores.catalogue) - live
    if back:
        parts.events.emit("restored", row.scope, [row.id])
    return shapes.memory(parts.stores.memories.read_one(row.id)), back


METHODS: Final = (
    Method(
        "forget",
        "write",
        ForgetParams,
        Forgotten,
        forget,
        True,
        "Move memories to the bin, or erase them with --hard.",
        ("ids",),
    ),
    Method("restore", "write", IdParams, MemoryShape, restore, True, "Bring a memory back out of the bin.", ("id",)),
)
