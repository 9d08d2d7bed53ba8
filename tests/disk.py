"""What lies on the disk, for tests that look for what must not be there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


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
