"""Another store in the place of the present one: built beside it, whole before anything is moved, finished by the next start.

    store.next/ ...          built, checked, on the disk
    store.next/READY         written last: what is to happen
    store      -> outgoing   in a snapshot's folder, whose manifest is there first, or `store.corrupt-<time>`
    store.next -> store
    the ledger is told, READY goes

A kill may come between any two of them. Where `store` is there the next start leaves it, where it is gone `store.next`
takes its place, and a READY in `store` says that the ledger was not told yet. Nothing but scrap is ever deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from storage import durable
from storage.edge_files import empty
from storage.errors import Corrupt, Unavailable
from storage.forget import SCRUB_DUE
from storage.ledger import Ledger
from storage.store import MARKS, Stores

STORE: Final = "store"
NEXT: Final = "store.next"
READY: Final = "READY"
#: In `store.next`: a reindex is under way, or can go on.
PROGRESS: Final = "REINDEX"
MANIFEST: Final = "manifest.json"
#: Spans [a snapshot's time, when it was restored]: what happened in between did not happen to the memories.
RESTORES: Final = "restores"
#: The latest such span and what was noted as erased before it, while what was erased since is to be erased again.
ERASE_AGAIN: Final = "erase_again"
#: When the present store came, and where the one before it went.
ARRIVED: Final = "arrived"
_KEPT: Final = 100  # spans


class Arrival(NamedTuple):
    """What takes the place of the store, and where that goes."""

    outgoing: str | None  # from the state folder; None where there is no store
    marks: dict[str, Any]  # of the new store
    at: float
    taken_at: float | None = None  # of the snapshot that it was made of, if it was
    erasures: int = 0  # how many things had been erased for good by then
    scrub: bool = False  # whether text that was erased may still lie in its pages


@contextmanager
def exchanged(
    state: Path, arrival: Arrival, ledger: Ledger, manifest: Callable[[], str] | None = None
) -> Iterator[None]:
    """Put `store.next` in the place of `store`, and tell the ledger when the body is through; taken back where it fails.

    Nobody may have files of either open. A store that goes to be a snapshot is asked for its manifest before it goes; one
    that is not there any more goes nowhere.
    """
    store, coming = state / STORE, state / NEXT
    with _on_disk(state), ExitStack() as back:
        told = None if manifest is None else manifest()
        durable.write(coming / READY, json.dumps(arrival._asdict()))
        back.callback(durable.remove, coming / READY)
        if arrival.outgoing is not None:
            outgoing = state / arrival.outgoing
            back.callback(_unmake, state, arrival)
            if told is not None:
                durable.make(outgoing.parent)
                durable.write(outgoing.parent / MANIFEST, told)
            back.callback(_put_back, outgoing, store)
            durable.rename(store, outgoing)
        back.callback(_put_back, store, coming)
        durable.rename(coming, store)
        yield
        _tell(ledger, arrival)
        back.pop_all()
    with suppress(OSError):  # else the next start removes it
        durable.remove(store / READY)


def settle(state: Path, ledger: Ledger) -> None:
    """Finish what a kill cut short, before the engine opens."""
    store, coming = state / STORE, state / NEXT
    with _on_disk(state):
        if (coming / READY).exists():
            if store.exists():
                _unmake(state, _read(coming / READY))
                durable.remove(coming / READY)
            else:
                durable.rename(coming, store)
        if (store / READY).exists():
            _tell(ledger, _read(store / READY))
            durable.remove(store / READY)


def erase_again(stores: Stores) -> None:
    """Erase what had been erased after the snapshot that the store was made of was taken. Called in the lane."""
    span = stores.ledger.fact(ERASE_AGAIN)
    if span is None:
        return
    taken_at, restored_at, erasures = span
    points = stores.ledger.erased_since(taken_at, erasures)
    ids = [row.id for row in map(stores.catalogue.at_point, points) if row is not None]
    records = list(stores.records.get(points))
    if ids or records:
        stores.ledger.set_fact(SCRUB_DUE, restored_at)
        stores.changer.erase_taken(ids)
        stores.changer.erase(ids)
        stores.records.drop(records)
        stores.ledger.empty_log()
    stores.ledger.set_fact(ERASE_AGAIN, None)


def cleared(state: Path) -> Path:
    """The folder `store.next`, empty: what was in it never took the place of the store."""
    coming = state / NEXT
    with _on_disk(state):
        empty(coming)
        coming.mkdir(exist_ok=True)
    return coming


def discard(state: Path) -> None:
    """Let go of `store.next`, if it is there."""
    coming = state / NEXT
    if coming.exists():
        with _on_disk(state):
            empty(coming)
            coming.rmdir()


def _tell(ledger: Ledger, arrival: Arrival) -> None:
    """Note all that follows, once, or nothing of it."""
    told = [arrival.at, arrival.outgoing]
    if ledger.fact(ARRIVED) == told:
        return
    with ledger.transaction():
        ledger.set_fact(ARRIVED, told)
        ledger.set_fact(MARKS, arrival.marks)
        if arrival.scrub:
            ledger.set_fact(SCRUB_DUE, arrival.at)
        if arrival.taken_at is not None:
            span = [arrival.taken_at, arrival.at]
            ledger.drop_answers(arrival.taken_at)
            ledger.forget_undos(arrival.taken_at)
            ledger.set_fact(RESTORES, [*(ledger.fact(RESTORES) or []), span][-_KEPT:])
            ledger.set_fact(ERASE_AGAIN, [*span, arrival.erasures])


def _put_back(place: Path, former: Path) -> None:
    if place.exists() and not former.exists():
        durable.rename(place, former)


def _unmake(state: Path, arrival: Arrival) -> None:
    """Let go of the snapshot's folder that was made for a store which did not go there."""
    if arrival.outgoing is not None:
        outgoing = state / arrival.outgoing
        if outgoing.parent != state and outgoing.parent.exists() and not outgoing.exists():
            empty(outgoing.parent)
            outgoing.parent.rmdir()


def _read(path: Path) -> Arrival:
    try:
        return Arrival(**json.loads(path.read_bytes()))
    except (ValueError, TypeError):
        raise Corrupt(f"{path} cannot be read.", hint=f"rm {path}, then start dreamd") from None


@contextmanager
def _on_disk(state: Path) -> Iterator[None]:
    """Make what the file system refuses an error of ours."""
    try:
        yield
    except OSError as error:
        detail = f"The store in {state} cannot be exchanged: {error.strerror}: {error.filename}."
        raise Unavailable(detail, hint=f"ls -ld {state} {state / STORE}, then dreamctl health") from None
