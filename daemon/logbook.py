"""How runs are recorded and told, and the runs of a single batch, which all stand or nothing. All of it is called in the lane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from daemon import announce
from daemon.events import Events
from jobs import unfinished
from storage.changes import Change
from storage.errors import DreamdError, Unavailable, command
from storage.ledger import Run
from storage.model import EVERY_SCOPE
from storage.store import Stores

T = TypeVar("T")


class Logbook:
    """Keeps the ledger's runs, and tells events of what they change."""

    def __init__(self, stores: Stores, events: Events) -> None:
        self._stores = stores
        self._events = events
        self._jobs: dict[str, str] = {}  # of the runs under way, by their ids
        stores.changer.watcher = self._tell

    def begin(self, run: Run) -> None:
        """Record that a run begins."""
        self._stores.ledger.start_run(run)
        self._jobs[run.id] = run.job
        if not run.dry_run:
            self._events.emit("job_started", EVERY_SCOPE, [run.id])

    def end(self, run: Run) -> None:
        """Record how it ended."""
        self._jobs.pop(run.id, None)
        self._stores.ledger.end_run(
            run.id, run.ended_at or run.started_at, run.outcome or "failed", reason=run.reason, counts=run.counts,
            examples=run.examples, canary=run.canary,
        )  # fmt: skip
        if not run.dry_run:
            self._events.emit("job_finished", EVERY_SCOPE, [run.id], run.counts)

    def note(self, run: Run) -> None:
        """Record a run that did not take place."""
        with self._stores.ledger.transaction():
            self._stores.ledger.start_run(run)
            self.end(run)

    def act(self, run: Run, plan: Callable[[float], Sequence[Change]], answer: Callable[[], T]) -> tuple[Run, T]:
        """Plan and make a run of one batch; `answer` is asked when it is through, before anybody else's turn.

        Where it fails half way, or a kill comes, what it had written is taken back: at once, or by the next start. What
        `plan` raises is raised, and nothing is recorded; a plan of nothing is not recorded either.
        """
        changes = plan(run.started_at)
        if not changes:
            return run._replace(ended_at=run.started_at, outcome="unchanged"), answer()
        with self._stores.ledger.transaction():
            self.begin(run)
            unfinished.begin(self._stores, run.id)
        try:
            applied = self._stores.changer.apply(run.id, changes, run.started_at)
        except Exception as error:
            self._fail(run, error)
            raise
        counts = {"changed": len(applied.done), "skipped": len(applied.skipped)}
        done = run._replace(ended_at=run.started_at, outcome="changed" if applied.done else "unchanged", counts=counts)
        with self._stores.ledger.transaction():
            unfinished.end(self._stores, run.id)
            self.end(done)
        return done, answer()

    def _fail(self, run: Run, error: Exception) -> None:
        """Take back what a batch wrote that failed. Raises Unavailable where that fails too."""
        reason = error.kind if isinstance(error, DreamdError) else "internal"
        try:
            unfinished.take_back(self._stores, run.id, run.started_at)
        except DreamdError as again:
            raise Unavailable(
                f"The {run.job} failed half way, and could not be taken back: {again.detail}",
                hint=f"mend that, then restart dreamd, which takes it back; or: {command('undo', run.id)}", run_id=run.id,
            ) from error  # fmt: skip
        finally:
            self.end(run._replace(ended_at=run.started_at, outcome="failed", reason=reason))

    def _tell(self, run: str, changes: Sequence[tuple[Change, str]]) -> None:
        announce.changes(self._events, self._jobs.get(run, ""), changes)
