"""Runs of which all stands or nothing: what one had written that did not come to its end is taken back.

The ledger names such runs from before their first write until they are through, so that after a kill the next start knows
of them: an import that may take hours, and a merge by hand that comes meanwhile. With each it names the journal's entry
from which on: a run that makes many merges takes back the one that was cut short, and leaves those before it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final

from jobs import undo
from storage.changes import Change, Erase
from storage.inverse import inverse
from storage.ledger import Entry
from storage.store import Stores

#: The runs that are not through, in the ledger.
PENDING: Final = "unfinished_runs"
_FIRST: Final = 1  # the `seq` of a memory that was written once


def begin(stores: Stores, run: str, *, since: int = 0) -> None:
    """Note that a run begins to write what stands as a whole, from this number in the journal on. Called in the lane."""
    stores.ledger.set_fact(PENDING, _pending(stores) | {run: since})


def end(stores: Stores, run: str) -> None:
    """Note that it is through, and all of it stands or nothing. Called in the lane."""
    pending = _pending(stores)
    pending.pop(run, None)
    stores.ledger.set_fact(PENDING, pending or None)


@contextmanager
def whole(stores: Stores, run: str, now: float) -> Iterator[None]:
    """Let all that a run writes within stand, or nothing: where it fails it is taken back, after a kill by the next start.

    What the run wrote before stands. Called in the lane.
    """
    begin(stores, run, since=stores.ledger.last_entry() + 1)
    try:
        yield
    except Exception:
        take_back(stores, run, now)
        raise
    end(stores, run)


def settle(stores: Stores, now: float) -> None:
    """Take back what a kill cut short. Called in the lane, at the start, before anybody asks."""
    for _ in taking_back(stores, now):
        pass


def taking_back(stores: Stores, now: float) -> Generator[None, None, None]:
    """Take back all that runs wrote which are not through, in batches, each a turn of the lane.

    The newest goes first, so that nothing ever hangs on what is gone.
    """
    for run in reversed(list(_pending(stores))):
        yield from _taking_back(stores, run, now)


def take_back(stores: Stores, run: str, now: float) -> None:
    """Take back what one such run wrote that is not through, at once. Called in the lane."""
    for _ in _taking_back(stores, run, now):
        pass


def _taking_back(stores: Stores, run: str, now: float) -> Generator[None, None, None]:
    for batch in undo.plan(stores.ledger.journal_of(run, since=_pending(stores).get(run, 0))):
        changes = [change for entry in batch if (change := _opposite(stores, entry, now)) is not None]
        stores.changer.apply(run, changes, now, taking_back=True)
        stores.ledger.mark_entries([entry.number for entry in batch], undone=True)
        yield
    end(stores, run)


def _pending(stores: Stores) -> dict[str, int]:
    """The runs that are not through, the latest last, each with the first entry of what is to be taken back."""
    noted = stores.ledger.fact(PENDING) or {}
    return noted if isinstance(noted, dict) else dict.fromkeys(noted, 0)  # a release before this named runs alone


def _opposite(stores: Stores, entry: Entry, now: float) -> Change | None:
    """A new memory goes for good where nobody touched it; one that was used since goes to the bin, an edited one stays."""
    row = stores.catalogue.get(entry.key) if entry.op == "insert" else None
    if row is not None and row.seq == _FIRST:
        return Erase(row.id, row.seq)
    change, _ = inverse(stores, entry, now)
    return change
