"""Forgetting on request, and taking it back: into the bin, out of it, or gone everywhere at once. Called in the lane."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from storage.errors import Conflict, Invalid, Refused, command
from storage.memories import missing
from storage.model import Memory, cleared, point_id
from storage.store import Stores
from storage.where import Where

#: Set while erased text may still lie in the engine's log and pages; the `scrub` job clears it.
SCRUB_DUE: Final = "scrub_due"
#: The fields that say why a memory is in the bin, as they are while it is not.
NOWHERE: Final[dict[str, Any]] = {
    "forgotten_at": None,
    "forgotten_reason": "",
    "invalid_at": None,
    "superseded_by": None,
}


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
    """Move memories to the bin, or with `hard` erase them with their edges, versions, comments and before-images.

    Versions and comments that a merge took from them go as well, whoever has them now. The tags, metadata and edges that a
    survivor has of them are its own, and stay.

    One missing id alone is NotFound; among several it is listed. `superseded_by` names the live memory of the same
    scope that takes their place: they keep their history and are never purged before `history_days`.
    """
    if hard and superseded_by is not None:
        raise Invalid(
            "What is erased has no successor.", hint="Leave out `hard` or `superseded_by`.", field="superseded_by"
        )
    named = list(dict.fromkeys(ids))
    found = [row for row in map(stores.catalogue.get, named) if row is not None]
    rows = {row.id: row for row in found if cleared(row.sensitivity, clearance)}
    unknown = [memory for memory in named if memory not in rows]
    if len(named) == len(unknown) == 1:
        raise missing(unknown[0], stores.catalogue.get(unknown[0]), clearance)
    if hard:
        _erase(stores, rows.keys(), now)
        return Forgotten(list(rows), unknown)
    fields: dict[str, Any] = {"forgotten_at": now, "forgotten_reason": "request"}
    if superseded_by is not None:
        _check_successor(stores, superseded_by, list(rows.values()), clearance)
        fields = {"invalid_at": now, "superseded_by": superseded_by}
    stores.memories.move({row.id: fields for row in rows.values() if row.state == "live"})
    stores.memories.patch({row.id: NOWHERE | fields for row in rows.values() if _says_more(row, superseded_by)})
    return Forgotten(list(rows), unknown)


def restore(stores: Stores, memory: str, clearance: str, now: float) -> Memory:
    """Bring a memory back out of the bin with its edges; what is live already stays as it is.

    That is a use of it: it fades from now on, else the next `decay` would take it again. An end that is over goes.
    """
    row = stores.memories.visible(memory, clearance)
    if row.state == "live":
        return row
    where = Where(now=now, clearance=clearance)
    for twin in stores.catalogue.same_content(row.scope, row.content_hash):
        if where.admits(twin):
            raise Conflict(
                f"Memory {twin.id!r} already says what {memory!r} said.",
                hint=command("get", twin.id),
                duplicate_of=twin.id,
            )
    back: dict[str, Any] = {**NOWHERE, "accessed_at": max(now, row.accessed_at or 0.0)}
    if row.expires_at is not None and row.expires_at <= now:
        back["expires_at"] = None
    stores.memories.move({memory: back})
    return stores.memories.row(memory)


def _says_more(row: Memory, superseded_by: str | None) -> bool:
    """Whether a memory in the bin is there for another reason than the one that is given now."""
    if row.state == "live":
        return False
    return row.superseded_by != superseded_by if superseded_by is not None else row.state == "superseded"


def _erase(stores: Stores, ids: Collection[str], now: float) -> None:
    if ids:
        stores.ledger.erase_images(ids)
        stores.ledger.note_erased(map(point_id, ids), now)
        stores.ledger.set_fact(SCRUB_DUE, now)
        stores.changer.erase_taken(list(ids))
        stores.changer.erase(list(ids))


def _check_successor(stores: Stores, successor: str, rows: Sequence[Memory], clearance: str) -> None:
    row = stores.memories.live(successor, clearance)
    for one in rows:
        if one.id == successor:
            raise Conflict("A memory cannot supersede itself.", hint=command("get", successor))
        if one.scope != row.scope:
            raise Refused(
                f"{successor!r} and {one.id!r} lie in different scopes; no memory takes another's place across scopes.",
                hint=command("get", successor),
            )
