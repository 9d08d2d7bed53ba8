"""The method that looks ahead: the coming days and nights, lived through on a copy of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import Field
from typing_extensions import TypedDict

from daemon.methods.snapshots import copied_whole
from daemon.parts import Parts
from daemon.simulation import Order
from daemon.wire import Cleared, Method
from jobs.simulate import RECALLS_A_DAY, Recalls
from storage.edge_files import allocated_bytes, require_room
from storage.snapshots import dropped
from storage.swap import STORE

LABEL: Final = "simulation"
MAX_DAYS: Final = 3_650
SPARE: Final = 2  # times the reserve stay free on the disk: a look ahead is the first to find no room, not the last
_MIB: Final = 1 << 20


class SimulateParams(Cleared):
    """How far to look ahead, and what is asked for meanwhile."""

    days: int = Field(ge=1, le=MAX_DAYS, description="How many days, each with a night.")
    recalls: Recalls = Field(
        default="zipf", description="What is asked for: a few memories often, each alike, or nothing."
    )
    recalls_a_day: int = Field(default=RECALLS_A_DAY, ge=1, le=1_000, description="How many recalls a day.")


class SimulatedDay(TypedDict):
    """What a day and its night did, and what there is after them, of the memories that the caller may see.

    `faded` and `expired` went to the bin, `merged` into others; `returned` were needed and came back from the bin, `lost`
    were needed for the first time after they had been purged. `edges` are those between live memories.
    """

    day: int
    at: str
    live: int
    faded: int
    expired: int
    merged: int
    returned: int
    lost: int
    bin: int
    purged: int
    edges: int


class Simulated(TypedDict):
    """The days, in order."""

    days: int
    recalls: str
    rows: list[SimulatedDay]


async def simulate(
    parts: Parts, params: SimulateParams, progress: Callable[[dict[str, Any]], None] | None = None
) -> Simulated:
    """Live through the coming days on a copy: the store itself is only read."""
    parts.stores.check_writable()  # of a damaged one nothing can be told

    def tell(done: int) -> None:
        if progress is not None:
            progress({"job": "simulate", "done": done, "total": params.days})

    with parts.simulator.turn(params.days):
        async with _copy(parts) as folder:
            rows = await parts.simulator.run(_order(parts, params, folder), tell)
    return {"days": params.days, "recalls": params.recalls, "rows": rows}


def _order(parts: Parts, params: SimulateParams, folder: Path) -> Order:
    return Order(
        folder=folder, now=parts.clock.now(), days=params.days, recalls=params.recalls, recalls_a_day=params.recalls_a_day,
        clearance=params.clearance, settings=parts.runner.settings, weights=parts.stores.recaller.weights,
        default_sensitivity=parts.config.sensitivity.default, reserve_mb=SPARE * parts.config.storage.reserve_mb,
    )  # fmt: skip


@asynccontextmanager
async def _copy(parts: Parts) -> AsyncIterator[Path]:
    """A folder with the store and the ledger as they are now, where the next start looks for scrap; gone at the end."""
    await asyncio.to_thread(_require_room, parts)
    copying = asyncio.ensure_future(parts.lane.run(copied_whole, parts, LABEL))
    try:
        yield (await asyncio.shield(copying)).folder
    finally:
        draft = await copying  # a call in the lane is made, whoever stopped waiting for it
        await asyncio.to_thread(dropped, draft.folder)


def _require_room(parts: Parts) -> None:
    """The copy, as much again for what the days write, and the spare. Raises Unavailable."""
    state = parts.config.state_dir
    held = allocated_bytes(state / STORE) + parts.stores.ledger.path.stat().st_size
    require_room(state, 2 * held + SPARE * parts.config.storage.reserve_mb * _MIB)


METHODS: Final = (
    Method(
        "simulate", "night", SimulateParams, Simulated, simulate, False,
        "Show what would live, fade and return in the coming days.", ("days",), streams=True, leaves=True,
    ),
)  # fmt: skip
