"""What lies on the disk, for tests that look for what must not be there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PIECE = 64  # bytes: a long value lies on several pages


def written(path: Path) -> Iterator[bytes]:
    """What was ever written to a file, without its holes: a shard is 165 MB long and some 100 KB large."""
    with path.open("rb") as file:
        end, length = 0, os.fstat(file.fileno()).st_size
        while end < length:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # a hole to the end
                return
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            yield os.pread(file.fileno(), end - start, start)


def out_of_reach(folder: Path) -> None:
    """Make `folder`, and in it folders so deep that no path leads to the last: not even root deletes them by their paths."""
    folder.mkdir()
    above = os.open(folder, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("x" * 200, dir_fd=above)
        below = os.open("x" * 200, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)


def asked(folder: Path, dense: np.ndarray) -> list[str]:
    """The files below a folder in which a piece of a question's vector stands, as a canary keeps it."""
    kept = dense.astype(np.float16).tobytes()
    pieces = [piece for start in range(0, len(kept), PIECE) if any(piece := kept[start : start + PIECE])]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if any(piece in held for held in [b"".join(written(path))] for piece in pieces)]
