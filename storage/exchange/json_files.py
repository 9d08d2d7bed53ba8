"""JSON that other systems export: a list, a list within an object, or a value a line; which of them, the content says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from storage.errors import Invalid
from storage.exchange.items import Fault
from storage.exchange.telling import what_is_wrong

#: How much of a file is looked at to recognise it: more than the longest record (bytes).
PEEK_BYTES: Final = 4 * 1024 * 1024
#: Among how many first lines one must be whole, for the file to be read line by line.
PEEK_LINES: Final = 8

_DECODER: Final = json.JSONDecoder()
_MARK: Final = b"\xef\xbb\xbf"  # some programs begin UTF-8 with it


def records(path: Path, lists: Sequence[str]) -> Iterator[tuple[str, Any] | Fault]:
    """Every record and where it stands; `lists` names the members of an object that hold records.

    Raises Invalid where the file is cut or no JSON.
    """
    if not _by_line(path):
        yield from _within(_document(path), "", lists)
        return
    _refuse_cut(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield Fault(f"line {number}", f"it is no JSON: {what_is_wrong(error)}")
            else:
                yield from _within(value, f"line {number}", lists)


def first_record(path: Path, lists: Sequence[str]) -> Any:
    """The first record of a file, read from its start alone; None where there is none, or no JSON."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        whole = _first_whole(file)
        file.seek(0)
        start = file.read(PEEK_BYTES).decode("utf-8-sig", "ignore").lstrip()
    if whole is None:
        whole = _decoded(start, 0)
    if whole is not None:
        return next((entry[1] for entry in _within(whole, "", lists) if not isinstance(entry, Fault)), None)
    names = "|".join(map(re.escape, lists))
    # A document longer than what was read. A quote behind a backslash stands within a text.
    opening = re.match(r"\[\s*", start) or re.search(rf'(?<!\\)"(?:{names})"\s*:\s*\[\s*', start)
    return None if opening is None else _decoded(start, opening.end())


def _within(value: Any, place: str, lists: Sequence[str]) -> Iterator[tuple[str, Any] | Fault]:
    """The records in one JSON value, with their numbers where there is more than the value itself."""
    prefix = f"{place}, " if place else ""
    if isinstance(value, list):
        yield from ((f"{prefix}record {number}", record) for number, record in enumerate(value, 1))
        return
    held = [name for name in lists if isinstance(value, dict) and isinstance(value.get(name), list)]
    if not held:
        yield place or "record 1", value
        return
    for name in held:
        yield from _within(value[name], place, ())
    for name, other in value.items():
        if isinstance(other, list) and other and name not in held:
            yield Fault(f"{prefix}{name}", f"these are no memories; {len(other)} left out")


def _by_line(path: Path) -> bool:
    """Whether the file holds a JSON value a line; a document broken into lines has none that is whole."""
    with path.open("rb") as file:
        return _first_whole(file) is not None


def _first_whole(file: BinaryIO) -> Any:
    """The first line which is a whole object or list; None where the file is one document over several lines, or long."""
    for number in range(PEEK_LINES):
        line = file.readline(PEEK_BYTES)
        if len(line) == PEEK_BYTES:
            return None
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            if number == 0 and line.removeprefix(_MARK).lstrip().startswith(b"["):
                return None
        else:
            if isinstance(value, dict | list):
                return value
    return None


def _decoded(text: str, at: int) -> Any:
    """The JSON value that begins there; None where none does, or it does not end."""
    try:
        return _DECODER.raw_decode(text, at)[0]
    except (ValueError, RecursionError):
        return None


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"{path} is cut or no JSON: {what_is_wrong(error)}.",
            hint="export it once more, and import that",
            field="path",
        ) from error


def _refuse_cut(path: Path) -> None:
    """Raise Invalid where the file ends within a record; a last line that is merely wrong is left to be skipped."""
    last = b""
    with path.open("rb") as file:
        for last in file:  # noqa: B007 - the last one is wanted
            pass
    if not last.startswith(b"{") or last.endswith(b"\n"):
        return
    try:
        json.loads(last)
    except (ValueError, RecursionError) as error:
        raise Invalid(
            f"{path} is cut: it ends within a record.", hint="export it once more, and import that", field="path"
        ) from error
