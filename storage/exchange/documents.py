"""The JSON document of ours: one object with a list for each kind, read a record at a time however long the file is.

    {"format": "dreamd", "format_version": 1, ..., "memories": [...], "versions": [...], ..., "counts": {...}}

A bare list of memories is read too. A mistake in the middle of a document leaves nothing to go on with: it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from storage.errors import Invalid
from storage.exchange.forms import FORMAT, PLURALS
from storage.exchange.items import Fault, Item
from storage.exchange.jsonl import MAX_LINE_BYTES, empty
from storage.exchange.telling import check_header, check_whole, item_of, what_is_wrong, word

KINDS_OF: Final = {plural: kind for kind, plural in PLURALS.items()}
#: Members that say something of the file; every other list holds records.
ABOUT: Final = frozenset({"format", "format_version", "version", "exported_at", "scope", "counts"})

_CHUNK: Final = 1 << 20  # characters
_SPACE: Final = " \t\n\r"


def matches(path: Path) -> bool:
    """Whether the file begins as our document does, with its format."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = _Reader(path, file)
        try:
            if reader.peek() != "{":
                return False
            reader.take("{")
            key = reader.value()
            reader.take(":")
            return bool(key == "format" and reader.value() == FORMAT)
        except Invalid:
            return False


def resembles(path: Path) -> bool:
    """Whether the file is a list, or an object with a list of ours in it, that could hold memories."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        reader = _Reader(path, file)
        try:
            if reader.peek() == "[":
                first = next(reader.elements(), None)
                return isinstance(first, dict) and ("kind" in first or "content" in first)
            return reader.peek() == "{" and any(name in KINDS_OF for name, _ in _members(reader, {}))
        except Invalid:
            return False


def read(path: Path) -> Iterator[Item | Fault]:
    """Its items. Raises Invalid where it is empty, cut, no JSON or of a newer format, which may show at its end only."""
    about: dict[str, Any] = {}
    found = 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = _Reader(path, file)
        lists = [("memories", reader.elements())] if reader.peek() == "[" else _members(reader, about)
        for name, elements in lists:
            for number, told in enumerate(elements, 1):
                found += 1
                yield item_of(told, f"{word(name)}, record {number}", KINDS_OF.get(name, name))
        reader.end()
    if "format" in about:
        check_whole(path, check_header(about, path), found)


def _members(reader: _Reader, about: dict[str, Any]) -> Iterator[tuple[str, Iterator[Any]]]:
    """The lists of records in an object, to be read through one after the other; what else it says goes into `about`."""
    reader.take("{")
    while reader.peek() != "}":
        name = reader.value()
        if not isinstance(name, str):
            reader.fail("a member has no name")
        reader.take(":")
        if reader.peek() == "[" and name not in ABOUT:
            yield name, reader.elements()
        else:
            about[name] = reader.value()
        if reader.peek() != "}":
            reader.take(",")
    reader.take("}")


class _Reader:
    """Takes one JSON value after the other out of a text that need not fit into memory."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._decoder = json.JSONDecoder(parse_constant=_refuse)
        self._text = ""
        self._at = 0
        if not self._grow():
            raise empty(path)

    def peek(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._grow():
                return ""

    def take(self, mark: str) -> None:
        """Go past a mark that must be next."""
        found = self.peek()
        if found != mark:
            self.fail(f"{mark} is missing" if found else "it ends within a record")
        self._at += 1

    def value(self) -> Any:
        """The next value, whatever it is."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError as error:
                self.fail(what_is_wrong(error))
            except ValueError as error:
                if len(self._text) - self._at > MAX_LINE_BYTES:
                    self.fail(f"a record is no JSON, or longer than {MAX_LINE_BYTES >> 20} MiB")
                if not self._grow():
                    self.fail(what_is_wrong(error).partition(" at column")[0])
                continue
            if end == len(self._text) and self._grow():  # a number may go on
                continue
            self._at = end
            return value

    def elements(self) -> Iterator[Any]:
        """The values of a list."""
        self.take("[")
        while self.peek() != "]":
            yield self.value()
            if self.peek() != "]":
                self.take(",")
        self.take("]")

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek():
            self.fail("something follows after its end")

    def fail(self, what: str) -> NoReturn:
        """Refuse the file."""
        raise Invalid(
            f"{self._path} is cut or no JSON: {what}. Nothing was imported.", hint="export it once more", field="path"
        )

    def _grow(self) -> bool:
        """Read on, as much again as is kept; what was taken is let go of. False at the end of the file."""
        try:
            more = self._file.read(max(_CHUNK, len(self._text) - self._at))
        except UnicodeDecodeError as error:
            self.fail(what_is_wrong(error))
        self._text = self._text[self._at :] + more
        self._at = 0
        return bool(more)


def _refuse(_name: str) -> NoReturn:
    raise ValueError
