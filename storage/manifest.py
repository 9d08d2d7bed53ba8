"""What a snapshot says of itself, so that it can be checked before it is trusted."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from storage.edge_files import Content
from storage.embed import Fingerprint
from storage.errors import Corrupt, Refused
from storage.instants import format_instant, parse_instant
from storage.memories import BIN, LIVE
from storage.synapses import SYNAPSES

FORMAT: Final = 1


class Manifest(NamedTuple):
    """When a snapshot was taken, by which versions, what its vectors came from, and what it holds.

    `marks` are each collection's points and bytes of id trackers; `files` what each file holds, by its path.
    """

    taken_at: float
    label: str
    made_by: dict[str, str]
    embedder: Fingerprint | None
    marks: dict[str, list[int]]
    erasures: int  # how many things had been erased for good by then, by the ledger's count
    files: dict[str, Content] = {}  # noqa: RUF012 - never changed in place

    def points(self, collection: str) -> int:
        """How many points a collection holds."""
        return self.marks[collection][0]

    def to_text(self) -> str:
        """The manifest as it is stored: JSON."""
        stored = {
            "format": FORMAT, "taken_at": format_instant(self.taken_at), "label": self.label, "made_by": self.made_by,
            "embedder": self.embedder and self.embedder.to_dict(), "memories": self.points(LIVE), "bin": self.points(BIN),
            "edges": self.points(SYNAPSES), "marks": self.marks, "erasures": self.erasures, "files": self.files,
        }  # fmt: skip
        return json.dumps(stored, ensure_ascii=False, indent=1) + "\n"

    def fault(self, store: Path) -> str:
        """What is wrong with the files in `store`, as far as their lengths tell, or nothing.

        The zeros at the end of a file may be missing: an archive leaves them out.
        """
        for path, content in self.files.items():
            try:
                length = (store / path).stat().st_size
            except OSError:
                return f"{path} is missing"
            if not content.end <= length <= content.length:
                return f"{path} is {length} bytes long, not {content.length}"
        return ""


def read(path: Path, name: str) -> Manifest:
    """The manifest of the snapshot `name`. Raises Refused where a newer dreamd wrote it, Corrupt where it cannot be read."""
    try:
        stored = json.loads(path.read_bytes())
        if stored["format"] > FORMAT:
            raise Refused(
                f"Snapshot {name!r} was made by a newer dreamd ({_makers(stored)}): its format is {stored['format']}, and "
                f"this one knows {FORMAT}. Nothing was changed.",
                hint="Install that version, then restore it again; or choose another: dreamctl snapshots",
            )
        return _manifest(stored)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise broken(name, "its manifest cannot be read") from None


def broken(name: str, fault: str) -> Corrupt:
    """The error for a snapshot that is not what it was."""
    return Corrupt(
        f"Snapshot {name!r} is damaged: {fault}. Nothing was changed.", hint="Choose another: dreamctl snapshots"
    )


def _manifest(stored: dict[str, Any]) -> Manifest:
    embedder = stored["embedder"]
    contents = {path: Content(*map(int, content)) for path, content in stored["files"].items()}
    if any(PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts for path in contents):
        raise ValueError("a path outside the snapshot")
    marks = {collection: [int(number) for number in mark] for collection, mark in stored["marks"].items()}
    manifest = Manifest(
        parse_instant(stored["taken_at"]), str(stored["label"]), {name: str(by) for name, by in stored["made_by"].items()},
        None if embedder is None else Fingerprint.from_dict(embedder), marks, int(stored["erasures"]), contents,
    )  # fmt: skip
    for collection in (LIVE, BIN, SYNAPSES):
        manifest.points(collection)
    if not contents:
        raise ValueError("no files")
    return manifest


def _makers(stored: dict[str, Any]) -> str:
    made_by = stored.get("made_by")
    return (
        ", ".join(f"{name} {by}" for name, by in made_by.items()) if isinstance(made_by, dict) else "of unknown version"
    )
