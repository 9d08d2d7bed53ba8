"""CSV: a memory a row, live or in the bin, with all its fields. What hangs on memories has no place in it.

What a spreadsheet makes of one is read too: parted by semicolons or tabs, under a first line such as `sep=;`, or with names
in capitals. A cell that a spreadsheet would take for a formula gets an apostrophe in front, and so does one which looks as
if it had got one; on the way back one is taken off, so that every text comes back as it was. Lists and objects are JSON in
their cells.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

from storage.errors import Invalid
from storage.exchange.forms import MEMORY_FIELDS, to_json
from storage.exchange.items import Fault, Item
from storage.exchange.jsonl import MAX_LINE_BYTES, cut, empty
from storage.exchange.telling import item_of, parsed

#: Cells that are JSON: lists, objects, numbers, true and false.
_LISTS: Final = frozenset({"tags", "entities", "source_turns"})
_JSON: Final = _LISTS | {
    "metadata", "pinned", "emotion", "importance", "confidence", "redactions", "version", "access_count", "access_days",
    "cooled_at_count",
}  # fmt: skip
_HASH_CHARS: Final = 64  # of what stands last in a row of ours
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")
_NO_UTF_8: Final = re.compile("[\udc80-\udcff]")
_GUARDED: Final = re.compile(r"'+[=+\-@\t\r]")
_MARKS: Final = (",", ";", "\t")  # between cells
_SAYS_MARK: Final = re.compile(r"sep=(.)\r?\n?")
_HEADER_CHARS: Final = 1 << 16
_WORDS: Final = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


def header_row(file: TextIO) -> None:
    """Write the names of the columns."""
    _writer(file).writerow(MEMORY_FIELDS)


def row(file: TextIO, told: Mapping[str, Any]) -> None:
    """Write a memory."""
    _writer(file).writerow([_cell(name, told[name]) for name in MEMORY_FIELDS])


def matches(path: Path) -> bool:
    """Whether the file begins with a row of names, `content` among them."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file, suppress(csv.Error):
        names, _ = _header(file)
        return "content" in names and all(re.fullmatch(r"[\w .-]{1,64}", name) for name in names)
    return False


def read(path: Path) -> Iterator[Item | Fault]:
    """Its memories. Raises Invalid where it is empty, or ends within a row."""
    csv.field_size_limit(MAX_LINE_BYTES)  # a text may be longer than what the library takes by default
    # A byte that is not UTF-8 becomes half a character.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        mark, above = _mark(file)
        lines = _Lines(file)
        rows = csv.reader(lines, strict=True, delimiter=mark)
        names = _names(rows, path)
        cells: list[str] = []
        while True:
            place = f"line {above + rows.line_num + 1}"
            try:
                cells = next(rows)
            except StopIteration:
                break
            except csv.Error as error:
                if "unexpected end of data" in str(error):
                    raise cut(path) from error
                yield Fault(place, f"it is no CSV: {error}")
                continue
            if not any(map(str.strip, cells)):
                continue
            if any(map(_NO_UTF_8.search, cells)):
                yield Fault(place, "it is not UTF-8")
            elif len(cells) == len(names):
                yield item_of(_fields(dict(zip(names, cells, strict=True))), place, "memory")
            elif len(cells) < len(names) and lines.ended:
                raise cut(path)
            else:
                yield Fault(place, f"it has {len(cells)} cells, and the first row has {len(names)}")
        if lines.ended and names == MEMORY_FIELDS and cells and len(cells[-1]) < _HASH_CHARS:
            raise cut(path)


def _names(rows: Iterator[list[str]], path: Path) -> tuple[str, ...]:
    """The names of the columns. Raises Invalid where there are none, or one comes twice."""
    try:
        names = _named(next(rows, []))
    except csv.Error as error:
        raise cut(path) from error
    if not names:
        raise empty(path)
    if len(set(names)) < len(names) or "content" not in names:
        raise Invalid(
            f"The first row of {path} does not name its columns, each once and `content` among them.",
            hint="see what dreamctl export --format csv writes", field="path",
        )  # fmt: skip
    return names


def _mark(file: TextIO) -> tuple[str, int]:
    """What parts the cells, and how many lines stand above the names, where the file is left."""
    _, mark = _header(file)
    file.seek(0)
    if _SAYS_MARK.fullmatch(file.readline(_HEADER_CHARS)):
        return mark, 1
    file.seek(0)
    return mark, 0


def _header(file: TextIO) -> tuple[tuple[str, ...], str]:
    """The names of the columns, by the first row alone, and what parts them: what it says, or else what yields `content`."""
    line = file.readline(_HEADER_CHARS)
    said = _SAYS_MARK.fullmatch(line)
    if said:
        line = file.readline(_HEADER_CHARS)
    for mark in said[1] if said else _MARKS:
        with suppress(csv.Error):
            names = _named(next(csv.reader([line], delimiter=mark), []))
            if "content" in names:
                return names, mark
    return (), said[1] if said else _MARKS[0]


def _named(cells: Sequence[str]) -> tuple[str, ...]:
    """The columns as we call them: ours are in small letters."""
    return tuple(name if (name := cell.strip()).lower() not in MEMORY_FIELDS else name.lower() for cell in cells)


class _Lines:
    """The lines of a file; `ended` once the last one came that no line end follows."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.ended = False

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._file.readline(MAX_LINE_BYTES)
        if not line:
            raise StopIteration
        self.ended = not line.endswith(("\n", "\r"))
        return line


def _writer(file: TextIO) -> Any:
    return csv.writer(file, lineterminator="\r\n")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _JSON:
        return to_json(value)
    return f"'{value}" if _FORMULA.match(value) else str(value)


def _fields(cells: Mapping[str, str]) -> dict[str, Any]:
    """A row as its JSON would be; an empty cell says nothing."""
    fields: dict[str, Any] = {}
    for name, cell in cells.items():
        if cell:
            fields[name] = _value(name, cell[1:] if _GUARDED.match(cell) else cell)
    return fields


def _value(name: str, cell: str) -> Any:
    """What a cell says; of a column of ours that should be JSON and is not, the text, with which the row is refused."""
    if name not in _JSON:
        return cell
    if name == "pinned" and cell.lower() in _WORDS:
        return _WORDS[cell.lower()]
    if name in _LISTS and not cell.startswith("["):
        return _parts(cell)
    value = parsed(cell, "")
    return cell if isinstance(value, Fault) else value


def _parts(cell: str) -> Sequence[str]:
    """A list as a person writes it: parted by semicolons, or else by commas."""
    mark = ";" if ";" in cell else ","
    return [part.strip() for part in cell.split(mark) if part.strip()]
