"""The parts of a running daemon that a method may use, put together once in `daemon.app`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from daemon.clock import Clock
from daemon.config import Config
from daemon.retries import Retries
from daemon.runner import Runner
from storage.fading import Retention
from storage.gate import Gate
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.store import Stores

NO_EMBEDDER: Final = "none"


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


class Meter(Protocol):
    """Where methods count what they did (`daemon.metrics`)."""

    def count_redactions(self, by_kind: Mapping[str, int]) -> None:
        """Count the secrets that were masked in what was kept."""

    def count_forgotten(self, reason: str, memories: int) -> None:
        """Count the memories that left the live ones."""

    def count_restored(self, memories: int) -> None:
        """Count the memories that came back."""

    def observe_hits(self, hits: int) -> None:
        """Note how many hits a recall returned."""

    def note_write(self, now: float) -> None:
        """Note that a write was acknowledged."""


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
    retries: Retries
    retention: Retention
    health: Health
    meter: Meter
    engine_name: str
    embedder_name: str
    started_at: float  # monotonic
    next_runs: Callable[[], Mapping[str, float]]  # when each scheduled job runs next

    @property
    def has_embedder(self) -> bool:
        """Whether an embedder was loaded at all."""
        return self.embedder_name != NO_EMBEDDER
