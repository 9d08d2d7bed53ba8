"""Methods that move memories in and out of files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from daemon import __version__
from daemon.methods.filters import read_scope
from daemon.parts import Parts
from daemon.wire import Cleared, Method, Writing
from jobs import importing
from jobs.table import Job
from storage.errors import DreamdError, Unavailable, command
from storage.exchange import exporting
from storage.exchange.detect import source_of
from storage.ledger import Run
from storage.model import EVERY_SCOPE

Progress = Callable[[dict[str, Any]], None]
ExportFormat = Literal["jsonl", "json", "csv"]
ImportFormat = Literal["jsonl", "json", "csv", "text", "anchor", "agentmaker", "animus", "mem0"]


class ExportParams(Cleared):
    """What to export, and where to."""

    path: str = Field(
        description="The new file, on the daemon's host; nothing is overwritten.", json_schema_extra={"format": "path"}
    )
    format: ExportFormat = Field(default="jsonl", description="jsonl and json hold everything; csv the memories alone.")
    scope: str = Field(default=EVERY_SCOPE, description="Only this scope and those below it.")


class ExportedShape(TypedDict):
    """What the file holds: memories, those in the bin among them, and how many records of each kind."""

    path: str
    format: str
    scope: str
    memories: int
    counts: dict[str, int]
    bytes: int


class ImportParams(Writing):
    """What to import."""

    path: str = Field(
        description="A file, or a folder of anchor-memory, on the daemon's host.", json_schema_extra={"format": "path"}
    )
    format: ImportFormat | None = Field(default=None, description="What it is; default: told by its content.")
    dry_run: bool = Field(default=False, description="Say what would be imported and change nothing.")


class Differing(TypedDict):
    """A memory that says something else here, or lies in another scope; ours was kept."""

    id: str
    place: str


class Failed(TypedDict):
    """Something that could not be read or stored, where it stands, and why."""

    place: str
    detail: str


class ImportedShape(TypedDict):
    """What became of the file: memories `imported`, `skipped` since they are here already, and what was kept or refused.

    `counts` is what was stored of each kind, `kept` what of each kind is here already, `unknown` what this version has no
    place for. `scopes` are those that the memories went to, the twenty with most of them. Of conflicts and failures the
    first hundred are listed.
    """

    run_id: str
    format: str
    dry_run: bool
    imported: int
    scopes: dict[str, int]
    skipped: int
    conflicts: list[Differing]
    conflicts_total: int
    failed: list[Failed]
    failed_total: int
    counts: dict[str, int]
    kept: dict[str, int]
    unknown: dict[str, int]
    redactions: dict[str, int]


async def export(parts: Parts, params: ExportParams, progress: Progress | None = None) -> ExportedShape:
    """Write what a scope holds into a new file."""
    wanted = exporting.Wanted(
        Path(params.path), params.format, read_scope(params.scope), params.clearance, parts.clock.now(), __version__
    )

    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress({"job": "export", "done": done, "total": total})

    done = await asyncio.to_thread(exporting.export, parts.stores, parts.lane.call, wanted, tell)
    return {
        "path": params.path, "format": params.format, "scope": wanted.scope, "memories": done.counts["memory"],
        "counts": done.counts, "bytes": done.bytes,
    }  # fmt: skip


async def import_(parts: Parts, params: ImportParams, progress: Progress | None = None) -> ImportedShape:
    """Take in what a file holds; what is here already stays as it is."""
    path = Path(params.path)
    source = await asyncio.to_thread(source_of, path, params.format)
    wanted = importing.Wanted(path, source, params.clearance, parts.gate.default_sensitivity, parts.gate.kinds)
    outcome = importing.Outcome()
    job = Job(
        importing.NAME, partial(importing.run, wanted=wanted, outcome=outcome), importing.DEADLINE, "import a file"
    )
    run = await parts.runner.perform(job, dry_run=params.dry_run, listener=progress)
    _check_ended(run, outcome, params.path)
    if not params.dry_run:
        parts.meter.count_redactions(outcome.redactions)
        if outcome.counts.total():
            parts.meter.note_write(parts.clock.now())
    conflicts = [Differing(id=one, place=place) for one, place in outcome.conflicts]
    failed = [Failed(place=place, detail=detail) for place, detail in outcome.failed]
    return {
        "run_id": run.id, "format": source.format, "dry_run": run.dry_run, "imported": outcome.counts["memory"],
        "scopes": dict(outcome.scopes.most_common(20)), "skipped": outcome.kept["memory"], "conflicts": conflicts,
        "conflicts_total": outcome.conflicts_total, "failed": failed,
        "failed_total": outcome.failed_total, "counts": dict(+outcome.counts), "kept": dict(+outcome.kept),
        "unknown": dict(+outcome.unknown), "redactions": dict(+outcome.redactions),
    }  # fmt: skip


def _check_ended(run: Run, outcome: importing.Outcome, path: str) -> None:
    """Raise what ended an import before it was through."""
    if run.outcome in ("changed", "unchanged"):
        return
    error = outcome.error
    if error is not None and (not outcome.began or not isinstance(error, DreamdError)):
        raise error
    why = f"The import was cut short ({run.reason})." if error is None else f"The import stopped: {error.detail}"
    again = command("import", path) if error is None else error.hint
    if outcome.taken_back:
        raise Unavailable(f"{why} Nothing of it was kept.", hint=again, run_id=run.id)
    raise Unavailable(
        f"{why} What it had stored could not be taken back.",
        hint=f"mend that, then restart dreamd, which takes it back; or: {command('undo', run.id)}", run_id=run.id,
    )  # fmt: skip


METHODS: Final = (
    Method(
        "export",
        "care",
        ExportParams,
        ExportedShape,
        export,
        False,
        "Write memories into a new file.",
        ("path",),
        streams=True,
    ),
    Method(
        "import",
        "care",
        ImportParams,
        ImportedShape,
        import_,
        True,
        "Take in the memories of a file.",
        ("path",),
        streams=True,
    ),
)
