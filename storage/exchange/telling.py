"""From a record as our own formats tell it to an item: the way back of `forms`, for whatever a person wrote into it too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeGuard

from storage.errors import Invalid
from storage.exchange.forms import FORMAT, FORMAT_VERSION, HEADER, INSTANTS
from storage.exchange.items import Fault, Item
from storage.exchange.mapping import instant

#: The field in which null says something, which is a fact's; elsewhere it is as good as nothing.
NULLABLE: Final = "value"
#: What everything is called whose own name cannot be shown.
OTHER: Final = "other"
_WORD: Final = re.compile(r"[a-z][a-z_]{0,31}")


def item_of(told: Any, place: str, kind: str = "") -> Item | Fault:
    """The item in one record; `kind` is what it is where it does not say so itself.

    A record that has a `content` and no kind is a memory. A kind that we do not know is left to whoever takes the items.
    """
    if not isinstance(told, dict):
        return Fault(place, "it is no JSON object")
    fields = dict(told)
    named = fields.pop("kind", None)
    if named is None:
        named = kind or ("memory" if "content" in fields else None)
    if not isinstance(named, str):
        return Fault(place, "it says no kind, and has no content")
    if named == HEADER:
        return Fault(place, "a header stands in the first line alone")
    if named == "edge":
        fields = _edge(fields)
    try:
        return Item(word(named), place, _with_instants(named, fields))
    except ValueError as error:
        return Fault(place, str(error))


def check_header(told: Mapping[str, Any], path: object) -> int:
    """How many records a header promises. Raises Invalid where a newer dreamd wrote it, or it makes no sense."""
    version, counts = told.get("format_version"), told.get("counts")
    if told.get("format") != FORMAT or not _is_count(version):
        raise Invalid(
            f"The header of {path} is none of ours: it has no format and version.",
            hint='take the first line out, or write {"kind":"header","format":"dreamd","format_version":1,"counts":{}}',
            field="path",
        )
    if version > FORMAT_VERSION:
        raise Invalid(
            f"{path} was written by a newer dreamd: its format is {version}, and this one knows {FORMAT_VERSION}. "
            "Nothing was imported.",
            hint="install that version, or export it there as csv",
            field="path",
        )
    if not isinstance(counts, dict) or not all(map(_is_count, counts.values())):
        raise Invalid(f"The header of {path} does not say how much there is.", hint="export it once more", field="path")
    return sum(counts.values())


def check_whole(path: object, promised: int, found: int) -> None:
    """Raise Invalid where there is less than the header promises: the end of the file is missing."""
    if found < promised:
        raise Invalid(
            f"{path} is cut: its header promises {promised} records, and there are {found}. Nothing was imported.",
            hint="export it once more; if some were taken out on purpose, correct the counts in the header",
            field="path",
        )


def is_header(told: Any) -> bool:
    """Whether a record calls itself a header."""
    return isinstance(told, dict) and told.get("kind") == HEADER


def parsed(text: bytes | str, place: str) -> Any:
    """The value of a JSON text, or the fault in it."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return Fault(place, f"it is no JSON: {what_is_wrong(error)}")


def what_is_wrong(error: Exception) -> str:
    """What is wrong with a JSON text, without a word of it."""
    match error:
        case json.JSONDecodeError():
            line = f"line {error.lineno}, " if error.lineno > 1 else ""
            return f"{error.msg.partition(':')[0].lower()} at {line}column {error.colno}"
        case UnicodeError():
            return "it is not UTF-8"
        case RecursionError():
            return "it is nested too deeply"
    return "it holds a number that is none, or too long"


def word(name: str) -> str:
    """A kind's name as it may be shown: what a file calls it may be anything."""
    return name if _WORD.fullmatch(name) else OTHER


def _edge(fields: dict[str, Any]) -> dict[str, Any]:
    """An edge's own kind stands under `edge_kind`, and is its `kind` from here on."""
    return {("kind" if name == "edge_kind" else name): value for name, value in fields.items()}


def _with_instants(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that say something, with epoch seconds. Raises ValueError for what is no time, or an absurd one."""
    known: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None and name != NULLABLE:
            continue
        if name in INSTANTS.get(kind, ()):
            try:
                value = instant(value)  # noqa: PLW2901
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            if value is None:
                continue
        known[name] = value
    return known


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _refuse(_name: str) -> NoReturn:
    """NaN and the infinities, which JSON does not have."""
    raise ValueError
