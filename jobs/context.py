"""What a job gets, and what it gives back.

A job is one file: a pure `plan(...)` and a thin `run(ctx) -> Report`. `ctx.now` is one instant for the whole run; the dice
are seeded and the seed is recorded. Store calls go through the lane behind the requests, in batches; between batches
`ctx.stopping()` says whether to end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from storage.changes import BATCH, Applied, Change
from storage.fading import Retention
from storage.lane import Lane
from storage.learn import Learned
from storage.store import Stores

T = TypeVar("T")

EXAMPLES: Final = 10  # shown of what a run did, with reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The part of the configuration that jobs read."""

    retention: Retention = field(default_factory=Retention)
    bin_days: float = 30.0
    ceiling: float = 0.05  # of a scope in any 24 hours
    sweep_days: float = 14.0
    undo_days: float = 30.0
    history_days: float = 365.0
    near: float = 0.6  # cosine from which a dream links two memories; belongs to the embedder


class Report(NamedTuple):
    """What a run did, or in a dry run would do: counts, a few examples with reasons, and why it did less."""

    counts: dict[str, int]
    examples: Sequence[dict[str, Any]] = ()
    changed: int = 0
    reason: str | None = None  # of a run that was skipped or held back
    stopped: bool = False  # ended early at a checkpoint


@dataclass(slots=True, kw_only=True)
class Context:
    """One run of one job."""

    stores: Stores
    lane: Lane
    settings: Settings
    run_id: str
    now: float
    rng: random.Random
    dry_run: bool
    stopping: Callable[[], bool]
    progress: Callable[[int, int], None]
    learned: Callable[..., Learned]
    scope: str = "*"
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of this one run, checked by the wire

    def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Make one call in the lane, behind the requests."""
        return self.lane.call(function, *arguments)

    def apply(self, changes: Sequence[Change]) -> Applied:
        """Journal and make the changes in batches; in a dry run, none. Ends between batches when asked to stop."""
        applied = Applied()
        if self.dry_run:
            return applied
        for start in range(0, len(changes), BATCH):
            if self.stopping():
                break
            applied.extend(self.read(self.stores.changer.apply, self.run_id, changes[start : start + BATCH], self.now))
            self.progress(min(start + BATCH, len(changes)), len(changes))
        return applied
