"""A night's first step: a copy that was read back, and the older ones let go in their turn."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import strategies as st

from jobs import snapshot
from jobs.context import EXAMPLES
from storage import edge_files, snapshots
from storage.errors import Corrupt, Refused, Unavailable
from storage.lane import Stopping
from storage.manifest import Manifest
from storage.memories import LIVE
from storage.model import DAY
from storage.snapshots import NIGHTLY, SNAPSHOTS, Snapshot
from storage.store import COLLECTIONS
from storage.swap import MANIFEST, STORE
from tests.daemon.keeping import contents, fill
from tests.disk import out_of_reach
from tests.harness import Daemon
from tests.jobs.by_hand import context
from tests.jobs.world import NOW, for_all

ROOT = Path(__file__).resolve().parents[2]
UTC = ZoneInfo("UTC")


@pytest.fixture
def daemon(daemon: Daemon) -> Iterator[Daemon]:
    """With a few memories, and without a snapshot."""
    fill(daemon)
    yield daemon
    for name in names(daemon):
        snapshots.let_go(folder(daemon).parent, name)


def folder(daemon: Daemon) -> Path:
    return daemon.folder / "state" / SNAPSHOTS


def names(daemon: Daemon) -> list[str]:
    """Of all that lies there, hidden or not."""
    return sorted(path.name for path in folder(daemon).iterdir()) if folder(daemon).exists() else []


def take(daemon: Daemon, **options: Any) -> dict[str, Any]:
    return daemon.call("run_job", name="snapshot", **options)


def lay(daemon: Daemon, *days_ago: float, label: str = NIGHTLY) -> list[str]:
    """Small snapshots of earlier nights, sound as far as a look tells; their names, oldest first."""
    laid = []
    for days in sorted(days_ago, reverse=True):
        at = daemon.clock.now() - days * DAY
        name = named(at, label)
        store = folder(daemon) / name / STORE
        store.mkdir(parents=True)
        (store / "file").write_bytes(b"x")
        marks = {collection: [0, 0] for collection in COLLECTIONS}
        manifest = Manifest(at, label, {}, None, marks, 0, edge_files.contents(store))
        (store.parent / MANIFEST).write_text(manifest.to_text())
        laid.append(name)
    return laid


# -- the plan


def named(at: float, label: str = NIGHTLY) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%SZ}-{label}"


def lying(at: float, *, label: str = NIGHTLY, fault: str = "") -> Snapshot:
    return Snapshot(named(at, label), Manifest(at, label, {}, None, {}, 0), 0, fault, damaged=bool(fault))


@for_all(st.lists(st.integers(1, 300 * 86_400), max_size=40, unique=True), st.data())
def test_what_a_person_took_and_what_is_damaged_neither_goes_nor_counts(seconds_ago, data) -> None:
    found = [
        lying(
            NOW - seconds,
            label=data.draw(st.sampled_from([NIGHTLY, NIGHTLY, "mine", ""])),
            fault=data.draw(st.sampled_from(["", "", "", "it is damaged"])),
        )
        for seconds in seconds_ago
    ]
    copies = [one._replace(name=f"keep-{one.name}") for one in found]
    linked = [one._replace(linked=True) for one in found]
    unreadable = [Snapshot(one.name, None, 0, "no manifest", damaged=True) for one in found]
    own = [one for one in found if one.rotates]

    gone = snapshot.plan([*found, *copies, *linked, *unreadable], "new", NOW, UTC)

    assert {one.name for one in own} == {
        one.name for one in found if one.manifest and one.manifest.label == NIGHTLY and not one.fault
    }
    assert gone == snapshot.plan(own, "new", NOW, UTC)
    assert set(gone) <= {one.name for one in own}


def test_a_damaged_one_does_not_take_the_place_of_the_good_one_of_its_day() -> None:
    good, damaged = lying(NOW - 30 * DAY), lying(NOW - 30 * DAY + 3600, fault="a file is missing")
    sound = lying(NOW - 30 * DAY + 3600)

    assert snapshot.plan([good, damaged], "new", NOW, UTC) == []
    assert snapshot.plan([good, sound], "new", NOW, UTC) == [good.name]


# -- a run


def test_a_run_takes_one_that_holds_what_the_store_holds(daemon: Daemon) -> None:
    run = take(daemon)

    (name,) = names(daemon)
    assert (run["outcome"], run["reason"]) == ("changed", None)
    assert run["counts"] == {"taken": 1, "rotated": 0, "failed": 0}
    assert run["examples"] == [{"snapshot": name, "reason": "taken, and read back"}]
    (listed,) = daemon.call("snapshots")["snapshots"]
    assert (listed["name"], listed["label"], listed["memories"], listed["edges"]) == (name, NIGHTLY, 2, 1)
    assert (listed["rotates"], listed["damaged"]) == (True, False)
    (there,) = snapshots.every(folder(daemon).parent)
    assert there.manifest is not None
    assert there.manifest.made_by.keys() == {"dreamd", "qdrant-edge-py"}
    assert edge_files.contents(folder(daemon) / name / STORE) == there.manifest.files


def test_c14_what_a_night_took_brings_everything_back(daemon: Daemon) -> None:
    before = contents(daemon)
    take(daemon)
    daemon.clock.advance(60)
    daemon.call("update", id="tea", content="washed away")
    daemon.call("forget", id="cake", hard=True)
    daemon.clock.advance(60)
    daemon.remember("later", id="later")

    daemon.call("restore_snapshot", name=names(daemon)[0])

    assert contents(daemon) == {"tea": before["tea"]}  # what was erased for good stays so


def test_the_older_ones_rotate_and_what_a_person_took_stays(daemon: Daemon) -> None:
    mine = lay(daemon, 3, 40, 400, label="mine")
    older = lay(daemon, *range(1, 61))

    run = take(daemon)

    left = [name for name in names(daemon) if name not in mine]
    assert set(mine) < set(names(daemon))
    assert len(left) <= 17
    assert left[-7:-1] == older[-6:]
    gone = [name for name in older if name not in left]
    assert run["counts"] == {"taken": 1, "rotated": len(gone), "failed": 0}
    assert [one["snapshot"] for one in run["examples"][1:]] == gone[: EXAMPLES - 1]
    assert {one["name"] for one in daemon.call("snapshots")["snapshots"] if one["rotates"]} == set(left)
    assert take(daemon)["counts"]["rotated"] == 1  # the first of this day


def test_a_night_in_which_nothing_was_written_takes_next_to_no_room(daemon: Daemon) -> None:
    for _ in range(3):
        take(daemon)
        daemon.clock.advance(DAY)

    inodes = {path.stat().st_ino: path.stat().st_blocks * 512 for path in folder(daemon).rglob("*") if path.is_file()}
    sizes = [one["bytes"] for one in daemon.call("snapshots")["snapshots"]]
    one = edge_files.allocated_bytes(folder(daemon) / names(daemon)[0] / STORE)
    assert sum(inodes.values()) < 1.5 * one  # the store once, and each one's manifest
    assert sum(sizes) <= sum(inodes.values())
    assert max(sizes) - min(sizes) <= 4096


def test_a_damaged_one_is_left_alone_and_told(daemon: Daemon) -> None:
    older = lay(daemon, *range(1, 20))
    damaged, unreadable = older[3], older[5]
    (folder(daemon) / damaged / STORE / "file").unlink()
    (folder(daemon) / unreadable / MANIFEST).write_text("{")

    run = take(daemon)

    assert run["counts"]["rotated"] > 0
    assert {damaged, unreadable} < set(names(daemon))
    told = {one["name"]: one["rotates"] for one in daemon.call("snapshots")["snapshots"] if one["damaged"]}
    assert told == {damaged: False, unreadable: False}


def test_one_from_the_future_is_left_alone_and_keeps_nothing_from_its_turn(daemon: Daemon) -> None:
    (ahead,) = lay(daemon, -4000)
    older = lay(daemon, *range(1, 61))

    run = take(daemon)

    assert ahead in names(daemon)
    left = [name for name in names(daemon) if name != ahead]
    assert len(left) <= 17
    assert left[-7:-1] == older[-6:]
    assert snapshots.fresh(folder(daemon).parent, daemon.clock.now()) == run["examples"][0]["snapshot"]


def test_days_are_those_of_the_schedule(daemon: Daemon) -> None:
    """Two of one day in Berlin, of two days by UTC."""
    settings = {"zone": ZoneInfo("Europe/Berlin")}
    daemon.clock.advance(DAY - daemon.clock.now() % DAY + 1800)
    lay(daemon, 1 / 24)

    here = snapshot.run(context(daemon, settings=settings, dry_run=True))
    there = snapshot.run(context(daemon, settings={"zone": UTC}, dry_run=True))

    assert (here.counts["rotated"], there.counts["rotated"]) == (1, 0)
    assert snapshot.run(context(daemon, settings=settings)).counts["rotated"] == 1


def test_what_a_person_moved_to_another_disk_or_copied_outlives_every_rotation(daemon: Daemon) -> None:
    older = lay(daemon, *range(1, 61))
    next_ones = [one["snapshot"] for one in take(daemon, dry_run=True)["examples"]][:2]
    linked, copied = (folder(daemon) / name for name in next_ones)
    elsewhere = daemon.folder / "another disk"
    linked.rename(elsewhere)
    linked.symlink_to(elsewhere)
    kept = folder(daemon) / f"keep-{copied.name}"
    shutil.copytree(copied, kept)
    before = [edge_files.contents(elsewhere), edge_files.contents(kept)]
    try:
        run = take(daemon)

        assert run["counts"]["failed"] == 0
        assert run["counts"]["rotated"] > 0
        left = names(daemon)
        assert len([name for name in left if name in older]) <= 17
        assert {linked.name, kept.name} < set(left)
        assert copied.name not in left
        assert [edge_files.contents(elsewhere), edge_files.contents(kept)] == before
        told = {one["name"]: one["rotates"] for one in daemon.call("snapshots")["snapshots"]}
        assert (told[linked.name], told[kept.name]) == (False, False)
    finally:
        shutil.rmtree(elsewhere)
        linked.unlink()


# -- a dry run


def test_e8_a_dry_run_says_what_would_happen_and_changes_nothing(daemon: Daemon) -> None:
    lay(daemon, *range(1, 9))
    before = {path: path.stat().st_mtime_ns for path in folder(daemon).rglob("*")}

    dry = take(daemon, dry_run=True)

    assert {path: path.stat().st_mtime_ns for path in folder(daemon).rglob("*")} == before
    assert (dry["outcome"], dry["dry_run"]) == ("changed", True)
    assert "MiB must be free, and" in dry["reason"]
    run = take(daemon)
    assert dry["counts"] == run["counts"]
    assert run["counts"]["rotated"] > 0
    assert dry["examples"] == run["examples"][1:]


def test_a_dry_run_without_room_says_so(daemon: Daemon) -> None:
    report = snapshot.run(context(daemon, settings={"reserve_mb": 1 << 40}, dry_run=True))

    assert report.changed == 0
    assert report.counts == {}
    assert report.reason is not None
    assert f"{(1 << 40) + 1} MiB must be free" in report.reason


# -- what goes wrong


def test_case45_without_room_nothing_is_taken_nothing_goes_and_the_error_says_how_much_is_needed(
    daemon: Daemon,
) -> None:
    before = lay(daemon, *range(1, 30))

    with pytest.raises(Unavailable, match="MiB are needed") as refused:
        snapshot.run(context(daemon, settings={"reserve_mb": 1 << 40}))

    assert refused.value.hint
    assert names(daemon) == before


class Large:
    """An engine whose files take two thirds of what is free on the disk, as it says."""

    def __init__(self, engine: Any, state: Path) -> None:
        self._engine = engine
        self._size = edge_files.free_bytes(state) * 2 // 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def disk_bytes(self) -> int:
        return self._size


def test_room_is_asked_for_the_snapshot_and_for_reading_it_back(daemon: Daemon) -> None:
    stores = daemon.stores
    engine = stores.engine
    stores.engine = Large(engine, folder(daemon).parent)
    try:
        dry = take(daemon, dry_run=True)
        run = take(daemon)
    finally:
        stores.engine = engine

    assert (dry["outcome"], dry["counts"]) == ("unchanged", {})
    assert "MiB must be free" in dry["reason"]
    assert (run["outcome"], run["reason"]) == ("failed", "unavailable")
    (told,) = run["examples"]
    assert "MiB are needed" in told["reason"]
    assert names(daemon) == []


class Stale:
    """An engine whose copies are of an earlier moment: what is counted is right, what is read is not."""

    def __init__(self, engine: Any, earlier: Path) -> None:
        self._engine = engine
        self._earlier = earlier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def copy_to(self, target: Path) -> None:
        edge_files.copy_sparse(self._earlier, target)


def test_e3_a_copy_that_does_not_hold_what_the_store_holds_is_let_go_and_no_other_goes(daemon: Daemon) -> None:
    before = lay(daemon, *range(1, 30))
    earlier = daemon.folder / "earlier"
    daemon.in_lane(daemon.stores.engine.copy_to, earlier)
    daemon.call("update", id="tea", pinned=True)
    stores = daemon.stores
    engine = stores.engine
    stores.engine = Stale(engine, earlier)
    try:
        with pytest.raises(Corrupt, match="could not be read back, and was let go") as refused:
            snapshot.run(context(daemon))
        run = take(daemon)
    finally:
        stores.engine = engine

    assert "reads otherwise than in the store" in refused.value.detail
    assert refused.value.hint
    assert (run["outcome"], run["reason"]) == ("failed", "corrupt")
    assert names(daemon) == before
    assert take(daemon)["outcome"] == "changed"


def test_a_byte_that_turned_on_the_way_to_the_disk_is_found(daemon: Daemon) -> None:
    def progress(done: int, _total: int) -> None:
        if done == 1:
            (path,) = folder(daemon).glob(f".partial-*-{NIGHTLY}/store/{LIVE}/segments/*/mutable_id_tracker.mappings")
            path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])

    with pytest.raises(Corrupt, match=r"id_tracker\.mappings does not hold what it held"):
        snapshot.run(context(daemon, progress=progress))

    assert names(daemon) == []


def test_a_stop_while_it_is_read_back_leaves_nothing_of_it(daemon: Daemon) -> None:
    before = lay(daemon, *range(1, 30))
    told: list[tuple[int, int]] = []
    ctx = context(daemon, stopping=lambda: len(told) == 20, progress=lambda *far: told.append(far))

    with pytest.raises(Stopping):
        snapshot.run(ctx)

    assert ctx.cut_short
    assert [done for done, _ in told] == list(range(1, 21))
    assert told[0][1] > 20
    assert names(daemon) == before


def test_one_that_cannot_be_let_go_is_counted_and_tried_again(daemon: Daemon) -> None:
    older = lay(daemon, *range(1, 10))
    next_one = next(one["snapshot"] for one in take(daemon, dry_run=True)["examples"])
    assert next_one in older
    out_of_reach(folder(daemon) / next_one / "in the way")

    run = take(daemon)

    assert run["outcome"] == "changed"
    assert (run["counts"]["taken"], run["counts"]["failed"]) == (1, 1)
    (told,) = (one["reason"] for one in run["examples"] if one["snapshot"] == next_one)
    assert "in the way" in told
    assert next_one not in {one["name"] for one in daemon.call("snapshots")["snapshots"]}
    assert take(daemon)["counts"]["failed"] == 1
    shutil.rmtree(folder(daemon) / f".leaving-{next_one}" / "in the way")
    assert take(daemon)["counts"]["failed"] == 0
    assert not any(name.startswith(".") for name in names(daemon))


def test_an_undo_is_refused_since_no_memory_was_changed(daemon: Daemon) -> None:
    run = take(daemon)

    with pytest.raises(Refused, match="changed no memory"):
        daemon.call("undo", run_id=run["run_id"])

    assert len(names(daemon)) == 1


def test_case44_a_kill_at_any_step_leaves_no_half_snapshot_and_lets_none_go_before_the_new_one_is_good(
    tmp_path,
) -> None:
    script = str(Path(__file__).with_name("snapshot_killed.py"))
    done = subprocess.run([sys.executable, script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True)

    count = int(done.stdout.splitlines()[-1])
    there = [f"2026010{day}T000000Z-{NIGHTLY}" for day in (1, 2)]
    outcomes = []
    for number in range(count + 1):
        state = tmp_path / "killed" / str(number)
        snapshots.clear_scrap(state)  # as a start does
        found = snapshots.every(state)
        assert sorted(path.name for path in (state / SNAPSHOTS).iterdir()) == sorted(one.name for one in found)
        for one in found:
            assert one.manifest is not None
            assert edge_files.contents(state / SNAPSHOTS / one.name / STORE) == one.manifest.files
        new = {one.name for one in found} - set(there)
        lost = set(there) - {one.name for one in found}
        outcomes.append((len(new), len(lost)))
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {(0, 0), (1, 0), (1, 1)}
    assert outcomes.count((0, 0)) >= 8
    assert outcomes.count((1, 1)) >= 3
