"""The embedded engine's files: kills, damage, locks, full disks, rewrites, scrubs and copies."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import edge_files
from storage.edge import EdgeEngine
from storage.engine import Condition, Point, Query, Sparse
from storage.errors import Conflict, Corrupt, Unavailable
from tests.requirements import require
from tests.storage.edge_writer import (
    COLLECTIONS,
    EDGES,
    MEMORIES,
    contents,
    expect,
    identity,
    open_engine,
    point,
    writes,
)

M = MEMORIES.name
ROOT = Path(__file__).resolve().parents[2]
SECRET = b"the combination is 8-1-5"


def run(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def files_with(text: bytes, folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def snapshot_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def segment(store: Path, collection: str = M) -> Path:
    (only,) = edge_files.segments(store / collection).values()
    return only


def noise(seed: object, length: int) -> str:
    """Text that does not compress; what does takes hardly any room in a segment."""
    return random.Random(repr(seed)).randbytes(length // 2).hex()


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.fixture
def damaged(tmp_path) -> Path:
    """A closed store of 501 points, written and flushed in several steps, for a test to damage."""
    store = tmp_path / "store"
    engine = open_engine(store)
    for start in range(0, 501, 100):
        engine.upsert(M, [point(identity(n), {"content": f"text {n}"}) for n in range(start, min(start + 100, 501))])
        engine.flush()
    for n in range(20):
        engine.set_payload(M, {identity(n): {"access_count": 1}})
    engine.close()
    return store


def test_after_a_kill_at_any_moment_every_acknowledged_write_is_there(tmp_path) -> None:
    """Each point is as the acknowledged writes left it, or as the one write under way would have."""
    dice = random.Random(11)
    settled: dict[str, dict] = {}
    for seed in range(8):
        writer = run("-m", "tests.storage.edge_writer", str(tmp_path), str(seed))
        assert writer.stdout is not None
        read = [writer.stdout.readline() for _ in range(dice.randint(20, 120))]
        assert "" not in read
        writer.kill()
        acknowledged = len(read) + writer.stdout.read().count("\n")
        assert writer.wait() == -signal.SIGKILL

        stream = writes(seed)
        sure: dict[str, dict] = {}
        for _ in range(acknowledged):
            sure = expect(sure, next(stream))
        maybe = expect(sure, next(stream))
        engine = open_engine(tmp_path)
        found = contents(engine)
        (nearest,) = engine.search(M, [Query(point(identity()).dense, None, 10_000)])
        tagged = {record.id for batch in engine.scroll(M, condition=Condition(tags=("t1",))) for record in batch}

        assert found.keys() <= sure.keys() | maybe.keys() | settled.keys()
        for point_id in sure.keys() | maybe.keys():
            assert found.get(point_id) in (sure.get(point_id), maybe.get(point_id))
        assert {key: found.get(key) for key in settled} == settled
        assert sorted(hit.id for hit in nearest) == sorted(found)
        assert tagged == {key for key, payload in found.items() if payload["tags"] == ["t1"]}
        assert engine.count(M) == len(found)
        settled = found
        engine.close()


def test_a_vacuum_that_a_kill_cut_short_loses_nothing_and_the_next_one_mends_it(tmp_path) -> None:
    """Both the old segment and the new one are there after the kill: their points must not be seen twice."""
    engine = open_engine(tmp_path)
    ids = [identity(n) for n in range(300)]
    engine.upsert(M, [point(letter, {"scopes": ["a"]}) for letter in ids])
    engine.close()
    code = (
        "import os, signal, sys; from pathlib import Path; from tests.storage.edge_writer import *\n"
        "engine = open_engine(Path(sys.argv[1]))\n"
        "engine.delete('memories', [identity(n) for n in range(100)])\n"
        "engine._shards['memories'].optimize()\n"
        "engine.set_payload('memories', {identity(200): {'after': 1}})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert run("-c", code, str(tmp_path)).wait() == -signal.SIGKILL
    unfinished = tmp_path / M / "temp_segments" / "segment_builder_x"
    unfinished.mkdir(parents=True)
    (unfinished / "page_0.dat").write_bytes(SECRET)

    engine = open_engine(tmp_path)
    assert len(edge_files.segments(tmp_path / M)) > 1
    for check in range(2):
        scrolled = [record.id for batch in engine.scroll(M, condition=Condition(scope="a")) for record in batch]
        nearest, keyword = engine.search(
            M, [Query(point(ids[0]).dense, None, 999), Query(Sparse((7,), (1.0,)), None, 999)]
        )
        assert engine.count(M) == 200
        assert sorted(scrolled) == sorted(ids[100:])
        assert sorted(hit.id for hit in nearest) == sorted(ids[100:])
        assert sorted(hit.id for hit in keyword) == sorted(ids[100:])
        assert engine.retrieve(M, [ids[200]])[ids[200]].payload == {"scopes": ["a"], "after": 1}
        if check == 0:
            assert engine.deleted_share(M) > 0.3
            assert engine.vacuum(M)
    assert len(edge_files.segments(tmp_path / M)) == 1
    assert engine.deleted_share(M) == 0.0
    assert files_with(SECRET, tmp_path) == []


@pytest.mark.parametrize("name", ["mutable_id_tracker.mappings", "mutable_id_tracker.versions"])
@pytest.mark.parametrize("damage", [halve, Path.unlink])
def test_damage_to_an_id_tracker_loads_without_a_word_and_shows_in_the_counts(damaged, name, damage) -> None:
    engine = open_engine(damaged)
    recorded, tracked = engine.counts(), engine.tracker_bytes(M)
    engine.close()
    damage(segment(damaged) / name)

    assert edge_files.tracker_bytes(damaged / M) < tracked
    assert open_engine(damaged).counts()[M] < recorded[M] == 501


def test_deletes_lessen_the_count_but_never_the_trackers(damaged) -> None:
    engine = open_engine(damaged)
    tracked = engine.tracker_bytes(M)

    engine.delete(M, [identity(n) for n in range(100)])
    engine.flush()

    assert engine.counts()[M] == 401
    assert engine.tracker_bytes(M) > tracked


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
    """A file system of 128 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "dreamd", str(folder)], check=False)
    require(mounted.returncode == 0, "mounting a tmpfs needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tmpfs is Linux's")
