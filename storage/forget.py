"""Forgetting on request, and taking it back: into the bin, out of it, or gone everywhere at once. Called in the lane."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from storage.errors import Conflict, Invalid, Refused, command
from storage.memories import missing
from storage.model import Memory, cleared, point_id
from storage.store import Stores
from storage.where import Where, visible

#: Set while erased text may still lie in the engine's log and pages; the `scrub` job clears it.
SCRUB_DUE: Final = "scrub_due"
#: Why a memory is superseded that a merge made part of another, which says the same.
MERGED: Final = "merged"
#: The fields that say why a memory is in the bin, as they are while it is not.
NOWHERE: Final[dict[str, Any]] = {
    "forgotten_at": None,
    "forgotten_reason": "",
    "invalid_at": None,
    "superseded_by": None,
}


class Forgotten(NamedTuple):
    """What was forgotten, as it was before, and the ids that do not exist.

    Of what was erased also what stays and may say the same: the ids of what it took the place of otherwise than by a merge,
    and of the live memories that it had become part of; those that the clearance covers.
    """

    rows: list[Memory]
    missing: list[str]
    superseded: Sequence[str] = ()
    merged_into: Sequence[str] = ()

    @property
    def forgotten(self) -> list[str]:
        """The ids of what was forgotten."""
        return [row.id for row in self.rows]


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

    What merges made part of an erased memory is erased with it, where the clearance covers that: it says the same. Versions
    and comments that a merge took from them go as well, whoever has them now. The tags, metadata and edges that a survivor
    has of them are its own, and stay.

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
        return _erased(stores, rows, unknown, now, clearance)
    fields: dict[str, Any] = {"forgotten_at": now, "forgotten_reason": "request"}
    if superseded_by is not None:
        _check_successor(stores, superseded_by, list(rows.values()), clearance, now)
        fields = {"invalid_at": now, "superseded_by": superseded_by}
    stores.memories.move({row.id: fields for row in rows.values() if row.state == "live"})
    stores.memories.patch({row.id: NOWHERE | fields for row in rows.values() if _says_more(row, superseded_by)})
    return Forgotten(list(rows.values()), unknown)


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


def _erased(stores: Stores, rows: Mapping[str, Memory], unknown: list[str], now: float, clearance: str) -> Forgotten:
    """Erase memories with what merges made part of them, and tell what stays beside them."""
    replaced = [row for row in stores.catalogue.gone() if row.superseded_by is not None]
    gone = dict(rows)
    gone |= {row.id: row for row in _parts_of(rows, replaced) if cleared(row.sensitivity, clearance)}
    others = [row for row in replaced if row.superseded_by in gone and row.forgotten_reason != MERGED]
    heirs = [row for one in gone.values() if one.forgotten_reason == MERGED and (row := stores.catalogue.heir(one))]
    _erase(stores, gone.keys(), now)
    staying = [
        list(dict.fromkeys(row.id for row in beside if row.id not in gone and visible(row, clearance, now)))
        for beside in (others, heirs)
    ]
    return Forgotten(list(gone.values()), unknown, *staying)


def _parts_of(memories: Iterable[str], replaced: Iterable[Memory]) -> list[Memory]:
    """What merges made part of these memories, over however many merges."""
    merged: dict[str | None, list[Memory]] = {}
    for row in replaced:
        if row.forgotten_reason == MERGED:
            merged.setdefault(row.superseded_by, []).append(row)
    found = [row for memory in memories for row in merged.pop(memory, ())]
    for one in found:  # grows meanwhile
        found += merged.pop(one.id, ())
    return found


def _erase(stores: Stores, ids: Collection[str], now: float) -> None:
    if ids:
        stores.ledger.erase_images(ids)
        stores.ledger.erase_names(ids)
        stores.ledger.note_erased(map(point_id, ids), now)
        stores.ledger.set_fact(SCRUB_DUE, now)
        stores.changer.erase_taken(list(ids))
        stores.changer.erase(list(ids))
        stores.ledger.empty_log()


def _check_successor(stores: Stores, successor: str, rows: Sequence[Memory], clearance: str, now: float) -> None:
    row = stores.memories.live(successor, clearance, now)
    for one in rows:
        if one.id == successor:
            raise Conflict("A memory cannot supersede itself.", hint=command("get", successor))
        if one.scope != row.scope:
            raise Refused(
                f"{successor!r} and {one.id!r} lie in different scopes; no memory takes another's place across scopes.",
                hint=command("get", successor),
            )
