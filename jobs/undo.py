"""Undo: take back what a run changed, except what was changed since. It is a run itself and can be undone.

Each journalled change is compared with what is there now: where it still stands as the run left it, the before-image
comes back; where not, it is left and listed. What a run that was cut short never came to is not mentioned. A night is undone
by its steps in reverse. What was purged stays gone, and what changes no memory is nothing to take back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jobs.context import BATCH, EXAMPLES, Context, Report
from storage.changes import Change
from storage.errors import Conflict, NotFound, Refused, command
from storage.inverse import inverse
from storage.ledger import CUT_SHORT, Entry, Ledger, Run
from storage.swap import RESTORES

_UNCHANGED: Final = "it changed no memory"
#: Why what these jobs do is never taken back; an undo of their night passes over them.
FOR_GOOD: Final = {
    "snapshot": _UNCHANGED, "vacuum": _UNCHANGED, "scrub": _UNCHANGED, "purge": "what was purged is gone",
}  # fmt: skip


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

    Where the undo of a run or of a step was itself undone, the changes stand by that second undoing, which is the one to
    take back. What is older than `oldest` has no before-images; what followed a snapshot that was restored since has no
    effect. Raises where there is nothing to take back; a night passes over such a step.
    """
    run = _found(ledger, run_id)
    if run.dry_run or run.outcome is None:
        state = "was a dry run" if run.dry_run else "is still under way"
        raise Refused(f"Run {run_id!r} {state}; there is nothing to take back.", hint="dreamctl runs")
    if run.outcome == "skipped":
        raise Refused(f"Run {run_id!r} did not take place; there is nothing to take back.", hint="dreamctl runs")
    if why := _for_good(run):
        raise Refused(f"Run {run_id!r} cannot be taken back: {why}.", hint="dreamctl snapshots")
    run, by = _traced(ledger, run)
    if by is not None:
        raise Conflict(f"Run {run_id!r} was undone already.", hint=command("undo", by), run_id=by)
    if run.started_at < oldest:
        raise Refused(
            f"Run {run_id!r} is past the days for which before-images are kept.", hint="dreamctl list --state forgotten"
        )
    spans = ledger.fact(RESTORES) or []
    if _within(run, spans):
        raise Refused(
            f"Run {run_id!r} took place after the snapshot that was restored since: the memories know nothing of it.",
            hint="dreamctl snapshots",
        )
    return [*_standing_steps(ledger, run, spans), *_parts(ledger, run), run.id]


def _parts(ledger: Ledger, undo: Run) -> list[str]:
    """Of an undo that went on where others had been cut short, all of them, latest first: together they took the run back."""
    if undo.undo_of is None:
        return []
    others = ledger.undos_of(undo.undo_of)
    cut = [one.id for one in others if one.outcome in CUT_SHORT and one.undone_by is None and one.id != undo.id]
    return [undo.id, *reversed(cut)] if cut else []


def _standing_steps(ledger: Ledger, night: Run, spans: Sequence[Sequence[float]]) -> list[str]:
    """The runs by which the steps of a night stand, latest first: what was made again came after the night."""
    as_they_were: list[str] = []
    made_again: list[Run] = []
    for step in ledger.steps_of(night.id):
        last, by = _traced(ledger, step)
        if by is not None or step.outcome == "skipped" or _for_good(step) or _within(last, spans):
            continue
        if last.id == step.id:
            as_they_were.append(step.id)
        else:
            made_again.append(last)
    again = sorted(made_again, key=lambda run: run.started_at)
    return [run.id for run in reversed(again)] + as_they_were[::-1]


def _traced(ledger: Ledger, run: Run) -> tuple[Run, str | None]:
    """The run which made the changes of one last, itself or the undo of its undo; and which took them back since, if any."""
    while run.undone_by is not None:
        by = ledger.run(run.undone_by)
        again = None if by is None or by.undone_by is None else ledger.run(by.undone_by)
        if again is None:
            return run, run.undone_by
        run = again
    return run, None


def _for_good(run: Run) -> str:
    """Why what a run did is not to be taken back, whatever became of it since."""
    return FOR_GOOD.get(run.job, "")


def _within(run: Run, spans: Sequence[Sequence[float]]) -> bool:
    return any(since <= run.started_at < until for since, until in spans)


def stands(ledger: Ledger, run: Run) -> bool:
    """Whether what a run did still holds: it was not undone, or that was undone, and no snapshot from before it is in place."""
    last, by = _traced(ledger, run)
    return by is None and not _within(last, ledger.fact(RESTORES) or [])


def _found(ledger: Ledger, run_id: str) -> Run:
    run = ledger.run(run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id!r}.", hint="dreamctl runs")
    return run


def run(ctx: Context, targets: Sequence[str], undone: Undone) -> Report:
    """Take back the runs `targets`, in that order; `undone` is filled as it goes. After a stop another undo goes on."""
    for target in targets:
        of = ctx.stores.ledger.run(target)
        through = of is not None and of.outcome not in CUT_SHORT
        # Straight from the ledger, which has a lock of its own: unpacking a long journal is nothing to hold the lane for.
        for batch in plan(ctx.stores.ledger.journal_of(target)):
            if ctx.must_stop():
                break
            ctx.read(_take_back, ctx, batch, undone, through)
    counts = {"restored": len(undone.restored), "left": len(undone.left)}
    examples = [{"id": key, "reason": "changed since, or gone"} for key in list(undone.left)[:EXAMPLES]]
    return Report(counts, examples, changed=len(undone.restored))


def _take_back(ctx: Context, entries: Sequence[Entry], undone: Undone, through: bool) -> None:
    """Invert one batch in one lane call, so that nothing can change between the look and the write.

    What is as it was before a run that came `through` was changed since; before another, it may never have been made.
    """
    changes: list[Change] = []
    settled: list[int] = []
    for entry in entries:
        change, partly = inverse(ctx.stores, entry, ctx.now)
        if change is not None:
            changes.append(change)
            undone.restored[entry.key] = None
        left = partly or (change is None and through)
        if left:
            undone.left[entry.key] = None
        if change is not None or not left:
            settled.append(entry.number)
    ctx.stores.changer.apply(ctx.run_id, changes, ctx.now)
    ctx.stores.ledger.mark_entries(settled, undone=True)
