"""Undo: take back what a run changed, except what was changed since. It is a run itself and can be undone.

Each journalled change is compared with what is there now: where it still stands as the run left it, the before-image
comes back; where not, it is left and listed. A night is undone by its steps in reverse. What was purged stays gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jobs.context import Context, Report
from storage.changes import BATCH
from storage.ledger import Entry


class Undone(NamedTuple):
    """What came back, and what was left since it had changed or is gone."""

    restored: list[str]
    left: list[str]


def plan(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The changes to take back, newest first, in batches; what was taken back before is passed over."""
    open_entries = [entry for entry in entries if not entry.undone]
    return [open_entries[start : start + BATCH] for start in range(0, len(open_entries), BATCH)]


def run(ctx: Context) -> Report:
    """Take back the runs named in `parameters["runs"]`, in that order."""
    total = Undone([], [])
    for target in ctx.parameters["runs"]:
        for batch in plan(ctx.read(ctx.stores.ledger.journal_of, target)):
            part = ctx.read(take_back, ctx, batch)
            total.restored.extend(part.restored)
            total.left.extend(part.left)
    counts = {"restored": len(total.restored), "left": len(total.left)}
    ctx.parameters["undone"].append(Undone(list(dict.fromkeys(total.restored)), list(dict.fromkeys(total.left))))
    return Report(
        counts, [{"id": key, "reason": "changed since"} for key in total.left[:10]], changed=len(total.restored)
    )


def take_back(ctx: Context, entries: Sequence[Entry]) -> Undone:
    """Invert a batch of changes in one lane call, one after the other, so that each sees what the one before did."""
    restored, left, numbers = [], [], []
    for entry in entries:
        change, partly = ctx.stores.changer.inverse(entry)
        applied = None if change is None else ctx.stores.changer.apply(ctx.run_id, [change], ctx.now)
        done = applied is not None and bool(applied.done)
        if done:
            restored.append(entry.key)
            numbers.append(entry.number)
        if partly or not done:
            left.append(entry.key)
    ctx.stores.ledger.mark_entries(numbers, undone=True)
    return Undone(restored, left)
