from __future__ import annotations

import grp
import os
import pwd
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.sockets import MAX_PATH_BYTES, Peer, bind_unix, is_member, peer_of
from storage.errors import Conflict, Invalid, Unavailable
from tests.daemon.serving import short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_row60_the_socket_is_private_from_its_first_moment_even_under_umask_0(folder: Path) -> None:
    path = folder / "run" / "dreamd" / "s"
    seen: set[int] = set()
    bound = threading.Event()

    def watch() -> None:
        while not bound.is_set():
            try:
                seen.add(mode(path))
            except FileNotFoundError:
                continue

    watcher = threading.Thread(target=watch)
    before = os.umask(0)
    watcher.start()
    try:
        listener = bind_unix(path)
        seen.add(mode(path))
    finally:
        umask = os.umask(before)
        bound.set()
        watcher.join()
    listener.socket.close()

    assert seen == {0o600}
    assert (mode(path.parent), mode(path.parent.parent)) == (0o700, 0o700)
    assert umask == 0, "the umask of the process is as it was"
    assert listener.warning == ""


def test_another_folder_is_accepted_with_a_warning(folder: Path) -> None:
    folder.chmod(0o755)

    listener = bind_unix(folder / "s")
    listener.socket.close()

    assert "0755" in listener.warning
    assert mode(folder) == 0o755


def test_row61_a_live_socket_is_refused_and_goes_on(folder: Path) -> None:
    first = bind_unix(folder / "s")

    with pytest.raises(Conflict, match="Another process listens"):
        bind_unix(folder / "s")

    assert first.path.is_socket()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(first.path))
        first.socket.accept()[0].close()
    first.socket.close()


HOLDER = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from daemon.sockets import bind_unix
bound = bind_unix(Path(sys.argv[1]))
print(flush=True)
signal.pause()
"""


def test_row63_a_socket_that_a_killed_daemon_left_is_replaced(folder: Path) -> None:
    path, root = folder / "s", Path(__file__).resolve().parents[2]
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, path, root], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(Conflict):
        bind_unix(path)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert path.is_socket()

    listener = bind_unix(path)

    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    listener.socket.close()


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_not_a_socket_is_never_removed(folder: Path, kind: str) -> None:
    path, target = folder / "s", folder / "precious"
    target.write_text("memories")
    {"file": lambda: path.write_text("x"), "folder": path.mkdir, "link": lambda: path.symlink_to(target)}[kind]()

    with pytest.raises(Invalid, match="not a socket"):
        bind_unix(path)

    assert os.path.lexists(path)
    assert target.read_text() == "memories"


def test_a_datagram_socket_that_somebody_holds_is_not_taken_for_dead(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(folder / "s"))

        with pytest.raises(Conflict):
            bind_unix(folder / "s")


def test_a_path_of_107_bytes_is_bound_and_one_of_108_is_a_clear_error(folder: Path) -> None:
    room = MAX_PATH_BYTES - len(os.fsencode(folder)) - 1
    longest = folder / ("s" * room)
    bind_unix(longest).socket.close()

    with pytest.raises(Invalid, match="108 bytes; the system allows 107"):
        bind_unix(folder / ("s" * (room + 1)))


def test_a_path_is_measured_in_bytes_not_characters() -> None:
    with pytest.raises(Invalid):
        bind_unix(Path("/tmp/" + "记" * 40))


def test_a_folder_that_cannot_be_made_is_unavailable(folder: Path) -> None:
    (folder / "file").write_text("")

    with pytest.raises(Unavailable, match="Cannot listen"):
        bind_unix(folder / "file" / "s")


def test_removal_takes_our_own_socket_and_never_its_successor(folder: Path) -> None:
    listener = bind_unix(folder / "s")
    listener.socket.close()
    os.utime(listener.path, ns=(1, 1))  # as another socket in its place would differ
    listener.remove()
    assert listener.path.is_socket()

    successor = bind_unix(folder / "s")
    successor.socket.close()
    successor.remove()
    assert not successor.path.exists()
    successor.remove()


def test_the_kernel_tells_who_connected(folder: Path) -> None:
    listener = bind_unix(folder / "s")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(listener.path))
        accepted, _ = listener.socket.accept()
        with accepted:
            assert peer_of(accepted) == Peer(os.getpid(), os.getuid(), os.getgid())
    listener.socket.close()


def test_membership_comes_from_the_peers_gid_or_from_the_user_database() -> None:
    group = grp.getgrgid(os.getgid())

    assert is_member(Peer(1, 4_000_000, group.gr_gid), group.gr_name)
    assert is_member(Peer(1, os.getuid(), 4_000_000), group.gr_name)
    assert not is_member(Peer(1, 4_000_000, 4_000_000), group.gr_name)
    assert not is_member(Peer(1, os.getuid(), group.gr_gid), "no-such-group")


def test_a_member_listed_in_the_group_belongs_to_it() -> None:
    users = {user.pw_name: user.pw_uid for user in pwd.getpwall()}
    listed = [(group, users[name]) for group in grp.getgrall() for name in group.gr_mem if name in users]
    if not listed:
        pytest.skip("no group of this machine lists a member")

    assert all(is_member(Peer(1, uid, 4_000_000), group.gr_name) for group, uid in listed)
