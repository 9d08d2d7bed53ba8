"""One record of another system: what is read from it under a name of ours, and what is left over for the metadata.

A record becomes a fault where its text is missing or one of its times is absurd. Anything else that does not fit under our
name stays under its own in the metadata.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from storage.errors import Invalid
from storage.exchange.fields import MAX_COUNT
from storage.exchange.items import Fault, Item
from storage.exchange.mapping import beside, identity, instant, level, plain, scope
from storage.model import TYPES
from storage.text import MAX_TAG_CHARS, MAX_TAGS, clean_tags, is_blank

T = TypeVar("T")

#: What an author, a session or a subtype may measure (bytes): the least of the gate's limits on them.
MAX_WORD_BYTES: Final = 128


class Record:
    """Fields by their own names; what nobody read, or could not use in full, is metadata."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._taken: set[str] = set()
        self._kept: dict[str, Any] = {}  # read, and yet not told in full by what became of it

    def value(self, name: str) -> Any:
        """What the field holds, whatever it is; None where it is absent."""
        self._taken.add(name)
        return self._values.get(name)

    def keep(self, name: str, value: Any) -> None:
        """Have this in the metadata all the same."""
        self._kept[name] = value

    def content(self, name: str) -> str:
        """The text without which there is no memory. Raises ValueError where there is none."""
        text = self.value(name)
        if text is None or text == "":
            raise ValueError(f"{name} is missing or empty")
        if not isinstance(text, str):
            raise ValueError(f"{name} is no text")  # noqa: TRY004 - whatever a record is refused for is a ValueError
        if is_blank(text):
            raise ValueError(f"{name} is blank")
        return text

    def text(self, name: str, *, max_bytes: int | None = None) -> str:
        """A text, or a whole number as one; empty where there is none, or none that fits."""
        value = self._values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is None or (isinstance(value, str) and (max_bytes is None or _bytes(value) <= max_bytes)):
            self._taken.add(name)
            return value or ""
        return ""

    def word(self, name: str) -> str:
        """A text short enough for an author, a session or a subtype."""
        return self.text(name, max_bytes=MAX_WORD_BYTES).strip()

    def one_of(self, name: str, allowed: Collection[str]) -> str | None:
        """One word of a closed set."""
        value = self._values.get(name)
        if not isinstance(value, str) or value.strip().lower() not in allowed:
            return None
        self._taken.add(name)
        return value.strip().lower()

    def instant(self, name: str) -> float | None:
        """Epoch seconds. Raises ValueError for what is no time, or an absurd one."""
        try:
            return instant(self.value(name))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def share(self, name: str) -> float | None:
        """A number from 0 to 1; one beyond is brought to the nearer end."""
        value = self._values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            return None
        self._taken.add(name)
        nearest = min(max(float(value), 0.0), 1.0)
        if nearest != value:
            self.keep(name, value)
        return nearest

    def count(self, name: str) -> int | None:
        """A whole number from 0 on that something may have been counted up to."""
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
            return None
        self._taken.add(name)
        return value

    def kind(self, name: str, subtype: str = "") -> tuple[str | None, str]:
        """Type and subtype: a type outside our four is the subtype, where that place is free."""
        given = self.word(name)
        if given.lower() in TYPES:
            return given.lower(), subtype
        if given and subtype and given != subtype:
            self.keep(name, given)
        return None, subtype or given

    def id(self, name: str, system: str, *, kept: str = "original_id") -> str | None:
        """The id under which we know it; its own is kept as metadata under `kept` where it could not stay as it is."""
        own = self.text(name)
        if not own:
            return None
        ours = identity(own, system)
        if ours != own:
            self.keep(kept, own)
        return ours

    def tags(self, name: str) -> list[str]:
        """A list of texts, or a single one; what cannot be a tag stays in the metadata."""
        value = self.value(name)
        given = value if isinstance(value, list) else [] if value in (None, "") else [value]
        tags = [tag for tag in given if _is_tag(tag)][:MAX_TAGS]
        others = [tag for tag in given if tag not in tags and not (isinstance(tag, str) and is_blank(tag))]
        if others:
            self.keep(name, others)
        return tags

    def scope(self, *, user: str = "", agent: str = "", session: str = "", app: str = "", part: str = "") -> str:
        """The scope of what belongs to the ids in the fields so named; an id that had to be altered is kept as it was."""
        names = (user, agent, session, app, part)
        owners = [self.text(name) for name in names]
        for name, owner in zip(names, owners, strict=True):
            if owner and level(owner) != owner:
                self.keep(name, owner)
        return scope(*owners)

    def metadata(self, given: Any = None) -> dict[str, Any]:
        """What it calls its metadata, and beside it every field that holds something and was not taken; no key is overwritten."""
        own = given if isinstance(given, dict) else {} if given in (None, "") else {"metadata": given}
        rest = {name: value for name, value in self._values.items() if name not in self._taken and value is not None}
        return {str(name): plain(value) for name, value in beside(beside(own, self._kept), rest).items()}


def attempt(place: str, make: Callable[[T], Item], value: T) -> Item | Fault:
    """The item that `make` finds in `value`, at its place, or the fault for which there is none."""
    try:
        item = make(value)
    except ValueError as error:
        return Fault(place, str(error))
    except RecursionError:
        return Fault(place, "it is nested too deeply")
    return item._replace(place=place)


def memory(**fields: Any) -> Item:
    """A memory of the fields that hold anything; the others are left to our defaults."""
    held = {name: value for name, value in fields.items() if value is not None and value not in ("", [], {})}
    return Item("memory", "", held | {"provenance": "import"})


def _is_tag(value: Any) -> bool:
    """Whether the gate would take it for a tag."""
    try:
        return isinstance(value, str) and len(value) <= MAX_TAG_CHARS and bool(clean_tags([value]))
    except Invalid:
        return False


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
