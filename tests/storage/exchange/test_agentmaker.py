"""An SQLite file of agentmaker, built with its own tables."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from storage.errors import Invalid
from storage.exchange import agentmaker, anchor
from storage.exchange.items import Fault, Item

MAY_4 = datetime(2026, 5, 4, 9, 30, tzinfo=UTC).timestamp()

MEMORIES = """
CREATE TABLE memories(
    id TEXT, base TEXT, sc_user TEXT, sc_agent TEXT, sc_session TEXT, sc_app TEXT, content TEXT, type TEXT,
    importance REAL, created_at TEXT, updated_at TEXT, last_accessed_at TEXT, invalid_at TEXT, superseded_by TEXT,
    metadata TEXT, PRIMARY KEY (id, base, sc_user, sc_agent, sc_session, sc_app)
);
"""
KV = """
CREATE TABLE kv(
    base TEXT, sc_user TEXT, sc_agent TEXT, sc_session TEXT, sc_app TEXT, key TEXT, value TEXT,
    UNIQUE(base, sc_user, sc_agent, sc_session, sc_app, key)
);
"""


class File:
    """A file of agentmaker, written as it writes it: absent owners are empty texts, values are JSON."""

    def __init__(self, path, schema=MEMORIES + KV):
        self.path = path
        self.run("PRAGMA journal_mode = WAL;" + schema)

    def run(self, script):
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(script)

    def memory(self, own, content="a text", user="alice", agent="", session="", app="", **values):
        given = {
            "id": own, "base": "memory", "sc_user": user, "sc_agent": agent, "sc_session": session, "sc_app": app,
            "content": content, "type": "semantic", "importance": 0.5, "created_at": "2026-05-04T09:30:00+00:00",
            "metadata": "{}",
        }  # fmt: skip
        self._insert("memories", given | values)

    def fact(self, key, value, base="kv", user="alice", agent="", session="", app=""):
        owner = {"base": base, "sc_user": user, "sc_agent": agent, "sc_session": session, "sc_app": app}
        self._insert("kv", owner | {"key": key, "value": value})

    def read(self):
        return list(agentmaker.read(self.path))

    def items(self, kind):
        return [item.fields for item in self.read() if isinstance(item, Item) and item.kind == kind]

    def faults(self):
        return [entry for entry in self.read() if isinstance(entry, Fault)]

    def _insert(self, table, values):
        with closing(sqlite3.connect(self.path)) as connection, connection:
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))


@pytest.fixture
def file(tmp_path):
    return File(tmp_path / "memory.db")


def test_a_memory_keeps_its_text_owner_importance_and_times(file):
    text = "Ships to production on Fridays 🚢 — 周五发布, cafe\u0301"
    file.memory(
        "a" * 32, text, agent="coder", session="s-7", type="procedural", importance=0.9,
        updated_at="2026-05-04T17:30:00+08:00", last_accessed_at="2026-05-04T09:30:00",
        metadata=json.dumps({"team": "backend", "深": {"n": None}}, ensure_ascii=False),
    )  # fmt: skip

    assert file.read() == [
        Item(
            "memory",
            "row 1 of memories",
            {
                "id": "a" * 32, "content": text, "scope": "alice/coder/s-7", "type": "procedural", "tier": "long",
                "importance": 0.9, "created_at": MAY_4, "updated_at": MAY_4, "accessed_at": MAY_4, "provenance": "import",
                "metadata": {"team": "backend", "深": {"n": None}},
            },
        )
    ]  # fmt: skip


def test_what_was_superseded_says_so_and_by_what(file):
    file.memory("old", invalid_at="2026-05-04T09:30:00+00:00", superseded_by="new")
    file.memory("gone", invalid_at="2026-05-04T09:30:00+00:00")
    file.memory("new")

    old, gone, new = file.items("memory")

    assert (old["invalid_at"], old["superseded_by"]) == (MAY_4, "new")
    assert gone["invalid_at"] == MAY_4
    assert "superseded_by" not in gone
    assert "invalid_at" not in new


def test_a_type_of_its_own_is_the_subtype(file):
    file.memory("a", type="working")

    (fields,) = file.items("memory")
    assert fields["subtype"] == "working"
    assert "type" not in fields


def test_b10_one_id_of_several_owners_becomes_as_many_memories(file):
    file.memory("same", "alice's", user="alice")
    file.memory("same", "bob's", user="bob", invalid_at="2026-05-04T09:30:00", superseded_by="next")
    file.memory("follower", "bob's", user="bob", invalid_at="2026-05-04T09:30:00", superseded_by="same")
    file.memory("next", "bob's", user="bob")

    alice, bob, follower, following = file.items("memory")

    assert len({fields["id"] for fields in (alice, bob, follower, following)}) == 4
    assert alice["metadata"] == bob["metadata"] == {"original_id": "same"}
    assert follower["superseded_by"] == bob["id"]
    assert bob["superseded_by"] == following["id"] == "next"
    assert file.items("memory")[0]["id"] == alice["id"]  # the same at the next reading


def test_facts_keep_their_owner_key_and_value(file):
    file.fact("location", '"Beijing"')
    file.fact("allergies", '["peanuts", {"grade": 3}]', agent="coder", session="s-7")
    file.fact("count", "7", user="", app="shop")
    file.fact("nothing", "null", user="")
    file.fact("raw", "written by hand 🖐")

    assert file.items("fact") == [
        {"scope": "alice", "key": "location", "value": "Beijing"},
        {"scope": "alice/coder/s-7", "key": "allergies", "value": ["peanuts", {"grade": 3}]},
        {"scope": "shop", "key": "count", "value": 7},
        {"scope": "default", "key": "nothing", "value": None},
        {"scope": "alice", "key": "raw", "value": "written by hand 🖐"},
    ]


def test_b10_facts_of_different_owners_never_share_a_scope_and_a_key(file):
    owners = [
        {}, {"user": "bob"}, {"user": "a/b"}, {"user": "a-b"}, {"agent": "coder"}, {"app": "shop"}, {"base": "profile"},
        {"base": "profile", "app": "shop"},
    ]  # fmt: skip
    for owner in owners:
        file.fact("location", '"here"', **owner)

    assert len({fields["scope"] for fields in file.items("fact")}) == len(owners)


def test_a_file_of_facts_alone_and_one_of_memories_alone_are_read(tmp_path):
    facts, memories = File(tmp_path / "kv.db", KV), File(tmp_path / "memory.db", MEMORIES)
    facts.fact("location", '"Beijing"')
    memories.memory("a")

    assert agentmaker.matches(facts.path)
    assert agentmaker.matches(memories.path)
    assert [item.kind for item in facts.read() + memories.read()] == ["fact", "memory"]


def test_memories_come_before_facts(file):
    file.fact("location", '"Beijing"')
    file.memory("a")

    assert [item.kind for item in file.read()] == ["memory", "fact"]


def test_columns_that_we_do_not_know_are_metadata(file):
    file.run("ALTER TABLE memories ADD COLUMN mood TEXT; ALTER TABLE memories ADD COLUMN vector BLOB;")
    file.memory("a", mood="sunny", vector=b"\xff\0", metadata='{"mood": "grey"}')

    assert file.items("memory")[0]["metadata"] == {"mood": "grey", "mood_2": "sunny", "vector": "/wA="}


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        ("{broken", {"metadata": "{broken"}),
        ('["a"]', {"metadata": ["a"]}),
        ("null", None),
        (None, None),
        ('{"n": 1' + "0" * 30 + "}", {"n": "1" + "0" * 30}),
    ],
)
def test_metadata_that_is_no_object_costs_no_memory(file, metadata, kept):
    file.memory("a", metadata=metadata)

    assert file.items("memory")[0].get("metadata") == kept


@pytest.mark.parametrize("content", [None, "", " \n", b"\xff\xfe"])
def test_seed_1_7_4_a_row_without_a_text_is_a_fault_and_the_rest_goes_on(file, content):
    file.memory("a")
    file.memory("b", content)
    file.memory("c")

    assert [fields["id"] for fields in file.items("memory")] == ["a", "c"]
    assert [fault.place for fault in file.faults()] == ["row 2 of memories"]


@pytest.mark.parametrize("column", ["created_at", "updated_at", "last_accessed_at", "invalid_at"])
@pytest.mark.parametrize("time", ["soon", "2026-13-45", "99999-01-01T00:00:00"])
def test_a14_an_absurd_time_is_a_fault_and_the_rest_goes_on(file, column, time):
    file.memory("a")
    file.memory("b", **{column: time})
    file.memory("c")

    assert [fields["id"] for fields in file.items("memory")] == ["a", "c"]
    assert [fault.detail.partition(":")[0] for fault in file.faults()] == [column]


def test_a_fact_without_a_key_is_a_fault(file):
    file.fact(None, '"nowhere"')
    file.fact("location", '"Beijing"')

    assert [fields["key"] for fields in file.items("fact")] == ["location"]
    assert [fault.place for fault in file.faults()] == ["row 1 of kv"]


def test_an_importance_beyond_its_bounds_is_brought_into_them(file):
    file.memory("a", importance=7.5)

    (fields,) = file.items("memory")
    assert fields["importance"] == 1.0
    assert fields["metadata"] == {"importance": 7.5}


def test_a_file_with_an_index_of_vectors_beside_is_read(file):
    """Its index lies in the same file, in virtual tables of an extension that we have not."""
    file.memory("a")
    file.run(
        "CREATE VIRTUAL TABLE keywords USING fts5(id, content); PRAGMA writable_schema = ON;"
        "INSERT INTO sqlite_master(type, name, tbl_name, rootpage, sql)"
        " VALUES ('table', 'vectors', 'vectors', 0, 'CREATE VIRTUAL TABLE vectors USING vec0(embedding float[4])');"
    )

    assert agentmaker.matches(file.path)
    assert [fields["id"] for fields in file.items("memory")] == ["a"]


def test_a_cut_file_is_refused_before_the_first_memory(file):
    for number in range(200):
        file.memory(f"m{number}", "a text " * 50)
    stored = file.path.read_bytes()
    file.path.write_bytes(stored[: len(stored) // 2])

    with pytest.raises(Invalid) as caught:
        next(agentmaker.read(file.path))
    assert caught.value.hint


def test_another_database_is_refused(tmp_path):
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE memories (id TEXT, content TEXT)")

    assert not agentmaker.matches(path)
    with pytest.raises(Invalid, match="no database of agentmaker"):
        next(agentmaker.read(path))


@pytest.mark.parametrize("content", [b"", b"plain words", b'{"memory": "x"}', b"SQLite format 3"])
def test_other_files_are_not_taken_for_it(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)

    assert not agentmaker.matches(path)
    assert not agentmaker.matches(tmp_path)
    assert not agentmaker.matches(tmp_path / "missing")


def test_a_file_of_agentmaker_is_not_taken_for_a_folder_of_anchor_memory(file):
    assert not anchor.matches(file.path)
