"""The Unix socket itself: bound so that nobody else gets in, and who is at the other end.

A path is bound under umask 0177, so that the socket is 0600 from its first moment; a chmod afterwards leaves a window.
A socket file that nobody listens on is replaced, which the caller may only ask for once it holds the state lock.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import socket
import stat
import struct
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import Conflict, Invalid, Unavailable

MAX_PATH_BYTES: Final = 107  # sun_path is 108 bytes with its NUL
BACKLOG: Final = 1024  # connections the kernel holds while the store opens, or while we are at the connection cap

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid
_CONNECT_SECONDS: Final = 1.0


class Peer(NamedTuple):
    """The process at the other end, as the kernel vouches for it; pid is 0 where it lives in another pid namespace."""

    pid: int
    uid: int
    gid: int


class BoundSocket(NamedTuple):
    """A listening socket of our own; `warning` is a sentence about its folder, or empty."""

    socket: socket.socket
    path: Path
    identity: tuple[int, int]
    warning: str

    def remove(self) -> None:
        """Take the socket file away, unless another one stands in its place by now."""
        try:
            if _identity(self.path) == self.identity:
                self.path.unlink()
        except FileNotFoundError:
            return


def bind_unix(path: Path) -> BoundSocket:
    """Listen on `path` with mode 0600; folders that are missing are made 0700.

    Errors: Invalid for a path that is too long or holds something else, Conflict where a live process listens there,
    Unavailable where the system refuses.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise Invalid(
            f"The socket path {path} has {len(os.fsencode(path))} bytes; the system allows {MAX_PATH_BYTES}.",
            hint="Choose a shorter one: dreamd --socket /run/user/<uid>/dreamd/dreamd.sock",
            field="socket",
        )
    try:
        _make_folders(path.parent)
        _clear_stale(path)
        listener = _listen(path)
    except OSError as error:
        raise Unavailable(
            f"Cannot listen on {path}: {error.strerror}.",
            hint="Check the folder's owner and mode, or choose another path with dreamd --socket PATH.",
        ) from error
    return BoundSocket(listener, path, _identity(path), _folder_warning(path.parent))


def peer_of(connection: socket.socket) -> Peer:
    """The process that connected, by SO_PEERCRED."""
    return Peer._make(_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def is_member(peer: Peer, group: str) -> bool:
    """Whether the peer belongs to the group, by its own gid or by the user database, which may ask the network."""
    try:
        wanted = grp.getgrnam(group).gr_gid
    except KeyError:
        return False
    if peer.gid == wanted:
        return True
    try:
        user = pwd.getpwuid(peer.uid)
    except KeyError:
        return False
    return wanted in os.getgrouplist(user.pw_name, user.pw_gid)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_ino, found.st_mtime_ns  # a number alone is given again to the next file


def _make_folders(folder: Path) -> None:
    missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=0o700, exist_ok=True)


def _clear_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Invalid(
            f"{path} exists and is not a socket, so it stays.",
            hint="Move it away, or choose another path with dreamd --socket PATH.",
            field="socket",
        )
    if _is_live(path):
        raise Conflict(
            f"Another process listens on {path}.", hint="Stop it, or choose another path with dreamd --socket PATH."
        )
    path.unlink(missing_ok=True)


def _is_live(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            # In doubt it lives: its queue is full, or we may not connect.
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
        return True


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener


def _folder_warning(folder: Path) -> str:
    found = folder.stat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.geteuid() and not mode & 0o077:
        return ""
    return f"The socket's folder {folder} has mode {mode:04o} and owner {found.st_uid}; 0700 and our own is safer."
