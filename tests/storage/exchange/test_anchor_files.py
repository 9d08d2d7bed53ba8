"""How the files of anchor-memory are opened: recognised, never changed, and refused where they are locked or damaged."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import pytest

from storage.errors import Invalid
from storage.exchange import agentmaker, anchor
from tests.storage.exchange.anchor_folder import Folder


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "anchor")


def test_reading_changes_nothing_in_the_folder(folder):
    folder.memory("m1")
    folder.vector(1, "m1", source="curator")
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.path.rglob("*") if path.is_file()}

    assert folder.read()

    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.path.rglob("*") if path.is_file()}
    assert after == before


def test_the_folder_and_its_database_are_recognised(folder):
    assert anchor.matches(folder.path)
    assert anchor.matches(folder.database)
    assert list(anchor.read(folder.database)) == folder.read()


def test_other_things_are_not_taken_for_it(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("plain words")
    (tmp_path / "short.db").write_bytes(b"SQLi")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE memories (id TEXT, content TEXT)")

    for name in ("empty", "notes.txt", "short.db", "other.db", "missing"):
        assert not anchor.matches(tmp_path / name)
    assert not agentmaker.matches(folder.path)
    assert not agentmaker.matches(folder.database)


def test_a_folder_of_something_else_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "memories.db")) as connection:
        connection.execute("CREATE TABLE memories (id TEXT, content TEXT)")

    with pytest.raises(Invalid, match="no folder of anchor-memory") as caught:
        next(anchor.read(tmp_path))
    assert caught.value.hint


def filled(folder):
    with closing(sqlite3.connect(folder.database)) as connection, connection:
        rows = [(f"m{n}", "a text " * 100, "2026-05-04T09:30:00") for n in range(200)]
        connection.executemany("INSERT INTO memories (memory_id, text, timestamp) VALUES (?, ?, ?)", rows)
    return folder.database.read_bytes()


def refused(folder):
    with pytest.raises(Invalid) as caught:
        next(anchor.read(folder.path))
    assert caught.value.hint
    assert "a text" not in caught.value.detail
    return caught.value


def test_a_cut_database_is_refused_before_the_first_memory(folder):
    stored = filled(folder)
    folder.database.write_bytes(stored[: len(stored) // 2])

    refused(folder)


def test_a_database_that_is_damaged_at_its_end_is_refused_before_the_first_memory(folder):
    stored = filled(folder)
    folder.database.write_bytes(stored[:-4096] + b"\xaa" * 4096)

    refused(folder)


def test_a_database_without_a_schema_that_can_be_read_is_refused_when_recognised(folder):
    stored = filled(folder)
    folder.database.write_bytes(stored[:100] + b"\xaa" * 4000 + stored[4100:])

    refused(folder)
    with pytest.raises(Invalid):
        anchor.matches(folder.path)


def test_a_damaged_chroma_is_refused_before_the_first_memory(folder):
    folder.memory("m1")
    stored = folder.chroma.read_bytes()
    folder.chroma.write_bytes(stored[: len(stored) // 2])

    refused(folder)


def test_a_database_that_is_being_written_is_refused_as_locked(folder):
    folder.memory("m1")
    with closing(sqlite3.connect(folder.database, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        error = refused(folder)
        assert "locked" in error.detail
        writer.execute("ROLLBACK")

    assert folder.items("memory")


def test_a_database_in_wal_mode_is_read_with_what_is_still_in_its_log(folder):
    folder.run("PRAGMA journal_mode = WAL")
    with closing(sqlite3.connect(folder.database)) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("INSERT INTO memories (memory_id, text, timestamp) VALUES ('m1', 'a text', '2026-05-04')")
        writer.commit()
        assert (folder.path / "memories.db-wal").stat().st_size

        assert [fields["id"] for fields in folder.items("memory")] == ["m1"]


def test_a_database_in_wal_mode_without_its_log_is_read_and_no_file_is_made(folder):
    folder.memory("m1")
    folder.run("PRAGMA journal_mode = WAL")
    before = sorted(path.name for path in folder.path.iterdir())

    assert [fields["id"] for fields in folder.items("memory")] == ["m1"]
    assert sorted(path.name for path in folder.path.iterdir()) == before


def test_an_odd_name_of_a_folder_is_only_a_name(tmp_path):
    folder = Folder(tmp_path / "a b?mode=rw#c%41 文")
    folder.memory("m1")

    assert anchor.matches(folder.path)
    assert [fields["id"] for fields in folder.items("memory")] == ["m1"]


def test_items_may_be_taken_by_another_thread_than_began(folder):
    folder.memory("m1")
    folder.memory("m2")
    reading, rest = anchor.read(folder.path), []
    next(reading)

    thread = threading.Thread(target=lambda: rest.extend(reading))
    thread.start()
    thread.join()

    assert [item.fields["id"] for item in rest] == ["m2"]
