"""Backups: one private file with all that is kept, which is a state folder again where it is unpacked."""

from __future__ import annotations

import sqlite3
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon import backup, offline
from daemon.config import load
from daemon.options import Sections
from daemon.rpc import Caller
from storage.snapshots import SNAPSHOTS
from tests.daemon.keeping import contents, fill
from tests.daemon.methods.asking import refused
from tests.harness import BY_HAND, Daemon


@pytest.fixture
def daemon(daemons: Callable[..., Daemon]) -> Daemon:
    """One that does nothing by itself."""
    return daemons(options=BY_HAND).start()


def test_a_backup_unpacked_into_an_empty_folder_is_a_state_folder(daemon: Daemon, tmp_path: Path) -> None:
    before = fill(daemon)
    run = daemon.call("run_job", name="prune")["run_id"]
    path = tmp_path / "backup.zip"

    made = daemon.call("backup", path=str(path))

    assert made == {"path": str(path), "bytes": path.stat().st_size, "memories": 2}
    assert made["bytes"] < 1 << 20
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["backup.zip"]
    assert daemon.call("snapshots")["snapshots"] == []
    assert list((daemon.folder / "state" / SNAPSHOTS).iterdir()) == []
    other = Daemon(tmp_path / "other", clock=daemon.clock, options=BY_HAND)
    with zipfile.ZipFile(path) as zipped:
        assert zipped.testzip() is None
        assert sum(entry.file_size for entry in zipped.infolist()) < 2 << 20
        readme = zipped.read("README.txt").decode()
        zipped.extractall(tmp_path / "other" / "state")
    name = "20260101T000000Z-backup"
    assert f"--restore-snapshot {name}" in readme
    assert sqlite3.connect(tmp_path / "other/state/state.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)
    try:
        offline.restore(other.config, name, daemon.clock.now())
        other.start()
        assert other.call("health")["status"] == "ok"
        assert contents(other) == before
        assert [one["run_id"] for one in other.call("runs")["runs"]] == [run]
    finally:
        other.stop()


def test_the_snapshots_of_a_backup_can_be_restored_where_a_daemon_runs(daemon: Daemon, tmp_path: Path) -> None:
    before = fill(daemon)
    daemon.call("backup", path=str(tmp_path / "backup.zip"))
    daemon.call("forget", ids=["tea", "cake"])
    with zipfile.ZipFile(tmp_path / "backup.zip") as zipped:
        snapshots = [entry for entry in zipped.namelist() if entry.startswith("snapshots/")]
        zipped.extractall(daemon.folder / "state", snapshots)

    (listed,) = daemon.call("snapshots")["snapshots"]
    assert (listed["label"], listed["damaged"], listed["memories"]) == ("backup", False, 2)
    daemon.call("restore_snapshot", name=listed["name"])

    assert contents(daemon) == before


def test_a_backup_replaces_nothing_and_says_what_is_wrong_with_its_path(daemon: Daemon, tmp_path: Path) -> None:
    there = tmp_path / "there.zip"
    there.write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    assert refused(daemon, "conflict", "backup", path=str(there)).extra["field"] == "path"
    refused(daemon, "conflict", "backup", path=str(tmp_path / "link"))
    refused(daemon, "conflict", "backup", path=str(tmp_path))
    assert refused(daemon, "invalid", "backup", path="relative.zip").extra["field"] == "path"
    assert "mkdir" in refused(daemon, "invalid", "backup", path=str(tmp_path / "no" / "b.zip")).hint

    assert there.read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "there.zip"]


def test_the_configuration_in_a_backup_is_whole_but_for_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "dreamd.toml"
    file.write_text(
        '[sensitivity]\npatterns = {"project \\"x\\"" = "secret"}\n[redact]\npatterns = {badge = "EMP-[0-9]{6}"}\n'
        "[rpc]\nallow_uids = [7, 8]\n[decay]\nthreshold = 0.25\n[schedule]\ntimezone = 'Europe/Berlin'\n"
    )
    config = load({"HOME": str(tmp_path)}, config=str(file))

    text = backup.settings_text(config)

    options = {name: getattr(config, name) for name in Sections.model_fields}
    assert Sections.model_validate(tomllib.loads(text)) == Sections(**options)


@pytest.mark.parametrize("name", ["api_key", "key", "auth_token", "client_secret", "password", "credentials"])
def test_options_that_are_secret_by_name_stay_out_of_a_backup(name) -> None:
    assert backup.SECRET.search(name)


@pytest.mark.parametrize("name", ["tokenizer", "max_output_tokens", "durability", "keywords", "model", "timezone"])
def test_other_options_go_into_a_backup(name) -> None:
    assert not backup.SECRET.search(name)


def test_a_backup_tells_how_far_it_is(daemon: Daemon, tmp_path: Path) -> None:
    fill(daemon)
    told: list[dict[str, Any]] = []

    daemon.run(daemon.app.service.call("backup", {"path": str(tmp_path / "b.zip")}, Caller(0, 0, ""), told.append))

    assert {one["job"] for one in told} == {"backup"}
    assert [one["done"] for one in told] == list(range(1, told[0]["total"] + 1))
