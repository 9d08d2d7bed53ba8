from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.lock import StateLock, StateLocked
from storage.errors import Conflict, Unavailable

ROOT = Path(__file__).resolve().parents[2]
SINCE = "2026-05-04T09:30:00Z"

HOLDER = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from daemon.lock import StateLock
lock = StateLock(Path(sys.argv[1]), pid=os.getpid(), since="2026-05-04T09:30:00Z", socket=Path("/run/x.sock"))
print(flush=True)
signal.pause()
"""


def lock(state: Path) -> StateLock:
    return StateLock(state, pid=os.getpid(), since=SINCE, socket=Path("/run/dreamd.sock"))


def held_elsewhere(state: Path) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, state, ROOT], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def test_row61_a_second_daemon_is_refused_and_told_who_holds_the_state(tmp_path: Path) -> None:
    holder = held_elsewhere(tmp_path)
    try:
        with pytest.raises(StateLocked) as caught:
            lock(tmp_path)
    finally:
        holder.kill()
        holder.communicate()

    assert f"pid {holder.pid} owns it since {SINCE}, socket /run/x.sock" in caught.value.detail
    assert str(tmp_path) in caught.value.detail
    assert caught.value.exit_code == 3
    assert isinstance(caught.value, Conflict)


def test_row63_a_killed_daemon_leaves_nothing_that_bars_the_start(tmp_path: Path) -> None:
    holder = held_elsewhere(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert json.loads((tmp_path / "lock").read_text())["pid"] == holder.pid

    with lock(tmp_path) as ours:
        assert json.loads(ours.path.read_text())["pid"] == os.getpid()


def test_row63_a_pid_that_lives_again_as_another_process_bars_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(json.dumps({"pid": 1, "since": SINCE, "socket": "/run/x.sock"}))

    with lock(tmp_path) as ours:
        assert json.loads(ours.path.read_text())["pid"] == os.getpid()


def test_a_refused_start_leaves_the_holders_name_in_place(tmp_path: Path) -> None:
    with lock(tmp_path) as first:
        for _ in range(2):
            with pytest.raises(StateLocked, match=f"pid {os.getpid()}"):
                lock(tmp_path)

        assert json.loads(first.path.read_text())["since"] == SINCE


def test_a_lock_is_free_again_when_it_was_let_go(tmp_path: Path) -> None:
    first = lock(tmp_path)
    first.release()
    first.release()

    with lock(tmp_path):
        pass
    assert (tmp_path / "lock").read_text() == ""


def test_a_child_process_with_a_copy_of_the_file_does_not_keep_the_lock(tmp_path: Path) -> None:
    first = lock(tmp_path)
    copy = first._descriptor
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], pass_fds=[copy])
    try:
        first.release()

        lock(tmp_path).release()
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 5}', "\x00" * 50])
def test_a_holder_that_has_not_written_its_name_yet_holds_it_all_the_same(tmp_path: Path, text: str) -> None:
    with lock(tmp_path) as first:
        first.path.write_text(text)

        with pytest.raises(StateLocked, match="another process owns it"):
            lock(tmp_path)


def test_the_lock_file_is_private(tmp_path: Path) -> None:
    with lock(tmp_path) as first:
        assert stat.S_IMODE(first.path.stat().st_mode) == 0o600


def test_a_folder_that_is_not_there_or_a_link_in_the_way_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="Cannot lock"):
        lock(tmp_path / "missing")
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unavailable, match="Cannot lock"):
        lock(tmp_path)

    assert (tmp_path / "elsewhere").read_text() == "precious"
