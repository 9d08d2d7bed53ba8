"""Undo: take back what a run changed, except what was changed since. It is a run itself and can be undone.

Each journalled change is compared with what is there now: where it still stands as the run left it, the before-image
comes back; where not, it is left and listed. A night is undone by its steps in reverse. What was purged stays gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.context import BATCH, EXAMPLES, Context, Report
from storage.changes import Change
from storage.errors import Conflict, NotFound, Refused
from storage.ledger import Entry, Ledger, Run


@dataclass(slots=True)
class Undone:
    """What came back, and what was left since it had changed or is gone: keys of memories and edges, each once."""

    restored: dict[str, None] = field(default_factory=dict)
    left: dict[str, None] = field(default_factory=dict)


def plan(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The changes to take back, newest first, in batches in none of which a thing occurs twice.

    So each change is compared with what the one before it left; what was taken back already is passed over.
    """
    batches: list[list[Entry]] = []
    keys: set[str] = set()
    for entry in entries:
        if entry.undone:
            continue
        if not batches or len(batches[-1]) == BATCH or entry.key in keys:
            batches.append([])
            keys = set()
        batches[-1].append(entry)
        keys.add(entry.key)
    return batches


def standing(ledger: Ledger, run_id: str, *, oldest: float) -> list[str]:
    """The runs to take back in order, the one that was meant last: a night's steps come before it, latest first.

    Where the undo of a run was itself undone, the changes stand by that second undoing, which is the one to take back.
    What is older than `oldest` has no before-images. Raises where there is nothing to take back.
    """
    run = _found(ledger, run_id)
    if run.dry_run or run.outcome is None:
        state = "was a dry run" if run.dry_run else "is still under way"
        raise Refused(f"Run {run_id!r} {state}; there is nothing to take back.", hint="dreamctl runs")
    while run.undone_by is not None:
        by = _found(ledger, run.undone_by)
        if by.undone_by is None:
            raise Conflict(f"Run {run_id!r} was undone already.", hint=f"dreamctl undo {by.id}", run_id=by.id)
        run = _found(ledger, by.undone_by)
    if run.started_at < oldest:
        raise Refused(
            f"Run {run_id!r} is past the days for which before-images are kept.", hint="dreamctl list --state forgotten"
        )
    steps = [step.id for step in ledger.steps_of(run.id) if step.undone_by is None]
    return [*reversed(steps), run.id]


def _found(ledger: Ledger, run_id: str) -> Run:
    run = ledger.run(run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id!r}.", hint="dreamctl runs")
    return run


def run(ctx: Context, targets: Sequence[str], undone: Undone) -> Report:
    """Take back the runs `targets`, in that order; `undone` is filled as it goes. After a stop another undo goes on."""
    for target in targets:
        # Straight from the ledger, which has a lock of its own: unpacking a long journal is nothing to hold the lane for.
        for batch in plan(ctx.stores.ledger.journal_of(target)):
            if ctx.must_stop():
                break
            ctx.read(_take_back, ctx, batch, undone)
    counts = {"restored": len(undone.restored), "left": len(undone.left)}
    examples = [{"id": key, "reason": "changed since, or gone"} for key in list(undone.left)[:EXAMPLES]]
    return Report(counts, examples, changed=len(undone.restored))


def _take_back(ctx: Context, entries: Sequence[Entry], undone: Undone) -> None:
    """Invert one batch in one lane call, so that nothing can change between the look and the write."""
    changes: dict[int, Change] = {}
    for entry in entries:
        change, partly = ctx.stores.changer.inverse(entry, ctx.now)
        if change is not None:
            changes[entry.number] = change
            undone.restored[entry.key] = None
        if change is None or partly:
            undone.left[entry.key] = None
    ctx.stores.changer.apply(ctx.run_id, list(changes.values()), ctx.now)
    ctx.stores.ledger.mark_entries(list(changes), undone=True)
