"""What a job gets, and what it gives back.

A job is one file: a pure `plan(...)` and a thin `run(ctx) -> Report`. `ctx.now` is one instant for the whole run; the dice
are seeded and the seed is recorded. Store calls go through the lane behind the requests, in batches small enough that a
request never waits long for one; between batches `ctx.must_stop()` says whether to end. The ledger has a lock of its own:
what is long there and needs nothing of the store is noted straight in it. A run that was given up writes nowhere any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from zoneinfo import ZoneInfo

from storage.changes import Applied, Change, Move
from storage.errors import Corrupt
from storage.fading import Retention
from storage.gate import Admitted
from storage.lane import Lane, Stopping
from storage.learn import Learned
from storage.ledger import SLICE
from storage.memories import BIN, LIVE, Vectors
from storage.model import EVERY_SCOPE
from storage.store import Stores

T = TypeVar("T")

BATCH: Final = 32  # changes made in one lane call: of moves, the dearest, 15 ms at 20,000 memories
EXAMPLES: Final = 10  # shown of what a run did, with reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The part of the configuration that jobs and their runner read."""

    retention: Retention = field(default_factory=Retention)
    bin_days: float = 30.0
    ceiling: float = 0.05  # of a scope in any 24 hours
    sweep_days: float = 14.0
    undo_days: float = 30.0
    history_days: float = 365.0
    near: float = 0.6  # cosine from which a dream links two memories; belongs to the embedder
    propose: float = 0.75  # cosine from which `dedup` proposes two memories; belongs to the embedder
    left_out: frozenset[str] = frozenset()  # jobs that are not part of the night
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))  # in which days begin
    made_by: Mapping[str, str] = field(default_factory=dict)  # the versions that a snapshot names as its makers
    reserve_mb: int = 256  # what is to stay free on the disk


class Report(NamedTuple):
    """What a run did, or in a dry run would do: counts, a few examples with reasons, and why it did less."""

    counts: dict[str, int]
    examples: Sequence[dict[str, Any]] = ()
    changed: int = 0
    reason: str | None = None


class Texts(Protocol):
    """The write gate and the embedder, for the jobs' thread; both work behind the requests."""

    def admit(self, given: Mapping[str, Any]) -> Admitted:
        """The fields of a write through the gate. Raises Invalid or TooLarge."""

    def vectors(self, texts: Sequence[str]) -> list[Vectors]:
        """Both vectors of each text. Raises Unavailable where the embedder is away or the daemon stops."""


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
    texts: Texts
    pace: Callable[[], object] = lambda: None  # waits a moment before a batch while requests come
    scope: str = EVERY_SCOPE
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of this one run, checked by the wire
    cut_short: bool = False  # it was told to stop before it was through
    given_up: bool = False  # nobody waits for it any more

    def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Make one call in the lane, behind the requests. Raises Stopping where the run was given up meanwhile."""
        self.pace()
        return self.lane.call(partial(self._unless_given_up, function), *arguments)

    def read_in_turns(self, work: Generator[None, None, T]) -> T:
        """Make a long call turn by turn, each as `read` does."""
        return self.lane.call_in_turns(self._turns(work))

    def note(self, function: Callable[..., T], *arguments: Any) -> T:
        """Write straight to the ledger, all or nothing, beside the lane. Raises Stopping where the run was given up meanwhile.

        Whoever needs the ledger waits for it, the lane too.
        """
        self.pace()
        with self.stores.ledger.transaction():
            return self._unless_given_up(function, *arguments)

    def note_in_slices(self, function: Callable[[Sequence[T]], object], rows: Sequence[T]) -> None:
        """Write rows straight to the ledger, some hundred at a time so that nobody waits long, each slice as `note` does."""
        for start in range(0, len(rows), SLICE):
            self.note(function, rows[start : start + SLICE])

    def give_up(self) -> None:
        """Refuse the run store and ledger from now on: it ended without its thread, which hangs somewhere.

        That is asked in the lane, and behind the ledger's lock: nothing is written after the run's end was recorded, neither
        what is asked for later nor what waited its turn.
        """
        self.given_up = True
        self.progress = _unheard

    def _unless_given_up(self, function: Callable[..., T], *arguments: Any) -> T:
        if self.given_up:
            raise Stopping
        return function(*arguments)

    def _turns(self, work: Generator[None, None, T]) -> Generator[None, None, T]:
        while True:
            try:
                self._unless_given_up(next, work)
            except StopIteration as end:
                return cast("T", end.value)
            yield

    def apply_as_one(self, changes: Sequence[Change]) -> Applied:
        """Journal and make changes that belong together in one lane call; in a dry run what could be made counts as done."""
        return self._would_apply(changes) if self.dry_run else self.read(self._apply, changes)

    def must_stop(self) -> bool:
        """Whether to end here, at a checkpoint; to be asked only while there is something left to do."""
        self.cut_short = self.cut_short or self.stopping()
        return self.cut_short

    def apply(self, changes: Sequence[Change], *, tell: bool = True) -> Applied:
        """Journal and make the changes in batches, ending between two when told to; in a dry run what could be made is done.

        `tell` passes the progress on; a job that applies its plan part by part tells its own.
        """
        if self.dry_run:
            return self._would_apply(changes)
        applied = Applied()
        for start in range(0, len(changes), BATCH):
            if self.must_stop():
                break
            applied.extend(self.read(self._apply, changes[start : start + BATCH]))
            if tell:
                self.progress(min(start + BATCH, len(changes)), len(changes))
        return applied

    def _apply(self, changes: Sequence[Change]) -> Applied:
        """One batch, in the lane."""
        wanted = self._would_apply(changes)
        applied = self.stores.changer.apply(self.run_id, wanted.done, self.now)
        applied.skipped += wanted.skipped
        return applied

    def _would_apply(self, changes: Sequence[Change]) -> Applied:
        """What of it may be made: what was recalled and not yet folded is in use, and stays where it is."""
        in_use = self.learned(keep=True).accesses if any(isinstance(change, Move) for change in changes) else {}
        stays = [isinstance(change, Move) and change.memory in in_use for change in changes]
        return Applied(
            done=[change for change, left in zip(changes, stays, strict=True) if not left],
            skipped=[change for change, left in zip(changes, stays, strict=True) if left],
        )


def _unheard(_done: int, _total: int) -> None:
    """Nobody listens to the progress of a run that ended."""


def check_counts(stores: Stores) -> None:
    """Raise Corrupt unless the engine holds as many memories as the catalogue knows of. Called in the lane.

    A run that moves memories asks at its end, so that its report says what is and not what was planned.
    """
    known = {LIVE: len(stores.catalogue), BIN: stores.catalogue.gone_count}
    for collection, count in known.items():
        stored = stores.engine.count(collection)
        if stored != count:
            raise Corrupt(
                f"{collection} holds {stored} memories where {count} are known.",
                hint="dreamctl doctor, then restart dreamd",
            )
