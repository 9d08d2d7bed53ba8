"""Merging: two memories that say the same become one, and nothing that hung on either is lost.

The survivor keeps its id, text, context, type and session. Of each mark it takes the stronger, of what is counted the
sum, of what is listed the union. The other's edges, comments and former versions become its own; the other goes to the
bin as superseded by it. All of it is one batch of journalled changes, so that an undo brings everything back.

Versions and comments remember whose they were (`origins`): where that memory is erased for good, they go with it. What was
united is the survivor's own from then on, and stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from storage.changes import Change, Edge, Move, Patch, RecordChange
from storage.engine import Payload
from storage.errors import Conflict, Refused, command
from storage.fading import Awake, add
from storage.forget import MERGED
from storage.memories import missing
from storage.model import HEATS, SENSITIVITIES, TIERS, Memory, Synapse
from storage.records import version_key, version_payload
from storage.remember import NEXT_WEIGHT, VERSIONED, former_version
from storage.store import Stores
from storage.synapses import ASSOCIATIVE, faded, stronger_kind
from storage.text import MAX_METADATA_BYTES, MAX_TAGS
from storage.where import Where

#: Marks of which the higher one holds.
_RANKS: Final[Mapping[str, Sequence[str]]] = {"tier": TIERS, "heat": HEATS, "sensitivity": SENSITIVITIES}
_SHARES: Final = ("importance", "confidence", "emotion", "access_days")
_COUNTS: Final = ("access_count", "cooled_at_count")
_LISTS: Final = ("tags", "entities", "source_turns")


def intended(stores: Stores, survivor: str, duplicate: str, clearance: str, now: float) -> list[Change]:
    """The plan against what is stored at this moment, to be applied in the same lane call. Called in the lane.

    Raises NotFound for what is not there or hidden, Conflict for what lies in the bin or is merged with itself, Refused
    across scopes or where the two together are over a limit.
    """
    one, other = (_there(stores, memory, clearance, now) for memory in (survivor, duplicate))
    if survivor == duplicate:
        raise Conflict("A memory cannot be merged with itself.", hint=command("get", survivor))
    if one.scope != other.scope:
        raise Refused(
            f"{survivor!r} and {duplicate!r} lie in different scopes; nothing is merged across scopes.",
            hint=command("get", duplicate),
        )
    ends = (survivor, duplicate, *stores.synapses.before(duplicate))
    edges = {edge.key: edge for end in ends for edge in stores.synapses.of(end)}
    records = stores.records.of(survivor) | stores.records.of(duplicate)
    whole = stores.memories.read((survivor, duplicate))
    return plan(whole[survivor], whole[duplicate], edges.values(), records, now, stores.awake)


def plan(
    survivor: Memory, duplicate: Memory, edges: Iterable[Synapse], records: Mapping[str, Payload], now: float, awake: Awake
) -> list[Change]:  # fmt: skip
    """The changes that make two whole live memories of one scope one; no two of them are about the same thing.

    `edges` are those at both, and those at the memories that the duplicate follows in its session; `records` are those
    of both, by key. Raises Refused where the two together have more tags or metadata than one memory may.
    """
    fields = _fields(survivor, duplicate)
    mine = {key: payload for key, payload in records.items() if payload["owner"] == survivor.id}
    theirs = {key: payload for key, payload in records.items() if payload["owner"] == duplicate.id}
    number = first = max([survivor.version, *(payload["number"] + 1 for payload in _versions(mine))])
    kept: list[Change] = []
    if any(name in fields for name in VERSIONED):
        former = former_version(survivor, now)._replace(number=number)
        kept.append(RecordChange(version_key(survivor.id, number), None, version_payload(former), survivor.scope))
        number += 1
    moved = [*_moved(theirs, survivor, duplicate, number)]
    number += sum(1 for _ in _versions(theirs))
    if number > first:
        fields["version"] = number
        fields.setdefault("sensitivity", survivor.sensitivity)  # an undo is to know how guarded it was
    fields["change_summary"] = f"merged with {duplicate.id}"
    gone = {"invalid_at": now, "superseded_by": survivor.id, "forgotten_reason": MERGED}
    return [
        *kept,
        Patch(survivor.id, survivor.seq, fields),
        Move(duplicate.id, duplicate.seq, gone, "supersede"),
        *moved,
        *_edges(survivor, duplicate, {edge.key: edge for edge in edges}, now, awake),
    ]


def _there(stores: Stores, memory: str, clearance: str, now: float) -> Memory:
    row = stores.memories.live(memory, clearance, now)
    if not Where(now=now, clearance=clearance).admits(row):  # past its end
        raise missing(memory)
    return row


# -- fields


def _fields(survivor: Memory, duplicate: Memory) -> dict[str, Any]:
    """The survivor's fields that differ once both are one. Raises Refused."""
    both = (survivor, duplicate)
    united: dict[str, Any] = {
        name: max((getattr(one, name) for one in both), key=ranks.index) for name, ranks in _RANKS.items()
    }
    united |= {name: max(getattr(one, name) for one in both) for name in _SHARES}
    united |= {name: sum(getattr(one, name) for one in both) for name in _COUNTS}
    united |= {name: tuple(dict.fromkeys(getattr(survivor, name) + getattr(duplicate, name))) for name in _LISTS}
    united["metadata"] = survivor.metadata | {
        name: value for name, value in duplicate.metadata.items() if name not in survivor.metadata
    }
    united["pinned"] = survivor.pinned or duplicate.pinned
    united["created_at"] = min(one.created_at for one in both)
    # Saying it again renews it: were it as old as the survivor alone, the next night could take what was said today.
    united["updated_at"] = max(max(one.created_at, one.updated_at) for one in both)
    united["accessed_at"] = max((one.accessed_at for one in both if one.accessed_at is not None), default=None)
    ends = [one.expires_at for one in both if one.expires_at is not None]
    united["expires_at"] = max(ends) if len(ends) == len(both) else None
    _check_limits(survivor, duplicate, united)
    return {name: value for name, value in united.items() if value != getattr(survivor, name)}


