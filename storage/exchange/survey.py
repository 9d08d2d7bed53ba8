"""What an export covers: found out first, in short calls of the lane, then read a few records at a time.

Only ids, keys and what orders them are kept in RAM. What goes, or rises above the clearance, meanwhile is left out when it
is read. Nothing here runs in the lane but what it hands to `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from typing import Any, Final

from storage.comments import from_payload as comment_of
from storage.engine import Payload
from storage.exchange import forms
from storage.model import Memory, Synapse, cleared, covers
from storage.records import RECORDS, version_of
from storage.store import Stores
from storage.talk import state_of, turn_of

Read = Callable[..., Any]  # makes one call in the lane, behind the requests

#: The record kinds, and by which of their fields each is ordered.
ORDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "version": ("memory", "number"),
    "comment": ("created_at", "id"),
    "fact": ("scope", "key"),
    "turn": ("scope", "session", "at", "number", "id"),
    "session_state": ("scope", "number"),
}
OF_A_MEMORY: Final = ("version", "comment")
#: Records read in one call of the lane; each may be a megabyte.
BATCH: Final = 32
SORTED: Final = 2_000  # items in one go: 2 ms

_FIELDS: Final = tuple({"kind", "owner", "scope", "sensitivity", *chain.from_iterable(ORDERS.values())})


@dataclass(slots=True)
class Survey:
    """What one export covers: memories in the order of creation, and the keys of records, by kind and in order."""

    scope: str
    clearance: str
    memories: list[str] = field(default_factory=list)
    records: dict[str, list[str]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # the memories
    comments: set[str] = field(default_factory=set)  # ids of those that may be told

    def covers(self, kind: str, payload: Mapping[str, Any]) -> bool:
        """Whether a record is in the scope, with its memory if it has one, and its own level is cleared."""
        inside = payload["owner"] in self.known if kind in OF_A_MEMORY else covers(self.scope, payload["scope"])
        return inside and cleared(payload["sensitivity"], self.clearance)

    def total(self, kinds: Sequence[str]) -> int:
        """How many memories and records of these kinds there are."""
        return len(self.memories) * ("memory" in kinds) + sum(len(self.records.get(kind, ())) for kind in kinds)


def surveyed(stores: Stores, read: Read, scope: str, clearance: str) -> Survey:
    """Find out what there is."""
    survey = Survey(scope, clearance)
    rows = [row for row in read(_rows, stores, scope) if cleared(row.sensitivity, clearance)]
    survey.memories = [memory for _, memory in _in_order([(row.created_at, row.id) for row in rows])]
    survey.known = set(survey.memories)
    found: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in ORDERS}
    batches = stores.engine.scroll(RECORDS, fields=_FIELDS)
    while (batch := read(next, batches, None)) is not None:
        for record in batch:
            kind = record.payload.get("kind", "")
            if kind in ORDERS and survey.covers(kind, record.payload):
                found[kind].append((*(record.payload.get(name) for name in ORDERS[kind]), record.id))
                if kind == "comment":
                    survey.comments.add(record.payload["id"])
    survey.records = {kind: [key for *_, key in _in_order(entries)] for kind, entries in found.items()}
    return survey


def memories(stores: Stores, read: Read, survey: Survey) -> Iterator[list[dict[str, Any]]]:
    """The memories as they are when they are read, in batches."""
    for ids in _parts(survey.memories):
        found: Mapping[str, Memory] = read(stores.memories.read, ids)
        yield [
            forms.of_memory(one, one.superseded_by if one.superseded_by in survey.known else None)
            for one in map(found.get, ids)
            if one is not None and cleared(one.sensitivity, survey.clearance)
        ]


def records(stores: Stores, read: Read, survey: Survey, kind: str) -> Iterator[list[dict[str, Any]]]:
    """The records of a kind as they are when they are read, in batches."""
    for keys in _parts(survey.records[kind]):
        found: Mapping[str, Payload] = read(stores.records.get, keys)
        payloads = (found[key] for key in keys if key in found)
        yield [_told(kind, payload, survey) for payload in payloads if survey.covers(kind, payload)]


def edges(stores: Stores, read: Read, survey: Survey, told: set[str]) -> Iterator[list[dict[str, Any]]]:
    """The edges of which both ends were told, in batches, each at the memory that it goes out from."""
    for ids in _parts([memory for memory in survey.memories if memory in told]):
        found: Sequence[Synapse] = read(_edges, stores, ids)
        yield [forms.of_edge(edge) for edge in found if edge.b in told]


def _rows(stores: Stores, scope: str) -> list[Memory]:
    return [*stores.catalogue.rows(scope), *stores.catalogue.gone(scope)]


def _edges(stores: Stores, ids: Sequence[str]) -> list[Synapse]:
    """The edges that go out from these memories."""
    return [
        edge
        for memory in ids
        for edge in sorted(stores.synapses.of(memory), key=lambda edge: (edge.b, edge.kind))
        if edge.a == memory
    ]


def _in_order(items: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Sorted, a part at a time: one long sort would let no other thread work meanwhile."""
    return merge(*(sorted(items[start : start + SORTED]) for start in range(0, len(items), SORTED)))


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _told(kind: str, payload: Payload, survey: Survey) -> dict[str, Any]:
    """A record, and whose a merge took it from, of those that may be told."""
    origins = [one for one in payload.get("origins", ()) if one in survey.known]
    return _as_told(kind, payload, survey) | ({"origins": origins} if origins else {})


def _as_told(kind: str, payload: Payload, survey: Survey) -> dict[str, Any]:
    match kind:
        case "version":
            return forms.of_version(version_of(payload))
        case "comment":
            comment = comment_of(payload)
            return forms.of_comment(comment, comment.reply_to if comment.reply_to in survey.comments else None)
        case "fact":
            return forms.of_fact(payload)
        case "turn":
            turn = turn_of(payload)
            return forms.of_turn(turn, turn.ended if turn.ended is None or turn.ended in survey.known else "")
    return forms.of_state(state_of(payload))