def test_a_disk_that_fills_up_refuses_writes_before_the_engine_would_die_and_the_store_opens_again(small_disk) -> None:
    engine = EdgeEngine.open(small_disk / "store", COLLECTIONS, reserve_mb=24)
    written = 0

    def fill() -> None:
        nonlocal written
        while True:
            engine.upsert(M, [point(identity(written), {"context": noise(written, 1 << 20)})])
            written += 1
            engine.flush()

    with pytest.raises(Unavailable, match="MiB are needed") as refusal:
        fill()

    assert written > 10
    assert str(small_disk) in refusal.value.detail
    assert len(contents(engine)) == engine.count(M) == written
    engine.close()
    (small_disk / "other").write_bytes(b"\1" * (edge_files.free_bytes(small_disk) - (8 << 20)))
    with pytest.raises(Unavailable, match="24 MiB are needed"):
        EdgeEngine.open(small_disk / "store", COLLECTIONS, reserve_mb=24)
    (small_disk / "other").unlink()
    assert EdgeEngine.open(small_disk / "store", COLLECTIONS, reserve_mb=24).count(M) == written


def test_vacuum_rewrites_only_where_points_were_deleted_and_only_when_called(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(identity(n), {"scopes": ["a"]}) for n in range(100)])
    engine.flush()

    assert engine.vacuum(M) is False
    assert engine.deleted_share(M) == 0.0
    assert engine.deleted_share(EDGES.name) == 0.0

    engine.delete(M, [identity(n) for n in range(30)])
    engine.flush()
    kept = segment(tmp_path)

    assert engine.deleted_share(M) == pytest.approx(0.3)
    assert segment(tmp_path) == kept
    assert engine.vacuum(M) is True
    assert segment(tmp_path) != kept
    assert engine.deleted_share(M) == 0.0
    assert engine.count(M) == 70
    assert len(list(*engine.scroll(M, condition=Condition(scope="a")))) == 70


