"""Kills and rewrites of the embedded engine: acknowledged writes, vacuum, scrub and what they leave on the disk."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storage import edge_files
from storage.engine import Condition, Point, Query, Sparse
from tests.storage.edge_writer import (
    COLLECTIONS,
    EDGES,
    MEMORIES,
    contents,
    expect,
    identity,
    noise,
    open_engine,
    point,
    segment,
    writes,
)

M = MEMORIES.name
ROOT = Path(__file__).resolve().parents[2]
SECRET = b"the combination is 8-1-5"


def run(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def files_with(text: bytes, folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


def test_after_a_kill_at_any_moment_every_acknowledged_write_is_there(tmp_path) -> None:
    """Each point is as the acknowledged writes left it, or as the one write under way would have."""
    dice = random.Random(11)
    settled: dict[str, dict] = {}
    for seed in range(8):
        writer = run("-m", "tests.storage.edge_writer", str(tmp_path), str(seed))
        assert writer.stdout is not None
        read = [writer.stdout.readline() for _ in range(dice.randint(10, 50))]
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
        for start in range(0, 300, 100):
            ids = [identity(cycle, n) for n in range(start, start + 100)]
            engine.upsert(M, [point(letter, {"content": noise(letter, 10_000)}) for letter in ids])
        engine.delete(M, [identity(cycle - 1, n) for n in range(300)])
        engine.vacuum(M)
        used.append(edge_files.allocated_bytes(tmp_path / M / "segments"))

    assert engine.count(M) == 300
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


def test_scrub_rewrites_overwritten_text_where_no_point_was_deleted(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(identity("a"), {"content": SECRET.decode()})])
    engine.upsert(M, [point(identity("a"), {"content": "harmless"})])
    engine.flush()

    engine.scrub(M)

    assert files_with(SECRET, tmp_path) == []
    assert contents(engine) == {identity("a"): {"content": "harmless"}}


def test_a_scrub_of_an_empty_collection_is_harmless(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(identity("a"), {"content": SECRET.decode()})])
    engine.delete(M, [identity("a")])

    engine.scrub(M)

    assert engine.count(M) == 0
    assert files_with(SECRET, tmp_path) == []
    engine.upsert(M, [point(identity("b"))])
    assert engine.count(M) == 1
