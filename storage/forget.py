"""Forgetting on request, and taking it back: into the bin, out of it, or gone everywhere at once. Called in the lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from storage.errors import Conflict, NotFound
from storage.graph import visible
from storage.memories import missing
from storage.model import Memory, cleared
from storage.store import Stores

#: Set while erased text may still lie in the engine's log and pages; the `scrub` job clears it.
SCRUB_DUE: Final = "scrub_due"


class Forgotten(NamedTuple):
    """The ids that were forgotten, and those that do not exist."""

    forgotten: list[str]
    missing: list[str]


def forget(
    stores: Stores,
    ids: Sequence[str],
    now: float,
    clearance: str,
    *,
    hard: bool = False,
    superseded_by: str | None = None,
) -> Forgotten:
    """Move memories to the bin, or with `hard` erase them with their edges, versions and before-images.

    One missing id alone is NotFound; among several it is listed. `superseded_by` names the live memory of the same
    scope that takes their place: they keep their history and are never purged before `history_days`.
    """
    rows = {
        memory: row
        for memory in dict.fromkeys(ids)
        if (row := stores.catalogue.get(memory)) and cleared(row.sensitivity, clearance)
    }
    unknown = [memory for memory in dict.fromkeys(ids) if memory not in rows]
    if unknown and len(ids) == 1:
        raise missing(unknown[0])
    if hard:
        stores.ledger.erase_images(list(rows))
        stores.ledger.set_fact(SCRUB_DUE, now)
        stores.changer.erase(list(rows))
        return Forgotten(list(rows), unknown)
    fields: dict[str, Any] = {"forgotten_at": now, "forgotten_reason": "request"}
    if superseded_by is not None:
        _check_successor(stores, superseded_by, list(rows.values()), clearance)
        fields = {"invalid_at": now, "superseded_by": superseded_by}
    movable = [row.id for row in rows.values() if row.state == "live"]
    stores.memories.move(dict.fromkeys(movable, fields))
    return Forgotten(list(rows), unknown)


def restore(stores: Stores, memory: str, clearance: str) -> Memory:
    """Bring a memory back out of the bin with its edges; what is live already stays as it is."""
    row = visible(stores, memory, clearance)
    if row.state == "live":
        return row
    twins = [twin for twin in stores.catalogue.same_content(row.scope, row.content_hash) if twin.state == "live"]
    if twins:
        raise Conflict(
            f"Memory {twins[0].id!r} already says what {memory!r} said.",
            hint=f"dreamctl get {twins[0].id}",
            duplicate_of=twins[0].id,
        )
    back = {"forgotten_at": None, "forgotten_reason": "", "invalid_at": None, "superseded_by": None}
    stores.memories.move({memory: back})
    return stores.memories.row(memory)


def _check_successor(stores: Stores, successor: str, rows: Sequence[Memory], clearance: str) -> None:
    row = visible(stores, successor, clearance)
    if row.state != "live":
        raise Conflict(
            f"Memory {successor!r} is {row.state}; only a live one can take another's place.",
            hint=f"dreamctl restore {successor}",
        )
    for one in rows:
        if one.id == successor:
            raise Conflict("A memory cannot supersede itself.", hint=f"dreamctl get {successor}")
        if one.scope != row.scope:
            raise NotFound(f"There is no memory {successor!r} in scope {one.scope!r}.", hint="dreamctl list")
