"""Methods that take memories away, and bring them back."""

from __future__ import annotations

from typing import Final

from pydantic import Field
from typing_extensions import TypedDict

from daemon import shapes
from daemon.methods.write import IdParams
from daemon.parts import Parts
from daemon.shapes import MemoryShape
from daemon.wire import Id, Method, Writing
from storage import forget as forgetting
from storage.errors import Invalid

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
    """The ids that were forgotten, and those that do not exist."""

    forgotten: list[str]
    missing: list[str]


async def forget(parts: Parts, params: ForgetParams) -> Forgotten:
    """Move memories to the bin, or erase them."""
    ids = params.ids if params.id is None else [params.id]
    if ids is None or (params.id is not None and params.ids is not None):
        raise Invalid("Give either `id` or `ids`.", hint="dreamctl forget ID", field="id")
    done, left = await parts.lane.run(_forget, parts, params, ids)
    reason = "hard" if params.hard else "superseded" if params.superseded_by else "request"
    parts.meter.count_forgotten(reason, left)
    return {"forgotten": done.forgotten, "missing": done.missing}


def _forget(parts: Parts, params: ForgetParams, ids: list[str]) -> tuple[forgetting.Forgotten, int]:
    """What was forgotten, and how many live memories that took away. Called in the lane."""
    live = len(parts.stores.catalogue)
    now = parts.clock.now()
    done = forgetting.forget(
        parts.stores, ids, now, params.clearance, hard=params.hard, superseded_by=params.superseded_by
    )
    return done, live - len(parts.stores.catalogue)


async def restore(parts: Parts, params: IdParams) -> MemoryShape:
    """Bring a memory back out of the bin."""
    shape, back = await parts.lane.run(_restore, parts, params)
    parts.meter.count_restored(back)
    return shape


def _restore(parts: Parts, params: IdParams) -> tuple[MemoryShape, int]:
    """The memory, and how many came back: none where it was live already. Called in the lane."""
    live = len(parts.stores.catalogue)
    row = forgetting.restore(parts.stores, params.id, params.clearance, parts.clock.now())
    return shapes.memory(parts.stores.memories.read_one(row.id)), len(parts.stores.catalogue) - live


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
