"""The first half of the write gate: every text, tag, scope, id and metadata value in one form, or refused with the reason.

Pure. What is accepted is in Unicode NFC and otherwise as it was given; each function leaves its own results unchanged.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

from storage.errors import Invalid, TooLarge
from storage.model import EVERY_SCOPE, MAX_CONTENT_BYTES, MAX_ID_CHARS

MAX_TAGS: Final = 64
MAX_TAG_CHARS: Final = 128
MAX_SCOPE_CHARS: Final = 256
MAX_KEY_CHARS: Final = 256
MAX_METADATA_DEPTH: Final = 16
MAX_METADATA_BYTES: Final = MAX_CONTENT_BYTES

#: What a store can keep of a whole number: 64 bits.
_LEAST, _MOST = -(2**63), 2**63 - 1

_UNWRITABLE: Final = re.compile("[\0\ud800-\udfff]")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})  # Unicode categories of controls, formats and separators
#: Fillers and selectors which draw nothing although their category says letter, mark or symbol.
_FILLERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | {
    chr(c) for c in range(0xFE00, 0xFE10)
}
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,31}")


def clean(text: str, field: str, *, max_bytes: int, blank_ok: bool = False) -> str:
    """The text in NFC, at most `max_bytes` of UTF-8, else byte for byte.

    Raises Invalid where it is no text, holds a NUL or a lone surrogate, or shows nothing; TooLarge over the limit.
    """
    text = _normal(text, field)
    size = len(text) if text.isascii() else len(text.encode())
    if size > max_bytes:
        raise TooLarge(
            f"{field} has {size} bytes of UTF-8; the limit is {max_bytes}.",
            hint="split it, or keep the long original in context",
            field=field,
            size_bytes=size,
            limit_bytes=max_bytes,
        )
    if not blank_ok and is_blank(text):
        raise Invalid(
            f"{field} is blank: it holds nothing that can be seen.", hint=f"give {field} some text", field=field
        )
    return text


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags trimmed and in lower case, each once, in their order. Raises Invalid for a blank or long tag, or too many."""
    if isinstance(tags, str):
        raise Invalid("tags is a text; it must be a list of texts.", hint='send "tags": ["one", "two"]', field="tags")
    seen: dict[str, None] = {}
    for number, tag in enumerate(tags, 1):
        # Lower case may undo NFC, and a letter's lower case may be more letters: normalise, lower, normalise.
        short = unicodedata.normalize("NFC", _normal(tag, f"tag {number}", "tags").lower()).strip()
        if is_blank(short):
            raise Invalid(f"Tag {number} is blank.", hint="leave it out", field="tags")
        if len(short) > MAX_TAG_CHARS:
            raise Invalid(
                f"Tag {number} has {len(short)} characters; the limit is {MAX_TAG_CHARS}.",
                hint="shorten it",
                field="tags",
            )
        seen[short] = None
    if len(seen) > MAX_TAGS:
        raise Invalid(
            f"There are {len(seen)} tags; the limit is {MAX_TAGS}.", hint="put the rest into metadata", field="tags"
        )
    return tuple(seen)


def clean_scope(scope: str) -> str:
    """The path with each segment trimmed. Raises Invalid for an empty segment, `*`, control characters or over 256."""
    hint = "a scope is a path such as alice/coder/session-7; see dreamctl stats --scope '*'"
    segments = [segment.strip() for segment in _normal(scope, "scope").split("/")]
    path = "/".join(segments)
    if any(map(is_blank, segments)):
        raise Invalid("The scope has an empty segment.", hint=hint, field="scope")
    if EVERY_SCOPE in segments:
        raise Invalid("The scope * means every scope and can only be read.", hint=hint, field="scope")
    _refuse_controls(path, "scope", hint)
    if len(path) > MAX_SCOPE_CHARS:
        raise Invalid(
            f"The scope has {len(path)} characters; the limit is {MAX_SCOPE_CHARS}.", hint=hint, field="scope"
        )
    return path


def clean_id(memory: str) -> str:
    """An id of 1 to 128 printable characters. Raises Invalid for any other."""
    return _clean_name(memory, "id", MAX_ID_CHARS, "leave id out, and one is made")


def clean_key(key: str) -> str:
    """A fact's key of 1 to 256 printable characters. Raises Invalid for any other."""
    return _clean_name(key, "key", MAX_KEY_CHARS, "a key is a short name such as editor or home/wifi-name")


def _clean_name(name: str, field: str, limit: int, hint: str) -> str:
    name = _normal(name, field)
    if is_blank(name):
        raise Invalid(f"The {field} is blank.", hint=hint, field=field)
    _refuse_controls(name, field, hint)
    if len(name) > limit:
        raise Invalid(f"The {field} has {len(name)} characters; the limit is {limit}.", hint=hint, field=field)
    return name


