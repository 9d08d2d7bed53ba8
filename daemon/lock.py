"""One daemon a state folder: an advisory lock on `<state>/lock`, held as long as the process lives.

The kernel lets go of it when the process ends, however it ends, so a pid that was given to another process since, or a
file that a dead one left, never bars the start. The file's text only tells who holds it; the file itself stays, because
removing it would let a second daemon lock a new one beside it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from storage.errors import Conflict, Unavailable

EXIT_LOCKED: Final = 3  # the unit does not restart on it

_MAX_TEXT: Final = 4096


class StateLocked(Conflict):
    """Another daemon owns the state folder; the process ends with `exit_code`."""

    exit_code = EXIT_LOCKED


class StateLock:
    """The lock on a state folder; as a context manager it lets go at the end."""

    def __init__(self, state: Path, *, pid: int, since: str, socket: Path) -> None:
        """Lock the folder, which exists, for process `pid`, which listens on `socket` and started at `since`."""
        self.path = state / "lock"
        self._descriptor = _open(self.path)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._descriptor, _MAX_TEXT, 0)
            os.close(self._descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise _locked(state, holder) from None
            raise _unlockable(self.path, error) from error
        self._write({"pid": pid, "since": since, "socket": str(socket)})

    def release(self) -> None:
        """Let go; the file stays, empty."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # for a child, too, that has not closed its copy yet
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _write(self, holder: dict[str, int | str]) -> None:
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder).encode(), 0)
        except OSError as error:  # a full disk
            os.close(self._descriptor)
            raise _unlockable(self.path, error) from error


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unlockable(path, error) from error


def _locked(state: Path, text: bytes) -> StateLocked:
    try:
        holder = json.loads(text)
        who = f"pid {holder['pid']} owns it since {holder['since']}, socket {holder['socket']}"
    except (ValueError, KeyError, TypeError):  # it has locked, and not yet written
        who = "another process owns it"
    return StateLocked(
        f"The state folder {state} is in use: {who}.",
        hint="Talk to that daemon with dreamctl, stop it, or start this one with another --state-dir.",
    )


def _unlockable(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"Cannot lock {path}: {error.strerror}.",
        hint="Check the folder's owner, mode and free space; a state folder belongs on a local disk.",
    )
