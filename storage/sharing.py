"""Files that two snapshots have alike are one file on the disk, with a name in each.

A snapshot's files are never written to: a restoration copies them, and what a snapshot's folder holds is let go of name by
name. A store which somebody made of such files by hand gets its own before it is opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from storage import edge_files as files
from storage.edge_files import Content

_CHUNK: Final = 1 << 20

Link = Callable[[Path, Path], None]


def share(
    store: Path, contents: Mapping[str, Content], former: Path, known: Mapping[str, Content], link: Link = os.link
) -> None:
    """Put the file of `former` in the place of each file of `store` that holds the same, byte for byte.

    Where the file system has no hard links, or a file of `former` cannot be read, the copies stay as they are.
    """
    for path, content in contents.items():
        if not content.end or known.get(path) != content:
            continue
        beside = store / f"{path}.shared"
        try:
            if _alike(store / path, former / path, content):
                link(former / path, beside)
                beside.replace(store / path)
        except OSError:  # what `store` has is whole without it
            beside.unlink(missing_ok=True)
            return


def unshare(folder: Path) -> None:
    """Give `folder` a file of its own in the place of each that has names elsewhere too."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_nlink > 1:
            beside = path.with_name(f"{path.name}.own")
            beside.unlink(missing_ok=True)  # of an attempt that was cut short
            files.copy_file(path, beside)
            beside.replace(path)


def share_of_disk(folder: Path) -> int:
    """Bytes on disk under `folder`, holes not counted; of a file with several names each counts an equal part.

    So the sizes of all snapshots add up to what they take.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = Path(parent, name).stat()
            except FileNotFoundError:  # it is being let go of
                continue
            total += status.st_blocks * 512 // status.st_nlink
    return total


def _alike(one: Path, other: Path, content: Content) -> bool:
    """Whether two files are of the content's length and hold the same; what lies behind its end are zeros."""
    with one.open("rb") as left, other.open("rb") as right:
        if {os.fstat(file.fileno()).st_size for file in (left, right)} != {content.length}:
            return False
        for start in range(0, content.end, _CHUNK):
            size = min(_CHUNK, content.end - start)
            if left.read(size) != right.read(size):
                return False
    return True