def clean_metadata(value: Any) -> dict[str, Any]:
    """A JSON object with its texts and keys in NFC; null stays.

    Raises Invalid for anything that is not JSON, a number that is not finite or beyond 64 bits, an unwritable text or a
    nesting deeper than 16; TooLarge over 256 KiB as JSON.
    """
    if not isinstance(value, dict):
        raise _bad_json("metadata", "is no JSON object")
    cleaned: dict[str, Any] = _clean_json(value, "metadata", 1)
    _check_size(cleaned, "metadata", "keep long texts in context")
    return cleaned


def clean_value(value: Any) -> Any:
    """Any JSON value as `clean_metadata` has it, with whole numbers of any length. Raises likewise, of the field `value`."""
    cleaned = _clean_json(value, "value", 1, wide=True)
    _check_size(cleaned, "value", "remember long texts, and keep their ids in the value")
    return cleaned


def _check_size(cleaned: Any, field: str, hint: str) -> None:
    try:
        size = len(json.dumps(cleaned, ensure_ascii=False, separators=(",", ":")).encode())
    except ValueError:  # the interpreter's own limit on digits
        raise _bad_json(field, "holds a whole number of too many digits; send it as a text") from None
    if size > MAX_METADATA_BYTES:
        raise TooLarge(
            f"{field} has {size} bytes as JSON; the limit is {MAX_METADATA_BYTES}.",
            hint=hint,
            field=field,
            size_bytes=size,
            limit_bytes=MAX_METADATA_BYTES,
        )


def _clean_json(value: Any, path: str, depth: int, *, wide: bool = False) -> Any:
    """One value, in a form of its own; `depth` counts the objects and lists around its members.

    Whole numbers are of 64 bits, unless `wide`. The field that `path` begins with is the one that an error names.
    """
    match value:
        case None | bool():
            return value
        case str():
            return _normal(value, path, _field_of(path))
        case int():
            if not wide and not _LEAST <= value <= _MOST:
                raise _bad_json(path, "is a whole number beyond 64 bits; send it as a text")
            return value
        case float():
            if not math.isfinite(value):
                raise _bad_json(path, "is not a finite number")
            return value
        case list() | dict() if depth > MAX_METADATA_DEPTH:
            raise _bad_json(path, f"is nested deeper than {MAX_METADATA_DEPTH}")
        case list():
            return [_clean_json(item, f"{path}[{place}]", depth + 1, wide=wide) for place, item in enumerate(value)]
        case dict():
            return _clean_object(value, path, depth, wide=wide)
    raise _bad_json(path, f"is of a type that JSON has not ({type(value).__name__})")


def _clean_object(members: dict[Any, Any], path: str, depth: int, *, wide: bool) -> dict[str, Any]:
    cleaned: dict[str, Any] = {}
    for key, member in members.items():
        if not isinstance(key, str):
            raise _bad_json(path, "has a key that is no text")
        name = _normal(key, f"a key of {path}", _field_of(path))
        if name in cleaned:
            raise _bad_json(path, "has two keys which are the same in Unicode NFC")
        # A key may itself be a secret: only what reads like a name is named in an error.
        inner = f"{path}.{name}" if _PLAIN_KEY.fullmatch(name) else f"{path}.…"
        cleaned[name] = _clean_json(member, inner, depth + 1, wide=wide)
    return cleaned


def _bad_json(path: str, what: str) -> Invalid:
    field = _field_of(path)
    form = "a JSON object of" if field == "metadata" else "JSON:"
    return Invalid(
        f"{path} {what}.", hint=f"{field} is {form} texts, numbers, booleans, nulls, lists and objects", field=field
    )


def _field_of(path: str) -> str:
    """The field that a path begins with: `metadata` of `metadata.a[1]`."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _normal(text: object, what: str, field: str = "") -> str:
    """The text in NFC. Raises Invalid where it is none, or holds what no file can keep, naming where."""
    if not isinstance(text, str):
        raise Invalid(f"{what} is no text.", hint=f"send {what} as a text", field=field or what)
    found = _UNWRITABLE.search(text)
    if found is not None:
        name = "a NUL" if found[0] == "\0" else f"a lone surrogate (U+{ord(found[0]):04X})"
        raise Invalid(
            f"{what} holds {name} at character {found.start()}.",
            hint="remove it; a surrogate is half a character, cut or decoded wrongly",
            field=field or what,
            offset=found.start(),
        )
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def is_blank(text: str) -> bool:
    """Whether nothing of it can be seen: white space, formats, fillers."""
    return not any(unicodedata.category(c) not in _UNSEEN and c not in _FILLERS for c in text)


def _refuse_controls(text: str, field: str, hint: str) -> None:
    """Raise Invalid where a name holds a character that prints nothing or breaks the line."""
    for offset, character in enumerate(text):
        if not character.isprintable():
            raise Invalid(
                f"The {field} holds an unprintable character (U+{ord(character):04X}) at character {offset}.",
                hint=hint,
                field=field,
                offset=offset,
            )
