"""What the event stream calls what was done to memories and edges.

All of it is called in the lane, right after it was done, so that events come in the order of what they tell. One rule holds
for whoever did it: `remembered` is new, `updated` is any field but those that have an event of their own (`tier_changed`,
`heat_changed`); an access is no event. `forgotten` lies in the bin, `purged` is gone for good, and the edges that went with
it are not told apart; neither are the `next` edges that keep the order of a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from daemon.events import Events
from storage.catalogue import Catalogue
from storage.changes import Change, Edge, Erase, Insert, Move, Patch, RecordChange
from storage.model import Memory, Synapse
from storage.remember import Written

#: What a new memory is called where one of these jobs made it.
BROUGHT: Final = {"extract": "extracted", "consolidate": "consolidated", "summarize": "consolidated"}
MERGING: Final = frozenset({"merge", "dedup"})  # what these supersede lives on in the survivor
USES: Final = frozenset({"accessed_at", "access_count", "access_days", "cooled_at_count"})
OWN: Final = {"tier": "tier_changed", "heat": "heat_changed"}  # fields with an event of their own


def changes(events: Events, job: str, made: Iterable[tuple[Change, str]]) -> None:
    """Tell what a run of `job` changed, each change with its scope: one event a type and scope."""
    ids: dict[tuple[str, str], dict[str, None]] = {}
    edges: dict[tuple[str, str], int] = {}
    for change, scope in made:
        for kind in _kinds(job, change):
            ids.setdefault((kind, scope), {}).update(dict.fromkeys(_ids(job, change)))
            if isinstance(change, Edge):
                edges[kind, scope] = edges.get((kind, scope), 0) + 1
    for (kind, scope), named in ids.items():
        count = edges.get((kind, scope))
        events.emit(kind, scope, tuple(named), None if count is None else {"edges": count})


def written(events: Events, write: Written) -> None:
    """Tell what a `remember` or an `update` did; where it changed nothing, nothing."""
    memory = write.memory
    if write.created or write.restored:
        events.emit("remembered" if write.created else "restored", memory.scope, [memory.id])
    else:
        for kind in _edited(write.changed):
            events.emit(kind, memory.scope, [memory.id])
    if write.linked:
        events.emit("linked", memory.scope, [memory.id, *write.linked], {"edges": len(write.linked)})
    if write.superseded:
        events.emit("superseded", memory.scope, write.superseded)


def taken(events: Events, catalogue: Catalogue, rows: Iterable[Memory]) -> None:
    """Tell what became of rows that were to be forgotten; they are given as they were."""
    ids: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        now = catalogue.get(row.id)
        if now is None:
            ids.setdefault(("purged", row.scope), []).append(row.id)
        elif now.seq != row.seq:
            ids.setdefault((now.state, row.scope), []).append(row.id)  # forgotten or superseded
    for (kind, scope), named in ids.items():
        events.emit(kind, scope, named)


def joined(events: Events, edge: Synapse, scope: str, *, gone: bool = False) -> None:
    """Tell of an edge that a person made, strengthened or removed."""
    events.emit("pruned" if gone else "linked", scope, [edge.a, edge.b], {"edges": 1})


def _kinds(job: str, change: Change) -> Iterator[str]:
    """The types of event that one change is told by; what is none of memories and edges is told by none."""
    match change:
        case Insert(row) if row.state == "live":
            yield BROUGHT.get(job, "remembered")
        case Patch(fields=fields):
            yield from _edited(fields)
        case Move(op="supersede"):
            yield "merged" if job in MERGING else "superseded"
        case Move(op="expire"):
            yield "expired"
        case Move(op="restore"):
            yield "restored"
        case Move(fields={"forgotten_reason": "decayed"}):
            yield "decayed"
        case Move():
            yield "forgotten"
        case Erase():
            yield "purged"
        case RecordChange(before=None, after={"kind": "comment"}) if job == "import":
            yield "commented"
        case Edge(before=None, after=Synapse(kind=kind)) if kind != "next":
            yield "linked"
        case Edge(before=Synapse(kind=kind), after=None) if kind != "next":
            yield "pruned"


def _ids(job: str, change: Change) -> Sequence[str]:
    """The memories that one change is about; of a merge the survivor first."""
    match change:
        case Insert(row):
            return (row.id,)
        case Move(memory, op="supersede", fields={"superseded_by": str(survivor)}) if job in MERGING:
            return (survivor, memory)
        case Patch(memory) | Move(memory) | Erase(memory):
            return (memory,)
        case RecordChange(after={"owner": memory}):
            return (memory,)
        case Edge(before=Synapse(a, b)) | Edge(after=Synapse(a, b)):
            return (a, b)
    return ()


def _edited(fields: Iterable[str]) -> Iterator[str]:
    """What setting these fields is called."""
    given = frozenset(fields) - USES
    if given - OWN.keys():
        yield "updated"
    for name in sorted(given & OWN.keys()):
        yield OWN[name]
