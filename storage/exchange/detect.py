"""Which format a file is in: by what stands in it, whatever its name; plain text alone is told by its name."""

from __future__ import annotations

import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import Invalid, NotFound, command
from storage.exchange import agentmaker, anchor, animus, csvs, documents, jsonl, mem0, plain
from storage.exchange.items import Fault, Item

Read = Callable[[Path], Iterator[Item | Fault]]


class Source(NamedTuple):
    """How a path is read; `whole` says that an export of ours tells every edge, those of sessions too."""

    format: str
    read: Read
    whole: bool = False


READERS: Final[dict[str, Read]] = {
    "jsonl": jsonl.read,
    "json": documents.read,
    "csv": csvs.read,
    "text": plain.read,
    "anchor": anchor.read,
    "agentmaker": agentmaker.read,
    "animus": animus.read,
    "mem0": mem0.read,
}
#: Asked in this order: the headers of ours, then what other systems write, then what a person may have written.
_MATCHES: Final[tuple[tuple[str, Callable[[Path], bool]], ...]] = (
    ("jsonl", jsonl.matches),
    ("json", documents.matches),
    ("anchor", anchor.matches),
    ("agentmaker", agentmaker.matches),
    ("animus", animus.matches),
    ("mem0", mem0.matches),
    ("json", documents.resembles),
    ("jsonl", jsonl.resembles),
    ("csv", csvs.matches),
    ("text", plain.matches),
)


def source_of(path: Path, wanted: str | None = None) -> Source:
    """How to read what lies at an absolute path, as `wanted` or by its content. Raises NotFound or Invalid."""
    try:
        _check(path)
        _refuse_utf_16(path)
        name = wanted or next((name for name, matches in _MATCHES if matches(path)), None)
        if path.is_dir() and name != "anchor":
            raise Invalid(
                f"{path} is a folder, and none of anchor-memory.", hint="name the file that is in it", field="path"
            )
        if name is None:
            raise Invalid(
                f"{path} is in no format that is known here.",
                hint=f"name one of {', '.join(READERS)}, as in: {command('import', str(path), format='text')}", field="format",
            )  # fmt: skip
        whole = (name == "jsonl" and jsonl.matches(path)) or (name == "json" and documents.matches(path))
    except OSError as error:
        raise unreadable(path, error) from error
    return Source(name, READERS[name], whole)


def unreadable(path: Path, error: OSError) -> Invalid:
    """What the system says of a path that this user cannot read."""
    return Invalid(
        f"{path} cannot be read by the daemon: {error.strerror}.", hint=f"ls -ld {shlex.quote(str(path))}", field="path"
    )


def _refuse_utf_16(path: Path) -> None:
    if path.is_file():
        with path.open("rb") as file:
            if file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE):
                raise Invalid(
                    f"{path} is in UTF-16.",
                    hint="save it as UTF-8 in the program that wrote it, then import that",
                    field="path",
                )


def _check(path: Path) -> None:
    if not path.is_absolute() or "\0" in str(path):
        raise Invalid("The path is not absolute.", hint="write it from the root on: /tmp/export.jsonl", field="path")
    if not path.exists():
        raise NotFound(f"There is no file {path} on the daemon's host.", hint=f"ls -l {shlex.quote(str(path.parent))}")
    if path.is_file() and path.stat().st_size == 0:
        raise jsonl.empty(path)
    if not (path.is_file() or path.is_dir()):
        raise Invalid(f"{path} is neither a file nor a folder.", hint="name a file", field="path")
