from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.notify import Notifier, take_sockets, watchdog_seconds
from storage.errors import Invalid
from tests.daemon.serving import short_folder
from tests.requirements import require

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.mark.parametrize("abstract", [False, True])
def test_state_reaches_systemd(folder: Path, *, abstract: bool) -> None:
    address = f"@dreamd-test-{os.getpid()}" if abstract else str(folder / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + address[1:] if abstract else address)
        systemd.settimeout(10)

        assert Notifier(address).send(ready=1, status="dreaming")
        assert systemd.recv(1000) == b"READY=1\nSTATUS=dreaming"


def test_a_status_of_several_lines_cannot_forge_a_state(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(folder / "n"))
        systemd.settimeout(10)
        Notifier(str(folder / "n")).send(status="a\nREADY=1")

        assert systemd.recv(1000) == b"STATUS=a READY=1"


def test_without_systemd_nothing_is_sent(folder: Path) -> None:
    assert not Notifier("").send(ready=1)
    assert not Notifier(str(folder / "gone")).send(ready=1)


def test_a_full_queue_does_not_hold_the_daemon_up(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(folder / "n"))
        notifier = Notifier(str(folder / "n"))

        assert not all(notifier.send(watchdog=1) for _ in range(10_000))


def test_the_watchdog_is_pinged_twice_an_interval() -> None:
    assert watchdog_seconds({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 7) == 30.0
    assert watchdog_seconds({"WATCHDOG_USEC": "60000000"}, 7) == 30.0


@pytest.mark.parametrize("environ", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}])
def test_a_watchdog_for_nobody_or_another_process_is_none(environ: dict[str, str]) -> None:
    assert watchdog_seconds(environ, 7) is None


def test_a_malformed_number_is_named() -> None:
    with pytest.raises(Invalid, match=r"\$WATCHDOG_USEC"):
        watchdog_seconds({"WATCHDOG_USEC": "soon"}, 7)


@pytest.mark.parametrize("environ", [{}, {"LISTEN_PID": "8", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "rpc"}])
def test_no_sockets_are_taken_that_are_not_ours(environ: dict[str, str]) -> None:
    environ["PATH"] = "/bin"

    assert take_sockets(environ, 7) == []
    assert environ == {"PATH": "/bin"}


# Puts what it was given where systemd would, takes it, and tells what it got.
ACTIVATED = """
import os, socket, sys
sys.path.insert(0, sys.argv[1])
from daemon.notify import take_sockets
given = [int(fd) for fd in sys.argv[2:]]
for place, fd in enumerate(given):
    os.dup2(fd, 3 + place, inheritable=True)
os.environ["LISTEN_PID"] = os.environ.get("LISTEN_PID") or str(os.getpid())
if given:
    os.environ["LISTEN_FDS"] = str(len(given))
for name, taken in take_sockets(os.environ, os.getpid()):
    print(name, taken.family.name, taken.type.name, taken.getsockname(), os.get_inheritable(taken.fileno()))
print(sorted(name for name in os.environ if name.startswith("LISTEN_")))
"""


def test_sockets_are_taken_by_name_and_not_inherited(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
        one.bind(str(folder / "a"))
        two.bind(str(folder / "b"))
        # Free numbers far from 3 and 4, so that one is not moved onto the other, nor onto what this process has open.
        given = [fcntl.fcntl(s.fileno(), fcntl.F_DUPFD, 50) for s in (one, two)]
        try:
            told = subprocess.run(
                [sys.executable, "-c", ACTIVATED, ROOT, *map(str, given)],
                env={"LISTEN_FDNAMES": "rpc"},
                pass_fds=given,
                capture_output=True,
                check=True,
                text=True,
            ).stdout.splitlines()
        finally:
            for descriptor in given:
                os.close(descriptor)

    assert told == [f"rpc AF_UNIX SOCK_STREAM {folder}/a False", f"unknown AF_UNIX SOCK_STREAM {folder}/b False", "[]"]


def test_systemds_own_activator_passes_a_socket(folder: Path) -> None:
    activator = shutil.which("systemd-socket-activate")
    require(activator is not None, "needs systemd-socket-activate")
    path = folder / "s"
    command = [str(activator), "-l", str(path), "--fdname=rpc", sys.executable, "-c", ACTIVATED, str(ROOT)]
    waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert waiting.stderr is not None
    waiting.stderr.readline()  # Listening on ...
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        told = waiting.communicate(timeout=30)[0].splitlines()

    assert told == [f"rpc AF_UNIX SOCK_STREAM {path} False", "[]"]
