"""The rules that all readers of other systems share: times, ids, scopes, and how two sets of metadata become one."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import unicodedata
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from storage.errors import Invalid
from storage.instants import EARLIEST, LATEST, parse_instant
from storage.model import DEFAULT_SCOPE, EVERY_SCOPE
from storage.text import clean_id, is_blank

#: Five such levels make a scope within its limit.
MAX_LEVEL_CHARS: Final = 48
#: From here on, a number is a time in milliseconds: in seconds it would be the year 5138.
MILLISECONDS_FROM: Final = 1e11

_IDS: Final = uuid.UUID("2c1c6f0e-0a5f-5b6e-9d0b-6d656d6f7279")
#: Digits alone are seconds since 1970 from nine of them on; eight are a calendar day.
_EPOCH: Final = re.compile(r"-?[0-9]{9,}(?:\.[0-9]*)?")
_LEAST, _MOST = -(2**63), 2**63 - 1  # what a store can keep of a whole number


def instant(value: Any) -> float | None:
    """Epoch seconds of a time in any shape: naive (UTC), with a zone, a calendar day, or a number since 1970.

    None where there is no time. Raises ValueError where it is none, or outside the years 1 to 9999.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _since_1970(value)
    if not isinstance(value, str):
        return parse_instant(value)
    text = value.strip()
    if _EPOCH.fullmatch(text):
        return _since_1970(float(text))
    try:
        return parse_instant(text)
    except ValueError as error:
        return _any_iso(text, error)


def identity(own: str, system: str) -> str:
    """The id itself where ours may look so, else one that is always the same for it."""
    try:
        return clean_id(own)
    except Invalid:
        return stable_id(system, own)


def stable_id(*names: str) -> str:
    """An id that is always the same for these names."""
    return str(uuid.uuid5(_IDS, "\0".join(names)))


def scope(user: str = "", agent: str = "", session: str = "", app: str = "", part: str = "") -> str:
    """A path of the ids that are there, coarsest first: `app/user/agent/session/part`; without app and user, `default/…`."""
    names = [app, user or ("" if app else DEFAULT_SCOPE), agent, session, part]
    return "/".join(level(name) for name in names if name)


def level(name: str) -> str:
    """An id as one level of a scope; one that is none, such as `a/b`, is altered and told from all others by a hash."""
    name = unicodedata.normalize("NFC", name)
    printed = "".join(c if c.isprintable() and c != "/" else "-" for c in name).strip()
    if printed == name and len(name) <= MAX_LEVEL_CHARS and not is_blank(name) and name != EVERY_SCOPE:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:10]
    stem = printed.strip(" *")[: MAX_LEVEL_CHARS - len(mark) - 1].strip()
    return mark if is_blank(stem) else f"{stem}-{mark}"


def beside(metadata: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Both together; a key that is taken by another value gets a number behind it."""
    joined = dict(metadata)
    for key, value in more.items():
        name, number = key, 2
        while name in joined and joined[name] != value:
            name, number = f"{key}_{number}", number + 1
        joined[name] = value
    return joined


def plain(value: Any) -> Any:
    """The value as metadata can hold it: bytes in Base64, a number that no store can keep as a text."""
    match value:
        case dict():
            return {str(key): plain(member) for key, member in value.items()}
        case list():
            return [plain(member) for member in value]
        case bytes():
            return base64.b64encode(value).decode()
        case bool():
            return value
        case int() if not _LEAST <= value <= _MOST:
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
    return value


def _since_1970(number: float) -> float:
    if abs(number) > 1e18 or number != number:  # noqa: PLR0124 - it is not a number
        raise ValueError("a time that is no number of seconds since 1970")
    seconds = number / 1000 if abs(number) >= MILLISECONDS_FROM else float(number)
    return _within_reach(seconds)


def _any_iso(text: str, error: ValueError) -> float:
    """What ISO 8601 allows beyond RFC 3339, such as +0800 or 20260504. Raises `error` where it is not that either."""
    try:
        moment = datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise error from None
    return _within_reach(seconds)


def _within_reach(seconds: float) -> float:
    if not EARLIEST <= seconds <= LATEST:
        raise ValueError("a time outside the years 1 to 9999")
    return seconds
