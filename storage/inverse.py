"""What takes a journalled change back: it is compared with what is there now, field by field.

What is still as the run left it goes back to what it was before. What was changed since is left; what is as it was before,
since a kill came first or somebody else took it back, needs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from storage.changes import OPS, Change, Edge, Move, Patch, RecordChange, ends_exist, same
from storage.engine import Payload
from storage.forget import NOWHERE
from storage.ledger import Entry
from storage.model import SENSITIVITIES, TUPLES, Memory, Synapse
from storage.records import NO_MEMORY
from storage.remember import VERSIONED
from storage.store import Stores

FIRST: Final = 1  # the `seq` of a memory that was written once
_ABSENT: Final = object()  # what a payload has not


def inverse(stores: Stores, entry: Entry, now: float) -> tuple[Change | None, bool]:
    """The change that takes one back, and whether something of it must be left as it is now. Called in the lane."""
    before, after = entry.before, entry.after
    if before is None and after is None:  # erased, or blanked since
        return None, True
    if entry.op == "edge":
        return _edge_back(stores, entry)
    if entry.op == "record":
        return _record_back(stores, entry)
    row = stores.catalogue.get(entry.key)
    if row is None or after is None:
        return None, True
    if before is None:  # it was inserted; soft before hard: what a run brought goes to the bin
        if row.seq != FIRST and (row.state != "live" or not _says(stores, row, after["version"])):
            return None, True
        undone = {**NOWHERE, "forgotten_at": now, "forgotten_reason": "undone"}
        return Move(row.id, row.seq, undone, "retract"), False
    if entry.op == "patch":
        return _patch_back(stores, row, before, after)
    back, left = _fields_back(row, before, after)
    return (Move(row.id, row.seq, back, _opposite(entry.op, before)), False) if back and not left else (None, left)


def _edge_back(stores: Stores, entry: Entry) -> tuple[Change | None, bool]:
    before, after, here = _edge(entry.before), _edge(entry.after), stores.synapses.get(entry.key)
    like = _like(here, before, after)
    if like != "after" or not ends_exist(stores.catalogue, before):
        return None, like != "before"
    return Edge(entry.key, here, before, entry.scope), False


def _record_back(stores: Stores, entry: Entry) -> tuple[Change | None, bool]:
    """A record that was made goes, and one that was removed comes back, whole; of another, the fields that were changed."""
    before, after, here = entry.before, entry.after, stores.records.get([entry.key]).get(entry.key)
    back, left = before, False
    if here is not None and before is not None and after is not None:
        fields, left = _reverted(here, before, after)
        if not fields:
            return None, left
        back = {name: value for name, value in {**here, **fields}.items() if value is not _ABSENT}
    elif (like := _like(here, before, after)) != "after":
        return None, like != "before"
    if back is not None and not _has_owner(stores, back):
        return None, True
    return RecordChange(entry.key, here, back, entry.scope), left


def _patch_back(stores: Stores, row: Memory, before: Payload, after: Payload) -> tuple[Change | None, bool]:
    """An edit is taken back by another: a version that somebody has read never comes again with another text.

    Where it was edited since, it stays at least as guarded as it is, and as it was when it said what comes back.
    """
    back, left = _fields_back(row, {name: value for name, value in before.items() if name != "version"}, after)
    if back and "version" in after:
        level = back.pop("sensitivity", row.sensitivity)
        if not _says(stores, row, after["version"]):
            left = True
            level = max(row.sensitivity, before.get("sensitivity", row.sensitivity), key=SENSITIVITIES.index)
        if back or level != row.sensitivity:  # told also where it stays, for an undo of this
            back |= {"sensitivity": level, "version": row.version + 1}
    return (Patch(row.id, row.seq, back) if back else None), left


def _fields_back(row: Memory, before: Payload, after: Payload) -> tuple[dict[str, Any], bool]:
    here = {name: getattr(row, name) for name in before}
    back, left = _reverted(here, before, {name: after[name] for name in before})
    return {name: tuple(value) if name in TUPLES else value for name, value in back.items()}, left


def _reverted(here: Payload, before: Payload, after: Payload) -> tuple[dict[str, Any], bool]:
    """The fields to set so that what a run changed is as it was, and whether some of them were changed since.

    A field that was not there before becomes `_ABSENT`.
    """
    back: dict[str, Any] = {}
    left = False
    for name in dict.fromkeys([*before, *after]):
        was, became, now = (fields.get(name, _ABSENT) for fields in (before, after, here))
        like = "before" if was == became else _like(now, was, became)
        if like == "after":
            back[name] = was
        left = left or like == "neither"
    return back, left


def _like(here: Any, before: Any, after: Any) -> Literal["before", "after", "neither"]:
    """Which of its images something is like. Two instants may be as near to each other as the engine is exact."""
    if here == before:
        return "before"
    if same(here, after):
        return "after"
    return "before" if same(here, before) else "neither"


# -- versions


def _says(stores: Stores, row: Memory, version: int) -> bool:
    """Whether a memory says what it said as that version: whatever was made of it since was taken back by runs."""
    if row.version == version:
        return True
    first = first_versions(stores.ledger.journal_at(row.id))
    return first.get(row.version, row.version) == first.get(version, version)


def first_versions(entries: Sequence[Entry]) -> dict[int, int]:
    """For each version of a memory by which a run took back what another had made of it, the first that says the same.

    `entries` are all that runs changed of it, newest first. What was done on a version takes back what had made that
    version where it sets every edited field to what it was before.
    """
    made: dict[int, Entry] = {}
    for entry in reversed(entries):  # a restored snapshot may have brought a number again: the later one holds
        if entry.op == "patch" and entry.before and entry.after and "version" in entry.after:
            made[entry.after["version"]] = entry
    first: dict[int, int] = {}
    for version in sorted(made):
        base: int = _images(made[version])[0]["version"]
        for one in (base, first.get(base, base)):
            if one in made and made[one].undone and _takes_back(made[version], made[one]):
                start: int = _images(made[one])[0]["version"]
                first[version] = first.get(start, start)
                break
    return first


def _takes_back(later: Entry, earlier: Entry) -> bool:
    was, became = _images(earlier)
    after = _images(later)[1]
    return all(same(after.get(name, became[name]), was[name]) for name in VERSIONED if name in was)


def _images(entry: Entry) -> tuple[Payload, Payload]:
    return entry.before or {}, entry.after or {}


# -- what a change hangs on


def _edge(image: Any) -> Synapse | None:
    return None if image is None else Synapse(*image)


def _has_owner(stores: Stores, record: Payload) -> bool:
    """Whether somebody is there whom a record would belong to."""
    owner = record.get("owner", "")
    return not owner or owner.startswith(NO_MEMORY) or owner in stores.catalogue


def _opposite(op: str, before: Payload) -> str:
    """What taking a move back is called; a `restore` is taken back by what it had restored from."""
    if op != "restore":
        return "restore"
    if before.get("invalid_at") is not None:
        return "supersede"
    return OPS.get(before.get("forgotten_reason", ""), "forget")
