"""Vacuum: give back the room of deleted points. Not part of the night, since the engine cannot be interrupted in it.

A collection is rewritten when more than 30 % of its rows are deleted. By schedule it runs when the daemon was idle for
ten minutes; by hand at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobs.context import Context, Report
from storage.store import COLLECTIONS

SHARE: Final = 0.3


def plan(shares: Mapping[str, float], least: float = SHARE) -> tuple[str, ...]:
    """The collections that are worth rewriting."""
    return tuple(sorted(name for name, share in shares.items() if share > least))


def run(ctx: Context) -> Report:
    """Rewrite the collections that hold many deleted points."""
    engine = ctx.stores.engine
    shares = ctx.read(lambda: {name: engine.deleted_share(name) for name in COLLECTIONS})
    planned = plan(shares)
    done = [name for name in planned if ctx.dry_run or ctx.read(ctx.stores.rewrite, name)]
    examples = [{"collection": name, "reason": f"{shares[name]:.0%} deleted"} for name in planned]
    return Report({"examined": len(shares), "vacuumed": len(done)}, examples, changed=len(done))
