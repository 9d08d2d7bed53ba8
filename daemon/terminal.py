"""Text as a terminal meets it: how wide it is, what in it could move the cursor, lines that fit and tables that line up."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

GAP: Final = "  "  # between the columns of a table
LEAST: Final = 24  # columns which the last one keeps on the narrowest screen

_STYLE: Final = re.compile("\x1b\\[[0-9;]*m")
_JOINER: Final = "\u200d"  # makes one sign of two emoji
_AS_EMOJI: Final = "\ufe0f"
#: What starts a command to a terminal, ends a line or turns the direction of the text around it, and JSON leaves bare.
_BARE: Final = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_BARE_IN_JSON: Final = re.compile(f"[{_BARE}]")
_UNSAFE: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_BARE}]")
_UNITS: Final = (("s", 1, 60), ("min", 60, 60), ("h", 3_600, 48), ("d", 86_400, 730), ("y", 31_557_600, math.inf))


class Screen(NamedTuple):
    """Where text goes: its width in columns, or None where nothing is cut or wrapped; and the instant now."""

    width: int | None
    colour: bool
    now: float

    def bold(self, text: str) -> str:
        """What stands out."""
        return self._styled("1", text)

    def dim(self, text: str) -> str:
        """What stands back."""
        return self._styled("2", text)

    def red(self, text: str) -> str:
        """What went wrong."""
        return self._styled("31", text)

    def green(self, text: str) -> str:
        """What went well."""
        return self._styled("32", text)

    def yellow(self, text: str) -> str:
        """What wants attention."""
        return self._styled("33", text)

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


def harmless(value: Any) -> Any:
    """The same JSON value, with every control character in its strings spelt out; line ends and tabs stay."""
    if isinstance(value, str):
        return _UNSAFE.sub(lambda found: _spelt(found[0]), value.replace("\r\n", "\n"))
    if isinstance(value, list):
        return [harmless(item) for item in value]
    if isinstance(value, dict):
        return {harmless(key): harmless(item) for key, item in value.items()}
    return value


def harmless_json(text: str) -> str:
    """JSON text that says the same, with what a terminal would obey escaped."""
    return _BARE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _spelt(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def columns(text: str) -> int:
    """How many columns a text takes: two for a wide character, none for a mark on the one before; styles take none."""
    text = _STYLE.sub("", text)
    return len(text) if text.isascii() else sum(_widths(text))


def _widths(text: str) -> Iterator[int]:
    """What each character adds to the columns of the text."""
    before, joined = 0, False
    for character in text:
        width = _width(character)
        if joined and width == 2:
            width = 0
        elif character == _AS_EMOJI and before == 1:
            width = 1
        yield width
        before, joined = width, character == _JOINER


def _width(character: str) -> int:
    if unicodedata.east_asian_width(character) in "WF":
        return 2
    medial = "\u1160" <= character <= "\u11ff"  # Hangul vowels and finals
    return 0 if medial or unicodedata.category(character) in ("Mn", "Me", "Cf") else 1


def cut(text: str, width: int) -> str:
    """As much of the beginning as fits, at least one character."""
    taken = 0
    for index, added in enumerate(_widths(text)):
        taken += added
        if taken > width and index:
            return text[:index]
    return text


def clip(text: str, width: int) -> str:
    """The text on one line, ended by an ellipsis where it does not fit."""
    line = " ".join(text.split())
    return line if columns(line) <= width else cut(line, width - 1).rstrip() + "…"


def wrap(text: str, screen: Screen, indent: str) -> Iterator[str]:
    """The text in lines that fit the screen behind an indent; a word that is too long is broken."""
    for paragraph in text.expandtabs(4).split("\n"):
        lines = [paragraph] if screen.width is None else _filled(paragraph, max(screen.width - columns(indent), LEAST))
        yield from (f"{indent}{line}".rstrip() for line in lines)


def _filled(paragraph: str, width: int) -> Iterator[str]:
    line: str | None = None
    for word in paragraph.split(" "):
        longer = word if line is None else f"{line} {word}"
        if columns(longer) <= width:
            line = longer
            continue
        if line is not None:
            yield line
        rest = word
        while columns(rest) > width:
            head = cut(rest, width)
            yield head
            rest = rest[len(head) :]
        line = rest
    yield line or ""


def table(screen: Screen, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows under their headers; a header that begins with `>` sets its column flush right, the last column is cut to fit."""
    right = [header.startswith(">") for header in headers]
    titles = [header.removeprefix(">") for header in headers]
    lines = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(columns(line[index]) for line in (titles, *lines)) for index in range(len(titles))]
    if screen.width is not None:
        used = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(screen.width - used, LEAST))
    yield screen.dim(_row(titles, widths, right))
    yield from (_row(line, widths, right) for line in lines)


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    shown = [cell if columns(cell) <= width else clip(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return GAP.join(
        " " * (width - columns(cell)) + cell if flush else cell + " " * (width - columns(cell))
        for cell, width, flush in zip(shown, widths, right, strict=True)
    ).rstrip()


def fields(screen: Screen, pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Names beside their values, without those that have none."""
    shown = [(name.replace("_", " "), value) for name, value in pairs if value]
    width = max((columns(name) for name, _ in shown), default=0) + len(GAP)
    for name, value in shown:
        first, *rest = wrap(value, screen, " " * width)
        yield screen.dim(name) + " " * (width - columns(name)) + first[width:]
        yield from rest


def ago(instant: str | None, now: float) -> str:
    """A time as its distance from now: `3 h ago`, `in 2 d`, `now`; a dash for none."""
    if not instant:
        return "-"
    seconds = now - datetime.fromisoformat(instant).timestamp()
    if abs(seconds) < 1:
        return "now"
    counts = ((round(abs(seconds) / length), unit, limit) for unit, length, limit in _UNITS)
    count, unit = next((count, unit) for count, unit, limit in counts if count < limit)
    return f"{count} {unit} ago" if seconds > 0 else f"in {count} {unit}"
