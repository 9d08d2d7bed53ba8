"""The embedded engine's files: damage, locks, full disks, copies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import edge_files
from storage.edge import EdgeEngine
from storage.engine import Condition
from storage.errors import Conflict, Corrupt, Unavailable
from tests.requirements import require
from tests.storage.edge_writer import (
    COLLECTIONS,
    EDGES,
    MEMORIES,
    contents,
    identity,
    noise,
    open_engine,
    point,
    segment,
)

M = MEMORIES.name


def snapshot_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.fixture(scope="module")
def intact(tmp_path_factory) -> Path:
    """A closed store of 501 points, written and flushed in several steps."""
    store = tmp_path_factory.mktemp("intact") / "store"
    engine = open_engine(store)
    for start in range(0, 501, 100):
        engine.upsert(M, [point(identity(n), {"content": f"text {n}"}) for n in range(start, min(start + 100, 501))])
        engine.flush()
    for n in range(20):
        engine.set_payload(M, {identity(n): {"access_count": 1}})
    engine.close()
    return store


@pytest.fixture
def damaged(intact, tmp_path) -> Path:
    """A copy of the intact store, for a test to damage."""
    edge_files.copy_sparse(intact, tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("name", ["mutable_id_tracker.mappings", "mutable_id_tracker.versions"])
@pytest.mark.parametrize("damage", [halve, Path.unlink])
def test_a_damaged_id_tracker_loads_without_a_word_and_falls_short_of_the_marks(damaged, name, damage) -> None:
    engine = open_engine(damaged)
    marks = json.loads(json.dumps(engine.marks()))
    assert engine.shortfall(marks) == []
    engine.close()
    damage(segment(damaged) / name)

    engine = open_engine(damaged)

    assert engine.counts()[M] < 501
    assert len(engine.shortfall(marks)) == 1
    assert "of the 501 points" in engine.shortfall(marks)[0]


def test_a_collection_whose_folder_is_gone_falls_short_of_the_marks(damaged) -> None:
    engine = open_engine(damaged)
    marks = engine.marks()
    engine.close()
    (damaged / M).rename(damaged / "elsewhere")

    assert len(open_engine(damaged).shortfall(marks)) == 1


@pytest.mark.parametrize("flushed", [True, False])
def test_deletes_lessen_the_count_and_are_no_shortfall(damaged, flushed) -> None:
    engine = open_engine(damaged)
    marks = engine.marks()

    engine.delete(M, [identity(n) for n in range(100)])
    if flushed:
        engine.flush()
        assert engine.tracker_bytes(M) > marks[M][1]
    engine.close()

    engine = open_engine(damaged)
    assert engine.counts()[M] == 401
    assert engine.shortfall(marks) == []


@pytest.mark.parametrize("rewrite", [EdgeEngine.vacuum, EdgeEngine.scrub])
def test_a_rewrite_that_nobody_noted_is_no_shortfall(damaged, rewrite) -> None:
    engine = open_engine(damaged)
    engine.delete(M, [identity(n) for n in range(100)])
    engine.flush()
    marks = engine.marks()

    rewrite(engine, M)
    engine.close()

    engine = open_engine(damaged)
    assert engine.tracker_bytes(M) < marks[M][1]
    assert engine.shortfall(marks) == []
    assert engine.shortfall({}) == []
    assert engine.shortfall({"unknown": [1, 1]}) == []


def remove_segments(store: Path) -> None:
    segment(store).rename(store.parent / "elsewhere")


DAMAGE = {
    "no version.info": lambda store: (segment(store) / "version.info").unlink(),
    "half a version.info": lambda store: halve(segment(store) / "version.info"),
    "no segment.json": lambda store: (segment(store) / "segment.json").unlink(),
    "half a segment.json": lambda store: halve(segment(store) / "segment.json"),
    "no payload page": lambda store: (segment(store) / "payload_storage" / "page_0.dat").unlink(),
    "no segments": remove_segments,
    "half a configuration": lambda store: halve(store / M / "edge_config.json"),
    "configuration of another kind": lambda store: (store / M / "edge_config.json").write_text('{"vectors": [1]}'),
    "a panic": lambda store: halve(segment(store) / "vector_storage-dense" / "vectors" / "status.dat"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_shard_that_cannot_be_loaded_whole_is_refused_and_stays_as_it_is(damaged, damage) -> None:
    """The engine alone would delete a segment without version.info, and make a new one where there is none."""
    damage(damaged)
    before = snapshot_of(damaged / M / "segments")

    for _ in range(2):
        with pytest.raises(Corrupt) as refusal:
            open_engine(damaged)

        assert refusal.value.hint == "dreamctl restore_snapshot NAME"
        assert M in refusal.value.detail
        assert "text" not in refusal.value.detail
    after = snapshot_of(damaged / M / "segments")
    journals = {path for path in before if path.endswith("tracker_journal.dat")}  # the engine folds them in as it reads
    assert after.keys() | journals == before.keys() | journals
    assert [path for path in after.keys() - journals if after[path] != before[path]] == []


def test_a_shard_without_its_log_or_its_configuration_still_opens(damaged) -> None:
    (damaged / M / "edge_config.json").unlink()
    for path in (damaged / M / "wal").iterdir():
        path.unlink()
    (damaged / M / "wal").rmdir()

    assert open_engine(damaged).count(M) == 501


def test_damage_met_in_a_call_is_an_error_of_ours_that_quotes_nothing(damaged) -> None:
    (segment(damaged) / "vector_storage-dense" / "vectors" / "chunk_0.mmap").unlink()
    engine = open_engine(damaged)

    with pytest.raises(Corrupt) as refusal:
        list(engine.scroll(M, vectors=True))

    assert refusal.value.__suppress_context__
    assert "out of bounds" not in refusal.value.detail


def test_a_second_process_is_refused_while_the_first_has_the_store_open(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(identity("a"))])

    with pytest.raises(Conflict, match="open in another process") as refusal:
        open_engine(tmp_path)

    assert refusal.value.hint
    assert engine.count(M) == 1
    engine.close()
    assert open_engine(tmp_path).count(M) == 1


def test_a_kill_while_a_shard_is_made_leaves_nothing_that_stands_in_the_way(tmp_path) -> None:
    (tmp_path / ".new-cut" / M / "wal").mkdir(parents=True)

    engine = open_engine(tmp_path)

    assert engine.counts() == {M: 0, EDGES.name: 0}


def test_without_room_writes_are_refused_with_path_and_need_and_reads_go_on(tmp_path) -> None:
    free = [1 << 30]
    engine = EdgeEngine.open(tmp_path, COLLECTIONS, reserve_mb=256, free_bytes=lambda _: free[0])
    engine.upsert(M, [point(identity("a"), {"n": 1})])
    free[0] = 256 << 20

    for write in (
        lambda: engine.upsert(M, [point(identity("b"))]),
        lambda: engine.set_payload(M, {identity("a"): {"n": 2}}),
        lambda: engine.delete(M, [identity("a")]),
        lambda: engine.vacuum(M),
        lambda: engine.scrub(M),
        lambda: engine.copy_to(tmp_path / "copy"),
    ):
        with pytest.raises(Unavailable, match=r"256 MiB free; \d+ MiB are needed") as refusal:
            write()
        assert str(tmp_path) in refusal.value.detail
        assert refusal.value.hint

    assert contents(engine) == {identity("a"): {"n": 1}}
    engine.flush()
    engine.close()
    free[0] -= 1
    with pytest.raises(Unavailable, match="255 MiB free; 256 MiB are needed"):
        EdgeEngine.open(tmp_path, COLLECTIONS, reserve_mb=256, free_bytes=lambda _: free[0])
    free[0] += 1
    assert EdgeEngine.open(tmp_path, COLLECTIONS, reserve_mb=256, free_bytes=lambda _: free[0]).count(M) == 1


def test_a_batch_larger_than_the_room_is_refused_whole(tmp_path) -> None:
    engine = EdgeEngine.open(tmp_path, COLLECTIONS, reserve_mb=8, free_bytes=lambda _: 20 << 20)
    large = [point(identity(n), {"context": "x" * (1 << 20)}) for n in range(7)]

    with pytest.raises(Unavailable):
        engine.upsert(M, large)

    engine.upsert(M, large[:5])
    assert engine.count(M) == 5


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of 448 MiB; on tmpfs a load takes room of its own, for mapped holes fill up."""
    folder = tmp_path / "disk"
    folder.mkdir()
    require(os.geteuid() == 0 and shutil.which("mount") is not None, "mounting a tmpfs needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=448m", "dreamd", str(folder)], check=False)
    require(mounted.returncode == 0, "this machine lets nobody mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_fills_up_refuses_writes_before_the_engine_would_die_and_the_store_opens_again(small_disk) -> None:
    engine = EdgeEngine.open(small_disk / "store", COLLECTIONS, reserve_mb=128)
    written = 0

    def fill() -> None:
        nonlocal written
        while True:
            engine.upsert(M, [point(identity(written + n), {"context": noise(n, 1 << 20)}) for n in range(4)])
            written += 4
            engine.flush()

    with pytest.raises(Unavailable, match="MiB are needed") as refusal:
        fill()

    assert written > 10
    assert str(small_disk) in refusal.value.detail
    assert len(contents(engine)) == engine.count(M) == written
    engine.close()
    (small_disk / "other").write_bytes(b"\1" * (edge_files.free_bytes(small_disk) - (100 << 20)))
    with pytest.raises(Unavailable, match="128 MiB are needed"):
        EdgeEngine.open(small_disk / "store", COLLECTIONS, reserve_mb=128)
    (small_disk / "other").unlink()
    assert EdgeEngine.open(small_disk / "store", COLLECTIONS, reserve_mb=32).count(M) == written


def test_a_copy_keeps_the_holes_and_opens_like_the_original(tmp_path) -> None:
    engine = open_engine(tmp_path / "store")
    engine.upsert(M, [point(identity(n), {"content": f"text {n}", "scopes": ["a"]}) for n in range(200)])
    engine.delete(M, [identity(n) for n in range(50)])

    engine.copy_to(tmp_path / "copy")
    engine.upsert(M, [point(identity("later"))])

    copied = edge_files.allocated_bytes(tmp_path / "copy")
    apparent = sum(path.stat().st_size for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert copied <= 1.2 * engine.disk_bytes()
    assert apparent > 10 * copied
    copy = open_engine(tmp_path / "copy")
    assert copy.counts() == {M: 150, EDGES.name: 0}
    assert len(list(*copy.scroll(M, condition=Condition(scope="a")))) == 150
    with pytest.raises(Unavailable, match="copy"):
        engine.copy_to(tmp_path / "copy")


def test_files_are_private_under_the_daemons_umask(tmp_path) -> None:
    before = os.umask(0o077)
    try:
        engine = open_engine(tmp_path / "store")
        engine.upsert(M, [point(identity("a"))])
        engine.copy_to(tmp_path / "copy")
        engine.close()
    finally:
        os.umask(before)

    modes = {path.stat().st_mode & 0o077 for root in ("store", "copy") for path in (tmp_path / root).rglob("*")}
    assert modes == {0}
