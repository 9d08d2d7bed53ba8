"""The parts of a running daemon that a method may use, put together once in `daemon.app`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from daemon.clock import Clock
from daemon.config import Config
from daemon.events import Events
from daemon.health import Health
from daemon.retries import Retries
from daemon.runner import Runner
from daemon.simulator import Simulator
from storage.canaries import Canary
from storage.embed import Embedder, Fingerprint
from storage.errors import DreamdError, NotFound
from storage.fading import Retention
from storage.gate import Gate
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.store import Stores
from storage.tokens import TokenCounter

NO_EMBEDDER: Final = "none"

LoadEmbedder: TypeAlias = Callable[[str, str], Embedder]  # by provider and model


class Asked(Protocol):
    """Where recalls leave the questions that a night is measured by (`daemon.canary`)."""

    def note(self, canary: Canary, embedder: Fingerprint) -> None:
        """Note a question that a person or an agent really asked."""

    async def reconsider(self) -> None:
        """Say anew what the last night was like that was measured and stands."""


class Meter(Protocol):
    """Where methods count what they did (`daemon.metrics`)."""

    def count_redactions(self, by_kind: Mapping[str, int]) -> None:
        """Count the secrets that were masked in what was kept."""

    def count_forgotten(self, reason: str, memories: int) -> None:
        """Count the memories that left the live ones."""

    def count_restored(self, memories: int) -> None:
        """Count the memories that came back."""

    def count_egress_refused(self, sensitivity: str, times: int = 1) -> None:
        """Count what was withheld since it lies above what the caller, or a model, may see."""

    def observe_hits(self, hits: int) -> None:
        """Note how many hits a recall returned."""

    def note_embedder(self, embedder: str) -> None:
        """Note which embedder serves from now on."""

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
    events: Events
    canaries: Asked
    tokens: TokenCounter
    engine_name: str
    load_embedder: LoadEmbedder
    started_at: float  # monotonic
    next_runs: Callable[[], Mapping[str, float]]  # when each scheduled job runs next
    simulator: Simulator = field(default_factory=Simulator)

    @property
    def embedder_name(self) -> str:
        """The provider of the embedder that serves."""
        return NO_EMBEDDER if self.gate.embedder is None else self.gate.embedder.fingerprint.provider

    @property
    def has_embedder(self) -> bool:
        """Whether an embedder was loaded at all."""
        return self.embedder_name != NO_EMBEDDER


def count_withheld(parts: Parts, error: DreamdError) -> None:
    """Count an answer that hides what is there: the caller named a thing above its clearance."""
    if isinstance(error, NotFound) and error.withheld is not None:
        parts.meter.count_egress_refused(error.withheld)
