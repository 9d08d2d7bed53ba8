"""A shard's folder on disk: what its files tell without loading them, and copies that keep their holes.

The layout is that of the engine's pinned version: `segments/<uuid>/` with `version.info` (written last) and two
append-only id tracker files, `temp_segments/` for rewriting, `wal/`. An empty shard is 165 MB long and 0.2 MB large.
"""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from storage.engine import DENSE
from storage.errors import Unavailable

_ROW: Final = 8  # bytes a row in `mutable_id_tracker.versions`, deleted rows included
_CHUNK: Final = 1 << 20
_PAGE: Final = 1 << 16  # of a copy: one that is all zeros becomes a hole
_MIB: Final = 1 << 20


def free_bytes(path: Path) -> int:
    """Bytes that this user may still write on the file system of `path`."""
    room = os.statvfs(path)
    return room.f_bavail * room.f_frsize


def require_room(path: Path, need: int, free_bytes: Callable[[Path], int] = free_bytes) -> None:
    """Raise Unavailable unless `need` bytes are free on the file system of `path`."""
    free = free_bytes(path)
    if free < need:
        detail = f"The disk of {path} has {free // _MIB} MiB free; {-(-need // _MIB)} MiB are needed."
        raise Unavailable(detail, hint=f"df -h {path}, free some space, then try again", retry_after_s=60.0)


def allocated_bytes(folder: Path) -> int:
    """Bytes on disk under `folder`, holes not counted."""
    total = 0
    for path in _files(folder):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:  # the log renames its files in the background
            continue
    return total


def segments(shard: Path) -> dict[str, Path]:
    """The segments which a load would read, by name; the engine discards those without `version.info`."""
    return {path.name: path for path in _segment_folders(shard) if _complete(path)}


def tracker_bytes(shard: Path) -> int:
    """Bytes of the id trackers that a load would read; deletes lengthen them too, only rewriting shortens them."""
    return sum(_size(path, "*id_tracker*") for path in segments(shard).values())


def rows(shard: Path) -> int:
    """How many rows the segments hold as of the last flush, deleted ones included."""
    return sum(_size(path, "mutable_id_tracker.versions") for path in segments(shard).values()) // _ROW


def fault(shard: Path) -> str | None:
    """Say why a load would lose what is stored, or None.

    The engine makes a new segment where it finds none, and deletes one that has no `version.info`: right after a
    rewrite that was cut short, whose complete original lies beside it, fatal otherwise.
    """
    folders = _segment_folders(shard)
    if not folders:
        return "it holds no segment"
    filled = [path for path in folders if _size(path, "*id_tracker*")]
    if filled and not any(_complete(path) for path in filled):
        return f"segment {filled[0].name} has no version.info"
    return None


def dimension(shard: Path) -> int | None:
    """The dense dimension that the shard was made for, 0 without one; None where it does not say.

    Raises ValueError, AttributeError or TypeError where the file says something else.
    """
    path = shard / "edge_config.json"
    if not path.exists():
        return None
    config = json.loads(path.read_bytes())
    return int(config.get("vectors", {}).get(DENSE, {}).get("size", 0))


def clear_scratch(shard: Path) -> None:
    """Delete what a rewrite that was cut short left in `temp_segments`: unfinished copies, never the store itself."""
    empty(shard / "temp_segments")


def empty(scratch: Path) -> None:
    """Delete all that a folder of copies holds, if it is there: of a link in it the link, never what it leads to.

    Raises NotADirectoryError where the folder itself is a link.
    """
    if scratch.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "It is a link to another place", str(scratch))
    for parent, folders, files in os.walk(scratch, topdown=False):
        for path in (Path(parent, name) for name in (*files, *folders)):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()


def remove(folder: Path) -> None:
    """Delete a folder of copies and all that it holds, if it is there; in the place of one a link goes by itself."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        empty(folder)
        folder.rmdir()


def copy_sparse(source: Path, target: Path) -> None:
    """Copy the folder `source` to the new folder `target`, holes as holes; log files still being made are left out."""
    target.mkdir(parents=True)
    for path in sorted(source.rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_dir():
            copy.mkdir()
        elif not path.name.startswith("tmp-"):
            copy_file(path, copy)


def copy_file(source: Path, target: Path) -> None:
    """Copy one file into a new one, holes as holes."""
    with source.open("rb") as reader, target.open("xb") as writer:
        length = os.fstat(reader.fileno()).st_size
        for start, end in _extents(reader.fileno(), length):
            for offset in range(start, end, _CHUNK):
                writer.seek(offset)
                writer.write(os.pread(reader.fileno(), min(_CHUNK, end - offset), offset))
        writer.truncate(length)


class Content(NamedTuple):
    """What a file holds: its length, where its data end (zeros follow), and the CRC-32 of what lies before that."""

    length: int
    end: int
    crc: int


def contents(folder: Path) -> dict[str, Content]:
    """What each file under `folder` holds, by its path from there; those that `copy_sparse` leaves out are left out."""
    return {str(path.relative_to(folder)): _content(path) for path in sorted(folder.rglob("*")) if _lasts(path)}


def copy_known(source: Path, target: Path, known: Content) -> bool:
    """Copy one file into a new one of the known length; false where it does not hold what it is known to hold.

    It is read from the disk, whatever lies in memory since it was written. The zeros behind the data may be missing.
    """
    crc = done = 0
    with source.open("rb") as reader, target.open("xb") as writer:
        os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while done < known.end and (page := reader.read(min(_PAGE, known.end - done))):
            crc = zlib.crc32(page, crc)
            if page != bytes(len(page)):
                writer.seek(done)
                writer.write(page)
            done += len(page)
        writer.truncate(known.length)
    return (done, crc) == (known.end, known.crc)


def _content(path: Path) -> Content:
    with path.open("rb") as reader:
        length = os.fstat(reader.fileno()).st_size
        end = max((end for _, end in _extents(reader.fileno(), length)), default=0)
        crc = 0
        for offset in range(0, end, _CHUNK):
            crc = zlib.crc32(os.pread(reader.fileno(), min(_CHUNK, end - offset), offset), crc)
    return Content(length, end, crc)


def _lasts(path: Path) -> bool:
    """Whether this is a file that belongs to the store, not one that the engine is still making."""
    return path.is_file() and not path.name.startswith("tmp-")


def _extents(file: int, length: int) -> Iterator[tuple[int, int]]:
    """The ranges of an open file that hold data: (start, end) in bytes."""
    end = 0
    while end < length:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing but a hole to the end
            return
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        for name in names:
            yield Path(parent, name)


def _segment_folders(shard: Path) -> list[Path]:
    folder = shard / "segments"
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".") and p.suffix != ".deleted")


def _complete(segment: Path) -> bool:
    return (segment / "version.info").is_file()


def _size(segment: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in segment.glob(pattern))
