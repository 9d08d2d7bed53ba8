"""Plain text: a memory a paragraph. Paragraphs are parted by blank lines, and stay as they are within."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from storage.errors import Invalid
from storage.exchange.items import Fault, Item
from storage.exchange.jsonl import empty
from storage.model import MAX_CONTENT_BYTES

ENDINGS: Final = frozenset({".txt", ".text", ".md", ".markdown"})


def matches(path: Path) -> bool:
    """Whether the file's name says that it holds text."""
    return path.is_file() and path.suffix.lower() in ENDINGS


def read(path: Path) -> Iterator[Item | Fault]:
    """Its paragraphs. Raises Invalid where it is empty or not in UTF-8."""
    paragraph: list[str] = []
    begun, size, found, number = 1, 0, False, 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            while line := file.readline(MAX_CONTENT_BYTES):
                if line.strip():
                    size = size + len(line) if paragraph else len(line)
                    begun = begun if paragraph else number
                    if size <= 2 * MAX_CONTENT_BYTES:  # no more than it takes for the gate to refuse it
                        paragraph.append(line)
                elif paragraph:
                    found = True
                    yield _item(paragraph, begun)
                    paragraph = []
                number += line.endswith(("\n", "\r"))
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{path} is not UTF-8 after line {number}. Nothing was imported.",
            hint=f"iconv -f LATIN1 -t UTF-8 {shlex.quote(str(path))} > converted.txt, then import that", field="path",
        ) from error  # fmt: skip
    if paragraph:
        yield _item(paragraph, begun)
    elif not found:
        raise empty(path)


def _item(lines: list[str], begun: int) -> Item:
    return Item("memory", f"line {begun}", {"content": "".join(lines).strip("\r\n")})
