"""Vacuum: give back the room of deleted points. Not part of the night, since the engine cannot be interrupted in it.

A collection is rewritten when more than 30 % of its rows are deleted. By schedule it runs when the daemon was idle for
ten minutes; by hand at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs.context import Context, Report
from storage.store import COLLECTIONS, Stores

SHARE: Final = 0.3


def plan(shares: Mapping[str, float]) -> tuple[str, ...]:
    """The collections that are worth rewriting."""
    return tuple(sorted(name for name, share in shares.items() if share > SHARE))


def deleted_shares(stores: Stores) -> dict[str, float]:
    """Which share of each collection's rows is deleted. Called in the lane."""
    return {name: stores.engine.deleted_share(name) for name in COLLECTIONS}


def run(ctx: Context) -> Report:
    """Rewrite the collections that hold many deleted points, one a lane call."""
    shares = ctx.read(deleted_shares, ctx.stores)
    done: list[str] = []
    for name in plan(shares):
        if not ctx.dry_run and ctx.must_stop():
            break
        if ctx.dry_run or ctx.read(ctx.stores.rewrite, name):
            done.append(name)
    examples = [{"collection": name, "reason": f"{shares[name]:.0%} deleted"} for name in done]
    return Report({"examined": len(shares), "vacuumed": len(done)}, examples, changed=len(done))
