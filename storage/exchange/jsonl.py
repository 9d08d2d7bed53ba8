"""JSON lines of ours: a header, then an object a line. A file that a person wrote may lack the header."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from storage.errors import Invalid
from storage.exchange.forms import FORMAT
from storage.exchange.items import Fault, Item
from storage.exchange.telling import check_header, check_whole, is_header, item_of, parsed

#: A longer line is no record: the largest one takes a fifth of it, with every character escaped.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
#: Among how many first lines one must be whole for a file to be taken for JSON lines.
PEEK_LINES: Final = 8

_MARK: Final = b"\xef\xbb\xbf"  # some editors begin UTF-8 with it


def matches(path: Path) -> bool:
    """Whether the file begins with a header of ours."""
    first = _first(path, 1)
    return is_header(first) and first.get("format") == FORMAT


def resembles(path: Path) -> bool:
    """Whether one of the file's first lines could be one of ours."""
    first = _first(path, PEEK_LINES)
    return isinstance(first, dict) and ("kind" in first or "content" in first)


def read(path: Path) -> Iterator[Item | Fault]:
    """Its items. Raises Invalid where the file is empty, cut or of a newer format, which may show at its end only."""
    found, promised, first = 0, 0, True
    with path.open("rb") as file:
        for number, line in _lines(file):
            told = _parsed(line, number)
            if first and is_header(told):
                promised = check_header(told, path)
            else:
                if isinstance(told, Fault) and not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                    raise cut(path)
                found += 1
                yield told if isinstance(told, Fault) else item_of(told, f"line {number}")
            first = False
    if first:
        raise empty(path)
    check_whole(path, promised, found)


def cut(path: Path) -> Invalid:
    """What a file is refused for that ends within a record."""
    return Invalid(
        f"{path} is cut: it ends within a record. Nothing was imported.", hint="export it once more", field="path"
    )


def empty(path: Path) -> Invalid:
    """What a file is refused for in which nothing stands."""
    return Invalid(f"{path} is empty.", hint="dreamctl export FILE writes one that can be imported", field="path")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers; of one that is too long its beginning."""
    if file.read(len(_MARK)) != _MARK:
        file.seek(0)
    number = 0
    while line := file.readline(MAX_LINE_BYTES):
        number += 1
        rest = line
        while len(rest) == MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)
        if line.strip():
            yield number, line


def _parsed(line: bytes, number: int) -> Any:
    place = f"line {number}"
    if len(line) >= MAX_LINE_BYTES:
        return Fault(place, f"the line is longer than {MAX_LINE_BYTES >> 20} MiB")
    return parsed(line.rstrip(b"\r\n"), place)


def _first(path: Path, among: int) -> Any:
    """The first line that is whole among so many first ones."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        values = (_parsed(line, number) for number, line in islice(_lines(file), among))
        return next((value for value in values if not isinstance(value, Fault)), None)
