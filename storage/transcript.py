"""A conversation as the text of one memory: `role: text`, a turn after the other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from storage.model import MAX_CONTENT_BYTES, MAX_CONTEXT_BYTES
from storage.talk import Turn

NOTE_BYTES: Final = 200  # kept free for the last line, which says what is missing


class Transcript(NamedTuple):
    """What is embedded and shown, and where that is not all, as much of the whole as a memory may keep."""

    content: str
    context: str


def transcript(turns: Iterable[Turn], count: int) -> Transcript:
    """The transcript of a session of `count` turns, of which only as many are taken as fit a memory.

    A text that is too long ends at the border of two turns, and the content then says in a last line how many turns are
    in the context only; a first turn that is too long alone is cut.
    """
    lines: list[str] = []
    size = 0
    for turn in turns:
        line = f"{turn.role}: {turn.content}"
        size += len(line.encode()) + 1
        if size > MAX_CONTEXT_BYTES:
            break
        lines.append(line)
    whole = "\n".join(lines)
    if len(lines) == count and len(whole.encode()) <= MAX_CONTENT_BYTES:
        return Transcript(whole, "")
    shown = _fitting(lines, MAX_CONTENT_BYTES - NOTE_BYTES)
    note = _note(count, len(lines), len(shown), cut=shown[0] != lines[0])
    return Transcript("\n".join([*shown, note]), whole)


def _fitting(lines: Sequence[str], limit: int) -> list[str]:
    """The first lines that fit into so many bytes, at least the beginning of the first."""
    shown: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > limit:
            break
        shown.append(line)
    return shown or [lines[0].encode()[:limit].decode(errors="ignore")]


def _note(count: int, kept: int, shown: int, *, cut: bool) -> str:
    missing = [
        "the turn above is whole in the context only" if cut else "",
        f"{kept - shown} more in the context only" if kept > shown else "",
        f"{count - kept} more in the session only" if count > kept else "",
    ]
    turns = "1 turn" if count == 1 else f"{count} turns"
    return f"({turns}: {'; '.join(filter(None, missing))})"
