"""The parts of a running daemon that a method may use, put together once in `daemon.app`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from daemon.clock import Clock
from daemon.config import Config
from daemon.runner import Runner
from storage.fading import Retention
from storage.gate import Gate
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.store import Stores


@dataclass(slots=True)
class Health:
    """What is not as it should be: a reason by name, with what happened and the next command to run."""

    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)

    def degrade(self, name: str, detail: str, hint: str) -> None:
        """Say that something is wrong until `mend` says it is not."""
        self.reasons[name] = (detail, hint)

    def mend(self, name: str) -> None:
        """Say that it is well again."""
        self.reasons.pop(name, None)


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened since the start, for the counters of the metrics."""

    redactions: dict[str, int] = field(default_factory=dict)
    forgotten: dict[str, int] = field(default_factory=dict)
    restored: int = 0
    recall_hits: list[int] = field(default_factory=list)
    last_write_at: float = 0.0

    def add(self, table: dict[str, int], more: Any) -> None:
        """Add counts by kind."""
        for kind, count in dict(more).items():
            table[kind] = table.get(kind, 0) + count


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a handler needs; `lane` is the only way to `stores`, `embedding` the only way to `gate`."""

    config: Config
    clock: Clock
    stores: Stores
    lane: Lane
    gate: Gate
    embedding: Lane
    learn: LearnBuffer
    runner: Runner
    retention: Retention
    health: Health
    counts: Counts
    engine_name: str
    embedder_name: str
    started_at: float  # monotonic
    next_runs: Callable[[], Mapping[str, float]]  # when each scheduled job runs next
