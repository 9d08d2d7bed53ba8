"""A file that appears whole or not at all, and never in the place of another."""

from __future__ import annotations

import errno
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from storage import durable
from storage.errors import Conflict, DreamdError, Invalid, Unavailable

#: What a file system answers that has no hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def check_free(path: Path) -> None:
    """Raise Invalid unless an absolute path could become a file, Conflict where something is there already."""
    if not path.is_absolute() or "\0" in str(path):
        raise Invalid("The path is not absolute.", hint="write it from the root on: /tmp/export.jsonl", field="path")
    try:
        taken = _is_there(path)
        folder = path.parent.is_dir()
    except OSError as error:
        raise refused(path, error) from error
    if taken:
        raise _taken(path)
    if not folder:
        raise Invalid(
            f"There is no folder {path.parent}.", hint=f"mkdir -p {shlex.quote(str(path.parent))}", field="path"
        )


@contextmanager
def new_file(path: Path) -> Iterator[TextIO]:
    """A text file to write, under a hidden name beside `path`, readable by nobody else; it gets its name last.

    Raises Conflict where something came there meanwhile, Invalid where the folder cannot be written, Unavailable where
    the disk is full. Whatever is raised, nothing is left.
    """
    check_free(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=".dreamd-", suffix=".part", dir=path.parent)
    except OSError as error:
        raise refused(path, error) from error
    os.close(descriptor)
    beside = Path(name)
    try:
        with beside.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _give_name(beside, path)
        durable.sync(path.parent)
    except OSError as error:
        raise refused(path, error) from error
    finally:
        beside.unlink(missing_ok=True)


def refused(path: Path, error: OSError) -> DreamdError:
    """What the system says of a path that this user cannot write."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Unavailable(
            f"There is no room for {path}: {error.strerror}. Nothing is left of it.",
            hint=f"df -h {shlex.quote(str(path.parent))}",
        )
    return Invalid(
        f"{path} cannot be written by the daemon: {error.strerror}.",
        hint=f"choose a folder that its user may write, see: ls -ld {shlex.quote(str(path.parent))}", field="path",
    )  # fmt: skip


def _is_there(path: Path) -> bool:
    """Whether anything has this name, a link that leads nowhere too."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _give_name(beside: Path, path: Path) -> None:
    """Rename without overwriting: a second name, then the first one goes."""
    try:
        os.link(beside, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise _taken(path) from None
        beside.replace(path)


def _taken(path: Path) -> Conflict:
    return Conflict(f"{path} exists already; nothing was overwritten.", hint="choose another name, or remove it")