def _check_limits(survivor: Memory, duplicate: Memory, united: Mapping[str, Any]) -> None:
    """Refuse what no edit, import or revert could say again."""
    size = len(json.dumps(united["metadata"], ensure_ascii=False, separators=(",", ":")).encode())
    for name, amount, limit in (
        ("tags", len(united["tags"]), MAX_TAGS), ("bytes of metadata", size, MAX_METADATA_BYTES),
    ):  # fmt: skip
        if amount > limit:
            raise Refused(
                f"{survivor.id!r} and {duplicate.id!r} have {amount} {name} together; the limit is {limit}.",
                hint=f"{command('update', duplicate.id)} with fewer of them, then merge",
            )


# -- records


def _moved(theirs: Mapping[str, Payload], survivor: Memory, duplicate: Memory, number: int) -> Iterator[RecordChange]:
    """The duplicate's records as the survivor's; former versions take numbers from `number` on, in their order."""
    versions = [key for key, payload in theirs.items() if payload.get("kind") == "version"]
    for key in sorted(versions, key=lambda key: (theirs[key]["replaced_at"], theirs[key]["number"])):
        after = _handed_over(theirs[key], survivor.id, duplicate.id) | {"number": number}
        yield RecordChange(key, theirs[key], None, survivor.scope)
        yield RecordChange(version_key(survivor.id, number), None, after, survivor.scope)
        number += 1
    for key, payload in theirs.items():
        if payload.get("kind") != "version":
            yield RecordChange(key, payload, _handed_over(payload, survivor.id, duplicate.id), survivor.scope)


def _versions(records: Mapping[str, Payload]) -> Iterator[Payload]:
    return (payload for payload in records.values() if payload.get("kind") == "version")


def _handed_over(payload: Payload, survivor: str, duplicate: str) -> Payload:
    """A record that belongs to the survivor now; a version also names its memory.

    One that comes back to where it was before is again what it was there: nobody that had it since has a part in it.
    """
    origins = [*payload.get("origins", ()), duplicate]
    if survivor in origins:
        origins = origins[: origins.index(survivor)]
    named = {"memory": survivor} if payload.get("memory") == duplicate else {}
    plain = {name: value for name, value in payload.items() if name != "origins"}
    return plain | {"owner": survivor} | named | ({"origins": origins} if origins else {})


# -- edges


def _edges(
    survivor: Memory, duplicate: Memory, known: Mapping[str, Synapse], now: float, awake: Awake
) -> Iterator[Edge]:
    """The duplicate's edges as the survivor's; its neighbours in its session are joined, as when a memory leaves one."""
    theirs = [edge for edge in known.values() if duplicate.id in (edge.a, edge.b)]
    after: dict[str, Synapse | None] = dict.fromkeys((edge.key for edge in theirs), None)
    for edge in theirs:
        if edge.kind == "next" or edge.other(duplicate.id) in (survivor.id, duplicate.id):
            continue
        carried = _carried(edge, survivor.id, duplicate.id)
        held = known.get(carried.key)
        after[carried.key] = carried if held is None else _added(held, carried, now, awake)
    joined = {edge.key: edge for edge in _joined(theirs, duplicate.id, now)}
    after |= {key: edge for key, edge in joined.items() if key not in known}
    for key, one in after.items():
        if one != known.get(key):
            yield Edge(key, known.get(key), one, survivor.scope)


def _carried(edge: Synapse, survivor: str, duplicate: str) -> Synapse:
    """An edge with the survivor at the duplicate's end; the direction of `derived` stays."""
    a, b = (survivor if end == duplicate else end for end in (edge.a, edge.b))
    if edge.kind in ASSOCIATIVE:
        a, b = sorted((a, b))
    return edge._replace(a=a, b=b)


def _added(held: Synapse, other: Synapse, now: float, awake: Awake) -> Synapse:
    """Two edges of one pair as one; of two that say `derived` the first says it."""
    if held.kind not in ASSOCIATIVE:
        return held
    return held._replace(
        kind=stronger_kind(held.kind, other.kind), weight=float(add(faded(held, now, awake), faded(other, now, awake))),
        as_of=now, created_at=min(held.created_at, other.created_at), label=held.label or other.label,
    )  # fmt: skip


def _joined(edges: Sequence[Synapse], memory: str, now: float) -> Iterator[Synapse]:
    """What comes before a memory in its session joined to what comes after it."""
    chain = [edge for edge in edges if edge.kind == "next"]
    before, after = [edge.a for edge in chain if edge.b == memory], [edge.b for edge in chain if edge.a == memory]
    return (Synapse(a, b, "next", NEXT_WEIGHT, now, now) for a in before for b in after if a != b)
