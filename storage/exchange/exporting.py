"""An export: what a scope holds and a clearance covers, in one new file. It is no run, for it changes nothing.

It works in a thread of its own and reaches the store behind the requests, a few records at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from storage.errors import Invalid, NotFound, command
from storage.exchange import survey as surveys
from storage.exchange.forms import told_instant
from storage.exchange.new_file import check_free, new_file
from storage.exchange.survey import Read, Survey, surveyed
from storage.exchange.writers import WRITERS, Writer
from storage.model import EVERY_SCOPE
from storage.store import Stores


class Wanted(NamedTuple):
    """What is exported, where to, and for whom; `version` is the dreamd that says so."""

    path: Path
    format: str
    scope: str
    clearance: str
    at: float
    version: str


class Exported(NamedTuple):
    """How many records of each kind the file holds, and how long it is (bytes)."""

    counts: dict[str, int]
    bytes: int


def export(stores: Stores, read: Read, wanted: Wanted, progress: Callable[[int, int], None]) -> Exported:
    """Write the file, whole or not at all. Raises Invalid, Conflict, NotFound or Unavailable."""
    check_free(wanted.path)
    if wanted.path.resolve().is_relative_to(stores.folder.resolve()):
        raise Invalid(
            f"{wanted.path} lies in the state folder, which holds the store alone.",
            hint="choose a path outside it, such as /tmp/export.jsonl", field="path",
        )  # fmt: skip
    survey = surveyed(stores, read, wanted.scope, wanted.clearance)
    make = WRITERS[wanted.format]
    if wanted.scope != EVERY_SCOPE and not survey.total(tuple(surveys.ORDERS)) and not survey.memories:
        raise NotFound(
            f"There is nothing in the scope {wanted.scope!r}.",
            hint=f"{command('export', str(wanted.path))} covers every scope; see dreamctl stats --scope '*'",
        )
    about = {"version": wanted.version, "exported_at": told_instant(wanted.at), "scope": wanted.scope}
    with new_file(wanted.path) as file:
        writer = make(file, about)
        counts = _write(stores, read, survey, writer, progress)
        writer.end(counts)
        file.flush()
        return Exported(counts, os.fstat(file.fileno()).st_size)


def _write(
    stores: Stores, read: Read, survey: Survey, writer: Writer, progress: Callable[[int, int], None]
) -> dict[str, int]:
    """Write the records of every kind that the format has; returns how many it were."""
    counts = dict.fromkeys(writer.kinds, 0)
    told: set[str] = set()
    total = survey.total(writer.kinds)
    for batch in _batches(stores, read, survey, writer, told):
        for record in batch:
            writer.write(record)
            counts[record["kind"]] += 1
            if record["kind"] == "memory":
                told.add(record["id"])
        done = sum(counts.values())
        progress(done, max(total + counts.get("edge", 0), done))
    return counts


def _batches(
    stores: Stores, read: Read, survey: Survey, writer: Writer, told: set[str]
) -> Iterator[list[dict[str, Any]]]:
    """The records in batches, kind after kind; what hangs on memories comes after all of them."""
    for kind in writer.kinds:
        match kind:
            case "memory":
                yield from surveys.memories(stores, read, survey)
            case "edge":
                yield from surveys.edges(stores, read, survey, told)
            case _:
                yield from surveys.records(stores, read, survey, kind)
