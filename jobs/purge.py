"""Purge: the bin's end of life. Nothing that was forgotten is kept for ever, nothing goes without its time in the bin.

Forgotten memories go `bin_days` after they were forgotten, superseded ones never before `history_days`; their edges and
versions go with them. Turns of which a memory was made go 90 days after no job needed them any more. The ledger lets go
of before-images after `undo_days` and of idempotent answers after a day. All of these are awake time: neither two months
off nor a clock that jumps ahead erases what could still come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from jobs.context import BATCH, EXAMPLES, Context, Report, check_counts
from storage.changes import Erase
from storage.fading import Awake
from storage.model import DAY, Memory
from storage.store import Stores
from storage.talk import Turn

TURN_DAYS: Final = 90.0
ANSWER_DAYS: Final = 1.0
RUNS_DAYS: Final = 400.0  # what each night did stays readable for more than a year


class Plan(NamedTuple):
    """What goes for good."""

    erase: tuple[Erase, ...]
    turns: tuple[Turn, ...]
    examined: int


def plan(
    gone: Iterable[Memory], turns: Iterable[Turn], now: float, awake: Awake, *, bin_days: float, history_days: float
) -> Plan:  # fmt: skip
    """The memories whose time in the bin is over, longest gone first, and the turns that nobody needs."""
    rows = sorted(gone, key=lambda row: (_left_at(row), row.id))
    forgotten, superseded, told = (awake.before(now, days * DAY) for days in (bin_days, history_days, TURN_DAYS))
    over = [row for row in rows if _left_at(row) <= (superseded if row.state == "superseded" else forgotten)]
    said = tuple(turn for turn in turns if turn.extracted_at is not None and turn.extracted_at <= told)
    return Plan(tuple(Erase(row.id, row.seq) for row in over), said, len(rows))


def _left_at(row: Memory) -> float:
    return max(row.invalid_at or 0.0, row.forgotten_at or 0.0)


def run(ctx: Context) -> Report:
    """Erase what is past its time, and trim the ledger."""
    gone, turns = ctx.read(_snapshot, ctx)
    planned = plan(
        gone, turns, ctx.now, ctx.stores.awake, bin_days=ctx.settings.bin_days, history_days=ctx.settings.history_days
    )
    applied = ctx.apply(planned.erase)
    done = [change for change in applied.done if isinstance(change, Erase)]
    dropped = _drop(ctx, planned.turns)
    if not ctx.dry_run:
        _trim(ctx)
    waiting = planned.examined - len(done) if ctx.dry_run else ctx.read(_waiting, ctx.stores)
    counts = {"purged": len(done), "turns": dropped, "waiting": waiting, "skipped": len(applied.skipped)}
    examples = [{"id": change.memory, "reason": "its time in the bin is over"} for change in done[:EXAMPLES]]
    return Report(counts, examples, changed=len(done) + dropped)


def _snapshot(ctx: Context) -> tuple[list[Memory], list[Turn]]:
    return list(ctx.stores.catalogue.gone()), ctx.stores.talk.every()


def _drop(ctx: Context, turns: Sequence[Turn]) -> int:
    """Remove turns, a batch a lane call; how many went, or would go."""
    for start in range(0, len(turns), BATCH):
        if ctx.dry_run:
            break
        if ctx.must_stop():
            return start
        ctx.read(ctx.stores.talk.drop, turns[start : start + BATCH])
    return len(turns)


def _trim(ctx: Context) -> None:
    """Let the ledger go of what is past its time, a slice at a time; what a stop leaves, the next run finds."""
    images, runs, requests = (
        ctx.stores.awake.before(ctx.now, days * DAY) for days in (ctx.settings.undo_days, RUNS_DAYS, ANSWER_DAYS)
    )
    trim = partial(ctx.stores.ledger.trim, images_before=images, runs_before=runs, requests_before=requests)
    while ctx.note(trim) and not ctx.must_stop():
        pass


def _waiting(stores: Stores) -> int:
    """How many are in the bin now, which the engine confirms."""
    check_counts(stores)
    return stores.catalogue.gone_count
