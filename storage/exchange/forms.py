"""How our own formats tell what is stored: for each kind the fields of one record, in the order in which they stand.

Instants are RFC 3339. Numbers are told so that they survive the engine, which may alter the last digit of a float: a file
made of what was imported from this one is the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from storage.comments import Comment
from storage.engine import Payload
from storage.exchange.items import KINDS
from storage.instants import format_instant
from storage.model import TUPLES, Memory, Synapse, Version
from storage.talk import State, Turn

FORMAT: Final = "dreamd"
FORMAT_VERSION: Final = 1
HEADER: Final = "header"
#: The list of a JSON document in which each kind stands.
PLURALS: Final = dict(
    zip(KINDS, ("memories", "versions", "edges", "comments", "facts", "turns", "session_states"), strict=True)
)
#: The fields of a memory. `state` and `content_hash` follow from others, and are passed over on the way back.
MEMORY_FIELDS: Final = (
    "id", "content", "author", "context", "scope", "session", "type", "subtype", "tags", "entities", "metadata", "tier",
    "heat", "pinned", "emotion", "importance", "confidence", "source", "provenance", "sensitivity", "source_turns",
    "redactions", "version", "change_summary", "state", "created_at", "updated_at", "event_at", "accessed_at",
    "access_count", "access_days", "cooled_at_count", "expires_at", "invalid_at", "superseded_by", "forgotten_at",
    "forgotten_reason", "content_hash",
)  # fmt: skip
DERIVED: Final = frozenset({"state", "content_hash"})
#: Which fields of a kind are instants.
INSTANTS: Final[Mapping[str, frozenset[str]]] = {
    "memory": frozenset(name for name in MEMORY_FIELDS if name.endswith("_at")),
    "version": frozenset({"created_at", "replaced_at"}),
    "edge": frozenset({"as_of", "created_at"}),
    "comment": frozenset({"created_at", "read_at"}),
    "fact": frozenset({"created_at", "updated_at"}),
    "turn": frozenset({"at", "extracted_at"}),
    "session_state": frozenset({"written_at"}),
}

_STEPS: Final = 64  # from a float to the nearest that survives; four out of five need none, hardly any needs three
#: Beyond this instant, 2242, a float no longer tells microseconds apart.
_MICROSECONDS_UNTIL: Final = 2.0**33
_LARGEST: Final = 308  # power of ten in a float


def of_memory(memory: Memory, superseded_by: str | None) -> dict[str, Any]:
    """A memory; `superseded_by` is its successor if that may be told, never the stored one."""
    told = {name: getattr(memory, name) for name in MEMORY_FIELDS} | {"superseded_by": superseded_by}
    return _told("memory", {name: list(value) if name in TUPLES else value for name, value in told.items()})


def of_version(version: Version) -> dict[str, Any]:
    """A former text of a memory."""
    return _told("version", version._asdict() | {"tags": list(version.tags)})


def of_edge(edge: Synapse) -> dict[str, Any]:
    """An edge; its own kind is `edge_kind`."""
    told = {"a": edge.a, "b": edge.b, "weight": edge.weight, "as_of": edge.as_of, "edge_kind": edge.kind}
    return _told("edge", told | {"label": edge.label, "created_at": edge.created_at})


def of_comment(comment: Comment, reply_to: str | None) -> dict[str, Any]:
    """A comment; `reply_to` is what it answers if that may be told."""
    names = ("id", "memory", "author", "content", "sensitivity", "created_at", "read", "read_at")
    return _told("comment", {name: getattr(comment, name) for name in names} | {"reply_to": reply_to})


def of_fact(payload: Payload) -> dict[str, Any]:
    """A fact as it is stored; its value is told exactly, for no engine has touched the numbers in it."""
    names = ("scope", "key", "sensitivity", "created_at", "updated_at")
    return _told("fact", {name: payload[name] for name in names}) | {"value": json.loads(payload["value"])}


def of_turn(turn: Turn, ended: str | None) -> dict[str, Any]:
    """A turn; `ended` is the memory that its session became, empty where that may not be told."""
    names = (
        "id", "scope", "session", "number", "role", "content", "metadata", "importance", "tokens", "counter", "sensitivity",
        "at", "extracted", "extracted_at",
    )  # fmt: skip
    return _told("turn", {name: getattr(turn, name) for name in names} | {"ended": ended})


def of_state(state: State) -> dict[str, Any]:
    """A session state."""
    return _told("session_state", state._asdict())


def told_instant(seconds: float | None) -> str | None:
    """RFC 3339, in milliseconds where a float has no microseconds to tell."""
    if seconds is not None and abs(seconds) >= _MICROSECONDS_UNTIL:
        seconds = round(seconds, 3)
    return format_instant(seconds)


def told_number(value: Any) -> Any:
    """A JSON value in which every float is the nearest one that the engine gives back as it is: in most cases itself."""
    match value:
        case float():
            return _surviving(value)
        case dict():
            return {key: told_number(inner) for key, inner in value.items()}
        case list() | tuple():
            return [told_number(inner) for inner in value]
    return value


def as_read(value: float) -> float:
    """What the engine reads for a float: the digits of its shortest decimal, then a power of ten, each step rounded."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    if not isinstance(exponent, int):  # infinite
        return math.nan
    number = float(int("".join(map(str, digits))))
    while exponent < -_LARGEST:
        number /= _power(_LARGEST)
        exponent += _LARGEST
    number = number / _power(-exponent) if exponent < 0 else number * _power(exponent)
    return -number if sign else number


def to_json(told: Any) -> str:
    """One record, or one cell, as JSON on one line."""
    return json.dumps(told, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _surviving(value: float) -> float:
    """The float nearest to this one that is read as it is."""
    below = above = value
    for _ in range(_STEPS):
        for one in (below, above):
            if as_read(one) == one:
                return one
        below, above = math.nextafter(below, -math.inf), math.nextafter(above, math.inf)
    return value


def _power(exponent: int) -> float:
    """The float nearest to a power of ten, which `**` is not always."""
    return float(f"1e{exponent}")


def _told(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    instants = INSTANTS[kind]
    shown = {name: told_instant(value) if name in instants else told_number(value) for name, value in fields.items()}
    return {"kind": kind, **shown}
