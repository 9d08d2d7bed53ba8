"""What each field of an item may hold, whichever reader it came from. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from storage.exchange.forms import DERIVED
from storage.exchange.items import Item
from storage.exchange.mapping import beside, plain
from storage.exchange.telling import NULLABLE
from storage.instants import EARLIEST, LATEST
from storage.model import (
    EDGE_KINDS,
    HEATS,
    MAX_EDGE_WEIGHT,
    PROVENANCES,
    SENSITIVITIES,
    SOURCES,
    STATES,
    TIERS,
    TYPES,
    Memory,
)

#: Says in words what is wrong where it raises ValueError; gives the value as it is kept.
Check = Callable[[Any], Any]

#: What nobody counts up to: the engine keeps 63 bits, and a number is still to be added to.
MAX_COUNT: Final = 10**9
_MOST_MICROSECONDS: Final = 2**53
_SPOKEN_BY: Final = ("user", "assistant", "system", "tool")


def checked(item: Item) -> tuple[dict[str, Any], list[str]]:
    """The fields under our names, and the names of those that this kind of item has no place for.

    What a memory, a version or a turn has beside them goes into its metadata. Raises ValueError, whose words quote nothing.
    """
    checks = CHECKS[item.kind]
    fields: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    given = _with_type(item.fields) if item.kind in ("memory", "version") else item.fields
    for name, value in given.items():
        if value is None and name != NULLABLE:
            continue
        if name in checks:
            try:
                fields[name] = checks[name](value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif not (item.kind == "memory" and name in DERIVED):
            rest[name] = value
    missing = [name for name in REQUIRED[item.kind] if name not in fields]
    if missing:
        raise ValueError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    if item.kind == "memory":
        _check_state(fields, given.get("state"))
    if rest and "metadata" in checks:
        added = {name: plain(value) for name, value in rest.items()}
        fields["metadata"] = beside(fields.get("metadata", {}), added)
        rest = {}
    return fields, sorted(rest)


def _with_type(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A type outside our four is the subtype, or where that says something else, metadata."""
    given = fields.get("type")
    if not isinstance(given, str) or given.strip().lower() in TYPES:
        return fields
    rest = {name: value for name, value in fields.items() if name != "type"}
    if not given.strip():
        return rest
    if rest.get("subtype", "") in ("", given):
        return rest | {"subtype": given}
    metadata = rest.get("metadata", {})
    return rest | {"metadata": beside(metadata, {"type": given}) if isinstance(metadata, dict) else metadata}


def _check_state(fields: Mapping[str, Any], named: Any) -> None:
    """Raise ValueError where the fields that make the state of a memory contradict each other."""
    state = Memory(id="", invalid_at=fields.get("invalid_at"), forgotten_at=fields.get("forgotten_at")).state
    if "superseded_by" in fields and state != "superseded":
        raise ValueError("superseded_by: there is no invalid_at")
    if named is not None and named != state:
        shown = named if named in STATES else "something else"
        raise ValueError(f"state: it says {shown}, and the times say {state}")


# -- the checks


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is no text")  # noqa: TRY004 - whatever an item is refused for is a ValueError
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError("it is no list of texts")
    return list(value)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("it is neither true nor false")  # noqa: TRY004
    return value


def _number(value: Any, low: float, high: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("it is no number")
    if not low <= value <= high:
        raise ValueError(f"it is no number from {low:g} to {high:g}")
    return float(value)


def _share(value: Any) -> float:
    return _number(value, 0.0, 1.0)


def _weight(value: Any) -> float:
    weight = _number(value, 0.0, MAX_EDGE_WEIGHT)
    if weight == 0.0:
        raise ValueError("an edge without weight is none")
    return weight


def _seconds(value: Any) -> float:
    return _number(value, 0.0, LATEST)


def _instant(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not EARLIEST <= value <= LATEST:
        raise ValueError("it is no time between the years 1 and 9999")
    return float(value)


def _count(value: Any, least: int = 0, most: int = MAX_COUNT) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"it is no whole number from {least} to {most}")
    return value


def _from_one(value: Any) -> int:
    return _count(value, 1)


def _state_number(value: Any) -> int:
    """The number of a session state, which is made of microseconds."""
    return _count(value, 1, _MOST_MICROSECONDS)


def _counts(value: Any) -> dict[str, int]:
    return {name: _count(count) for name, count in _object(value).items()}


def _anything(value: Any) -> Any:
    return value


def _one_of(words: tuple[str, ...]) -> Check:
    def check(value: Any) -> str:
        word = _text(value).strip().lower()
        if word not in words:
            raise ValueError(f"it is none of {', '.join(words)}")
        return word

    return check


_LEVEL: Final = _one_of(SENSITIVITIES)
_TYPE: Final = _one_of(TYPES)

#: Every field of every kind, and what it may hold.
CHECKS: Final[Mapping[str, Mapping[str, Check]]] = {
    "memory": {
        "id": _text, "content": _text, "author": _text, "context": _text, "scope": _text, "session": _text, "type": _TYPE,
        "subtype": _text, "tags": _texts, "entities": _texts, "metadata": _object, "tier": _one_of(TIERS),
        "heat": _one_of(HEATS), "pinned": _flag, "emotion": _share, "importance": _share, "confidence": _share,
        "source": _one_of(SOURCES), "provenance": _one_of(PROVENANCES), "sensitivity": _LEVEL, "source_turns": _texts,
        "redactions": _counts, "version": _from_one, "change_summary": _text, "created_at": _instant, "updated_at": _instant,
        "event_at": _instant, "accessed_at": _instant, "access_count": _count, "access_days": _count,
        "cooled_at_count": _count, "expires_at": _instant, "invalid_at": _instant, "superseded_by": _text,
        "forgotten_at": _instant, "forgotten_reason": _text,
    },
    "version": {
        "memory": _text, "number": _from_one, "content": _text, "context": _text, "type": _TYPE, "tags": _texts,
        "metadata": _object, "sensitivity": _LEVEL, "change_summary": _text, "created_at": _instant, "replaced_at": _instant,
        "origins": _texts,
    },
    "edge": {
        "a": _text, "b": _text, "kind": _one_of(EDGE_KINDS), "weight": _weight, "label": _text, "as_of": _instant,
        "created_at": _instant,
    },
    "comment": {
        "id": _text, "memory": _text, "author": _text, "content": _text, "reply_to": _text, "sensitivity": _LEVEL,
        "created_at": _instant, "read": _flag, "read_at": _instant, "origins": _texts,
    },
    "fact": {
        "scope": _text, "key": _text, "value": _anything, "sensitivity": _LEVEL, "created_at": _instant,
        "updated_at": _instant,
    },
    "turn": {
        "id": _text, "scope": _text, "session": _text, "number": _count, "role": _one_of(_SPOKEN_BY), "content": _text,
        "metadata": _object, "importance": _share, "tokens": _count, "counter": _text, "sensitivity": _LEVEL, "at": _instant,
        "ended": _text, "extracted": _flag, "extracted_at": _instant,
    },
    "session_state": {
        "scope": _text, "number": _state_number, "written_at": _instant, "sensitivity": _LEVEL, "session": _text,
        "interval_s": _seconds, "text": _text,
    },
}  # fmt: skip
REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "memory": ("content",), "version": ("memory", "number", "content"), "edge": ("a", "b", "weight"),
    "comment": ("memory", "content"), "fact": ("key", "value"), "turn": ("session", "content"), "session_state": ("text",),
}  # fmt: skip
