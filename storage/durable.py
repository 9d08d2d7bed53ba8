"""Files and renames that a power cut cannot take back: on the disk when these return."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync(path: Path) -> None:
    """Bring one file, or the entries of one folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Bring a folder and all that is in it to the disk."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            with suppress(FileNotFoundError):  # an engine that has it open renames its log's files
                sync(Path(parent, name))
        sync(Path(parent))


def make(folder: Path) -> None:
    """Make a new folder, and those above it that are not there. Raises FileExistsError where it is there."""
    above = folder.parent
    if not above.exists():
        make(above)
    folder.mkdir()
    sync(above)


def write(path: Path, text: str) -> None:
    """Write a text file whole: whoever reads it sees the former one or this one."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    sync(beside)
    rename(beside, path)


def rename(source: Path, target: Path) -> None:
    """Give a file or a folder another name on the same file system."""
    source.rename(target)
    sync(target.parent)
    if source.parent != target.parent:
        sync(source.parent)


def remove(path: Path) -> None:
    """Remove one file, if it is there."""
    path.unlink(missing_ok=True)
    sync(path.parent)
