"""Scrub: after a hard `forget`, leave no byte of the erased text in segments or logs.

The text is unreadable from the moment of `forget`; until this ran (within the hour, or by hand) it still lies in the
engine's log and pages. Snapshots made before keep it until they rotate.
"""

from __future__ import annotations

from functools import partial

from jobs.context import Context, Report
from storage import swap
from storage.forget import SCRUB_DUE
from storage.store import COLLECTIONS, Stores


def plan(due: float | None) -> tuple[str, ...]:
    """The collections to rewrite: all, where something was erased since the last time."""
    return () if due is None else COLLECTIONS


def run(ctx: Context) -> Report:
    """Rewrite every collection without what was erased, one a lane call."""
    due = ctx.read(ctx.stores.ledger.fact, SCRUB_DUE)
    planned = plan(due)
    if planned and not ctx.dry_run:
        ctx.read(swap.discard, ctx.stores.folder)  # a reindex that was cut short has copies of the text
    done = 0
    for name in planned:
        if not ctx.dry_run:
            if ctx.must_stop():
                break
            ctx.read(partial(ctx.stores.rewrite, name, scrub=True))
        done += 1
        ctx.progress(done, len(planned))
    if planned and done == len(planned) and not ctx.dry_run:
        ctx.read(_settle, ctx.stores, due)
    return Report({"scrubbed": done}, changed=done)


def _settle(stores: Stores, due: float) -> None:
    """Nothing is due any more, unless something was erased while this ran; a `forget` that a kill cut short left a log."""
    stores.ledger.empty_log()
    if stores.ledger.fact(SCRUB_DUE) == due:
        stores.ledger.set_fact(SCRUB_DUE, None)