def test_the_deleted_share_outlives_a_restart_and_counts_updates_in_place_as_none(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(identity(n)) for n in range(100)])
    engine.upsert(M, [point(identity(n), {"again": 1}) for n in range(100)])
    engine.delete(M, [identity(n) for n in range(25)])
    engine.close()

    engine = open_engine(tmp_path)

    assert engine.deleted_share(M) == pytest.approx(0.25)
    engine.delete(M, [identity(n) for n in range(100)])
    assert engine.deleted_share(M) == 1.0
    assert engine.vacuum(M) is True
    assert engine.deleted_share(M) == 0.0


def test_ten_cycles_of_write_delete_and_vacuum_take_no_more_than_twice_the_disk_of_one(tmp_path) -> None:
    """Beside the segments there is the log, which has its own bound."""
    engine = open_engine(tmp_path)
    used = []
    for cycle in range(10):
        for start in range(0, 400, 100):
            ids = [identity(cycle, n) for n in range(start, start + 100)]
            engine.upsert(M, [point(letter, {"content": noise(letter, 10_000)}) for letter in ids])
        engine.delete(M, [identity(cycle - 1, n) for n in range(400)])
        engine.vacuum(M)
        used.append(edge_files.allocated_bytes(tmp_path / M / "segments"))

    assert engine.count(M) == 400
    assert max(used) <= 2 * used[0]
    assert engine.disk_bytes() <= max(used) + (100 << 20)


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda collection: collection.name)
def test_scrub_leaves_no_byte_of_deleted_or_overwritten_text(tmp_path, collection) -> None:
    def written(name: str, text: str) -> Point:
        payload = {"content": text, "scopes": ["a"]}
        return point(identity(name), payload) if collection.dimension else Point(identity(name), payload)

    engine = open_engine(tmp_path)
    kept = [written(f"kept {n}", f"kept text {n}") for n in range(50)]
    secret = SECRET.decode()
    engine.upsert(
        collection.name, [*kept, written("deleted", secret), written("edited", secret), written("set", secret)]
    )
    engine.upsert(collection.name, [written("edited", "harmless")])
    engine.set_payload(collection.name, {identity("set"): {"content": None}})
    engine.delete(collection.name, [identity("deleted")])
    engine.flush()
    assert files_with(SECRET, tmp_path)

    engine.scrub(collection.name)

    assert files_with(SECRET, tmp_path) == []
    assert engine.count(collection.name) == 52
    engine.close()
    assert files_with(SECRET, tmp_path) == []
    found = contents(open_engine(tmp_path), collection.name)
    assert {key: found[key] for key in (kept_point.id for kept_point in kept)} == {p.id: p.payload for p in kept}


def test_writes_after_a_scrub_are_not_lost(tmp_path) -> None:
    """Removing the log instead would number writes from 0 again, and the engine drops those to points it knows."""
    engine = open_engine(tmp_path)
    ids = [identity(n) for n in range(4)]
    for round_number in range(50):
        engine.upsert(M, [point(letter, {"round": round_number}) for letter in ids])
    engine.delete(M, [ids[3]])
    engine.scrub(M)

    engine.upsert(M, [point(ids[0], {"round": "after"})])
    engine.set_payload(M, {ids[1]: {"round": "after"}})
    engine.delete(M, [ids[2]])
    engine.upsert(M, [point(ids[3], {"round": "again"})])

    expected = {ids[0]: {"round": "after"}, ids[1]: {"round": "after"}, ids[3]: {"round": "again"}}
    assert contents(engine) == expected
    engine.copy_to(tmp_path / "copy")
    engine.close()
    assert contents(open_engine(tmp_path)) == expected
    assert contents(open_engine(tmp_path / "copy")) == expected


def test_a_scrub_of_an_empty_collection_is_harmless(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(identity("a"), {"content": SECRET.decode()})])
    engine.delete(M, [identity("a")])

    engine.scrub(M)

    assert engine.count(M) == 0
    assert files_with(SECRET, tmp_path) == []
    engine.upsert(M, [point(identity("b"))])
    assert engine.count(M) == 1


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
