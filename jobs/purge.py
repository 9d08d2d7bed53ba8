"""Purge: the bin's end of life. Nothing that was forgotten is kept for ever, nothing goes without its time in the bin.

Forgotten memories go `bin_days` after they were forgotten, superseded ones never before `history_days`; their edges and
versions go with them. The ledger lets go of before-images after `undo_days` and of idempotent answers after a day.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Erase
from storage.model import DAY, Memory

RUNS_DAYS: Final = 400.0  # what each night did stays readable for more than a year


class Plan(NamedTuple):
    """What goes for good."""

    erase: tuple[Erase, ...]
    waiting: int


def plan(gone: Iterable[Memory], now: float, *, bin_days: float, history_days: float) -> Plan:
    """The memories whose time in the bin is over."""
    rows = list(gone)
    over = [
        row for row in rows if now - _left_at(row) >= (history_days if row.state == "superseded" else bin_days) * DAY
    ]
    return Plan(tuple(Erase(row.id, row.seq) for row in sorted(over, key=lambda row: row.id)), len(rows) - len(over))


def _left_at(row: Memory) -> float:
    return max(row.invalid_at or 0.0, row.forgotten_at or 0.0)


def run(ctx: Context) -> Report:
    """Erase what is past its time, and trim the ledger."""
    rows = ctx.read(lambda: list(ctx.stores.catalogue.gone()))
    planned = plan(rows, ctx.now, bin_days=ctx.settings.bin_days, history_days=ctx.settings.history_days)
    applied = ctx.apply(planned.erase)
    if not ctx.dry_run:
        ctx.read(_trim, ctx)
    done = len(planned.erase) if ctx.dry_run else len(applied.done)
    counts = {"purged": done, "waiting": planned.waiting, "skipped": len(applied.skipped)}
    examples = [{"id": change.memory, "reason": "its time in the bin is over"} for change in planned.erase[:EXAMPLES]]
    return Report(counts, examples, changed=done)


def _trim(ctx: Context) -> None:
    ctx.stores.ledger.trim(
        images_before=ctx.now - ctx.settings.undo_days * DAY,
        runs_before=ctx.now - RUNS_DAYS * DAY,
        requests_before=ctx.now - DAY,
    )
