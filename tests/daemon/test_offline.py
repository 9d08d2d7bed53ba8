"""Restoring without a daemon, or where one was killed while it restored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon import offline
from daemon.lock import StateLocked
from storage.errors import Corrupt, NotFound
from storage.snapshots import SNAPSHOTS
from storage.swap import NEXT, STORE
from tests.daemon.keeping import contents, fill
from tests.daemon.methods.asking import refused
from tests.harness import BY_HAND, Daemon

ROOT = Path(__file__).parents[2]


@pytest.fixture
def daemon(daemons: Callable[..., Daemon]) -> Daemon:
    """One that does nothing by itself."""
    return daemons(options=BY_HAND).start()


def test_where_no_daemon_starts_the_error_names_the_command_that_restores_without_one(daemon: Daemon) -> None:
    before = fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.stop()
    (info,) = (daemon.folder / "state" / STORE / "memories" / "segments").glob("*/version.info")
    info.unlink()
    with pytest.raises(Corrupt) as unstartable:
        daemon.start()
    assert "dreamd --restore-snapshot NAME" in unstartable.value.hint
    assert str(daemon.folder / "state" / SNAPSHOTS) in unstartable.value.hint

    told = offline.restore(daemon.config, name, daemon.clock.now())

    assert name in told
    assert "store.corrupt-20260101T000000Z" in told
    daemon.start()
    assert daemon.call("health")["status"] == "ok"
    assert contents(daemon) == before
    assert daemon.call("snapshot")["damaged"] is False


def test_a_whole_store_that_is_replaced_offline_becomes_a_snapshot(daemon: Daemon) -> None:
    before = fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.clock.advance(60)
    daemon.call("forget", id="tea", hard=True)
    daemon.remember("later", id="later")
    later = contents(daemon)
    with pytest.raises(StateLocked):
        offline.restore(daemon.config, name, daemon.clock.now())
    daemon.stop()
    with pytest.raises(NotFound):
        offline.restore(daemon.config, "x", daemon.clock.now())
    daemon.clock.advance(60)

    offline.restore(daemon.config, name, daemon.clock.now())

    daemon.start()
    assert contents(daemon) == {memory: before[memory] for memory in ("cake",)}
    replaced = daemon.call("snapshots")["snapshots"][0]
    assert (replaced["label"], replaced["damaged"]) == ("before-restore", False)
    daemon.call("restore_snapshot", name=replaced["name"])
    assert contents(daemon) == later


def test_the_command_restores_and_ends_with_0_or_says_why_not(daemon: Daemon) -> None:
    fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.stop()

    def dreamd(*arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": os.environ["PATH"], "HOME": str(daemon.folder), "DREAMD_STORAGE__RESERVE_MB": "16"}
        command = [sys.executable, "-m", "daemon", "--state-dir", str(daemon.folder / "state"), *arguments]
        return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)

    done = dreamd("--restore-snapshot", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Restored {name}: 2 memories.")
    unknown = dreamd("--restore-snapshot", "x")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "there are " in unknown.stderr
    assert name in unknown.stderr


def test_c14_a_restore_that_was_killed_at_any_step_is_wholly_done_or_not_at_all(daemon: Daemon) -> None:
    before = fill(daemon)
    name = daemon.call("snapshot")["name"]
    daemon.clock.advance(60)
    daemon.call("forget", id="tea")
    daemon.call("forget", id="cake", hard=True)
    daemon.remember("later", id="later")
    later = contents(daemon)
    daemon.stop()
    del before["cake"]

    script = str(Path(__file__).with_name("restore_killed.py"))
    done = subprocess.run(
        [sys.executable, script, str(daemon.folder), name], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count = int(done.stdout.splitlines()[-1])
    outcomes = []
    for number in range(count + 1):
        one = Daemon(daemon.folder / "killed" / str(number), clock=daemon.clock, options=BY_HAND)
        try:
            one.start()
            assert one.call("health")["status"] == "ok"
            assert one.stores.damage == []
            outcomes.append(contents(one) == before)
            assert contents(one) == (before if outcomes[-1] else later)
            kept = {snapshot["name"]: snapshot["damaged"] for snapshot in one.call("snapshots")["snapshots"]}
            assert kept == dict.fromkeys([name, *["20260101T000100Z-before-restore"] * outcomes[-1]], False)
            assert not (one.folder / "state" / NEXT).exists()
            refused(one, "not_found", "get", id="cake")
            one.call("restore_snapshot", name=name)
            assert contents(one) == before
        finally:
            one.stop()
    assert count >= 5
    assert outcomes[0] is False  # half copied
    assert outcomes[-1] is True
    assert outcomes == sorted(outcomes)
