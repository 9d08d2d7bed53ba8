"""Warming and cooling a memory by hand, a step at a time. It is no access, and `demote` goes on from there."""

from __future__ import annotations

from typing import Any, Final, NotRequired, cast

from daemon import shapes
from daemon.methods.write import IdParams
from daemon.parts import Parts
from daemon.shapes import MemoryShape
from daemon.wire import Method
from storage.model import HEATS, Memory


class Warmed(MemoryShape):
    """The memory, and whether its heat changed; the note says why where it did not."""

    changed: bool
    note: NotRequired[str]


async def promote_heat(parts: Parts, params: IdParams) -> Warmed:
    """One step warmer: cold, warm, hot."""
    return await _move(parts, params, +1)


async def demote_heat(parts: Parts, params: IdParams) -> Warmed:
    """One step colder: hot, warm, cold."""
    return await _move(parts, params, -1)


async def _move(parts: Parts, params: IdParams, step: int) -> Warmed:
    memory, changed = await parts.lane.run(_moved, parts, params, step)
    told: dict[str, Any] = {"changed": changed}
    if not changed:
        told["note"] = f"It is {memory.heat} already; there is no further step."
    return cast("Warmed", shapes.memory(memory) | told)


def _moved(parts: Parts, params: IdParams, step: int) -> tuple[Memory, bool]:
    """The memory, and whether there was a step to make, which is told. Called in the lane."""
    memories = parts.stores.memories
    row = memories.live(params.id, params.clearance, parts.clock.now())
    place = HEATS.index(row.heat) + step
    changed = 0 <= place < len(HEATS)
    if changed:
        fields: dict[str, Any] = {"heat": HEATS[place]}
        if step < 0:  # else the accesses that made it hot would make it hot again in the next night
            fields["cooled_at_count"] = row.access_count
        memories.patch({row.id: fields})
        parts.events.emit("heat_changed", row.scope, [row.id])
    return memories.read_one(row.id), changed


METHODS: Final = (
    Method(
        "promote_heat",
        "write",
        IdParams,
        Warmed,
        promote_heat,
        True,
        "Make a memory one step warmer, up to hot.",
        ("id",),
    ),
    Method(
        "demote_heat",
        "write",
        IdParams,
        Warmed,
        demote_heat,
        True,
        "Make a memory one step colder, down to cold.",
        ("id",),
    ),
)
