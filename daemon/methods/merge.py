"""Merging two memories by hand."""

from __future__ import annotations

from functools import partial
from typing import Final

from pydantic import Field

from daemon import shapes
from daemon.parts import Parts
from daemon.shapes import MemoryShape
from daemon.wire import Id, Method, Writing
from jobs import hebbian
from storage import merge as merging
from storage.changes import Change


class MergeParams(Writing):
    """Two memories of one scope that say the same."""

    survivor: Id = Field(description="The memory that stays, with its text.")
    duplicate: Id = Field(description="The memory that becomes part of it and goes to the bin as superseded.")


class Merged(MemoryShape):
    """The survivor, and the run that `undo` takes back."""

    run_id: str


async def merge(parts: Parts, params: MergeParams) -> Merged:
    """Make two memories one; nothing that hung on either is lost."""
    await _fold(parts, {params.survivor, params.duplicate})
    answer = partial(parts.stores.memories.read_one, params.survivor)
    run, survivor = await parts.runner.act("merge", partial(_plan, parts, params), answer)
    parts.meter.count_forgotten("superseded", 1)
    return {**shapes.memory(survivor), "run_id": run.id}


def _plan(parts: Parts, params: MergeParams, now: float) -> list[Change]:
    """Called in the lane."""
    return merging.intended(parts.stores, params.survivor, params.duplicate, params.clearance, now)


async def _fold(parts: Parts, memories: set[str]) -> None:
    """Store what recalls have just taught of these memories: their accesses are to be added up."""
    if memories.isdisjoint(parts.learn.take(keep=True).accesses):
        return
    for part in hebbian.slices(parts.learn.take()):
        await parts.lane.run(hebbian.fold, parts.stores, part, parts.clock.now(), None)


METHODS: Final = (
    Method(
        "merge",
        "write",
        MergeParams,
        Merged,
        merge,
        True,
        "Make two memories one; the first keeps its text.",
        ("survivor", "duplicate"),
    ),
)
