"""Scrub: after a hard `forget`, leave no byte of the erased text in segments or logs.

The text is unreadable from the moment of `forget`; until this ran (within the hour, or by hand) it still lies in the
engine's log and pages. Snapshots made before keep it until they rotate.
"""

from __future__ import annotations

from jobs.context import Context, Report
from storage.forget import SCRUB_DUE
from storage.store import COLLECTIONS


def plan(due: float | None) -> tuple[str, ...]:
    """The collections to rewrite: all, where something was erased since the last time."""
    return () if due is None else COLLECTIONS


def run(ctx: Context) -> Report:
    """Rewrite every collection without what was erased."""
    due = ctx.read(ctx.stores.ledger.fact, SCRUB_DUE)
    planned = plan(due)
    for done, name in enumerate(planned, 1):
        if ctx.dry_run or ctx.stopping():
            break
        ctx.read(lambda collection=name: ctx.stores.rewrite(collection, scrub=True))
        ctx.progress(done, len(planned))
        if done == len(planned):
            ctx.read(ctx.stores.ledger.set_fact, SCRUB_DUE, None)
    return Report({"scrubbed": len(planned)}, changed=len(planned))
