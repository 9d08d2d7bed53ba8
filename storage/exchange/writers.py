"""The three formats of an export as they are written, a record at a time. What a format has no place for is not read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TextIO

from storage.exchange import csvs
from storage.exchange.forms import FORMAT, FORMAT_VERSION, HEADER, PLURALS, to_json
from storage.exchange.items import KINDS


class Writer(Protocol):
    """Takes the records, those of one kind after those of another, in the order of `kinds`."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the format has a place for."""

    def write(self, told: Mapping[str, Any]) -> None:
        """Write one record, as `forms` tells it."""

    def end(self, counts: Mapping[str, int]) -> None:
        """Write what is to be written last; `counts` says how much there is of each kind."""


class JsonLines:
    """A header, then an object a line. The header tells the counts: it is written once more at the end, into its room."""

    kinds: tuple[str, ...] = KINDS

    def __init__(self, file: TextIO, about: Mapping[str, Any]) -> None:
        self._file = file
        self._about = about
        self._room = len(self._header(dict.fromkeys(KINDS, 10**9)).encode())
        self._file.write(" " * self._room + "\n")

    def write(self, told: Mapping[str, Any]) -> None:
        """Write one record."""
        self._file.write(to_json(told) + "\n")

    def end(self, counts: Mapping[str, int]) -> None:
        """Write what comes last."""
        header = self._header(counts)
        self._file.seek(0)
        self._file.write(header + " " * (self._room - len(header.encode())))
        self._file.seek(0, 2)

    def _header(self, counts: Mapping[str, int]) -> str:
        return to_json(
            {"kind": HEADER, "format": FORMAT, "format_version": FORMAT_VERSION, **self._about, "counts": counts}
        )


class Document:
    """One JSON object with a list for each kind, a record a line; the counts stand at its end."""

    kinds: tuple[str, ...] = KINDS

    def __init__(self, file: TextIO, about: Mapping[str, Any]) -> None:
        self._file = file
        self._begun = 0  # lists
        self._file.write(to_json({"format": FORMAT, "format_version": FORMAT_VERSION, **about})[:-1])

    def write(self, told: Mapping[str, Any]) -> None:
        """Write one record."""
        place = KINDS.index(told["kind"]) + 1
        first = self._begun < place
        self._begin(place)
        self._file.write(("\n" if first else ",\n") + to_json(told))

    def end(self, counts: Mapping[str, int]) -> None:
        """Write what comes last."""
        self._begin(len(KINDS))
        self._file.write(f'\n],\n"counts":{to_json(counts)}}}\n')

    def _begin(self, lists: int) -> None:
        """Open the lists up to so many, each after the one before it is closed."""
        for kind in KINDS[self._begun : lists]:
            self._file.write(("\n]" if self._begun else "") + f',\n"{PLURALS[kind]}":[')
            self._begun += 1


class Rows:
    """CSV: the memories alone."""

    kinds: tuple[str, ...] = ("memory",)

    def __init__(self, file: TextIO, _about: Mapping[str, Any]) -> None:
        self._file = file
        csvs.header_row(file)

    def write(self, told: Mapping[str, Any]) -> None:
        """Write one record."""
        csvs.row(self._file, told)

    def end(self, counts: Mapping[str, int]) -> None:
        """A row tells nothing but its memory."""


WRITERS: Final[Mapping[str, Callable[[TextIO, Mapping[str, Any]], Writer]]] = {
    "jsonl": JsonLines, "json": Document, "csv": Rows,
}  # fmt: skip
