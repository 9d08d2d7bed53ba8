"""Methods on the daemon itself."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version as installed
from typing import Final

from typing_extensions import TypedDict

from daemon import __version__
from daemon.parts import Parts
from daemon.wire import Empty, Method
from jobs.undo import stands
from storage.instants import format_instant
from storage.ledger import Run
from storage.store import Stores

#: How a night ended that took place, whatever came of it.
TAKEN_PLACE: Final = ("changed", "unchanged", "cancelled", "failed")


class Reason(TypedDict):
    """Something that is not as it should be, and the next command to run."""

    name: str
    detail: str
    hint: str


class HealthShape(TypedDict):
    """`degraded` lists its reasons; whenever this answers, the daemon serves."""

    status: str
    reasons: list[Reason]
    version: str
    pid: int
    uptime_s: float
    memories: int
    bin: int
    edges: int
    engine: str
    embedder: str
    socket: str
    state_dir: str
    paused: bool
    running: str | None
    last_night: str | None
    last_night_outcome: str | None
    last_night_undone: bool


class VersionInfo(TypedDict):
    """What runs here."""

    version: str
    python: str
    engine: str
    embedder: str


async def health(parts: Parts, params: Empty) -> HealthShape:
    """How the daemon is, and what to do where it is not well."""
    del params
    night, expired = await parts.lane.run(_look, parts.stores, parts.clock.now())
    reasons: list[Reason] = [
        {"name": name, "detail": detail, "hint": hint} for name, (detail, hint) in sorted(parts.health.reasons.items())
    ]
    return {
        "status": "degraded" if reasons else "ok", "reasons": reasons, "version": __version__, "pid": os.getpid(),
        "uptime_s": round(parts.clock.monotonic() - parts.started_at, 1), "memories": len(parts.stores.catalogue) - expired,
        "bin": parts.stores.catalogue.gone_count, "edges": len(parts.stores.synapses), "engine": parts.engine_name,
        "embedder": parts.embedder_name, "socket": str(parts.config.socket), "state_dir": str(parts.config.state_dir),
        "paused": parts.runner.paused, "running": parts.runner.running,
        "last_night": None if night is None else format_instant(night.started_at),
        "last_night_outcome": None if night is None else night.outcome,
        "last_night_undone": night is not None and not stands(parts.stores.ledger, night),
    }  # fmt: skip


def _look(stores: Stores, now: float) -> tuple[Run | None, int]:
    """The last night, and how many live memories are past their end. Called in the lane."""
    ends = (row.expires_at for row in stores.catalogue.rows())
    return stores.ledger.last_run("night", outcomes=TAKEN_PLACE), sum(end is not None and end <= now for end in ends)


async def version(parts: Parts, params: Empty) -> VersionInfo:
    """What runs here."""
    del params
    engine = f"{parts.engine_name} {installed('qdrant-edge-py')}"
    return {
        "version": __version__,
        "python": platform.python_version(),
        "engine": engine,
        "embedder": parts.embedder_name,
    }


METHODS: Final = (
    Method("health", "care", Empty, HealthShape, health, False, "Show how the daemon is."),
    Method("version", "care", Empty, VersionInfo, version, False, "Show what runs here."),
)
