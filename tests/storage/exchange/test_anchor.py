"""What is read from a folder of anchor-memory."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from storage.exchange import anchor
from storage.exchange.items import KINDS, Fault, Item
from storage.exchange.mapping import stable_id
from tests.storage.exchange.anchor_folder import DELETE, UPSERT, Folder

MAY_4 = datetime(2026, 5, 4, 9, 30, tzinfo=UTC).timestamp()


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "anchor")


def test_a_memory_keeps_its_text_times_tier_pin_emotion_and_use(folder):
    text = "The waves sound like breathing 🌊 — 海浪, cafe\u0301"
    folder.memory(
        "m1", text, usage_count=7, last_used="2026-05-04T17:30:00+08:00", tag="Relationship", tier="core", pinned=1,
        emotion_score=0.9, context="the whole evening\r\n", timestamp="2026-05-04T09:30:00.000000",
    )  # fmt: skip

    assert folder.read() == [
        Item(
            "memory",
            "row 1 of memories",
            {
                "id": "m1", "content": text, "context": "the whole evening\r\n", "tags": ["Relationship"], "tier": "core",
                "pinned": True, "emotion": 0.9, "created_at": MAY_4, "accessed_at": MAY_4, "access_count": 7,
                "provenance": "import",
            },
        )
    ]  # fmt: skip


@pytest.mark.parametrize("tier", ["short", "long", "core"])
def test_a10_a_tier_stays_what_it_is(folder, tier):
    folder.memory("m1", tier=tier)

    assert folder.items("memory")[0]["tier"] == tier


def test_a_tier_that_we_do_not_know_is_metadata(folder):
    folder.memory("m1", tier="eternal")

    (fields,) = folder.items("memory")
    assert "tier" not in fields
    assert fields["metadata"] == {"tier": "eternal"}


def test_a6_an_emotion_of_zero_is_kept(folder):
    folder.memory("m1", emotion_score=0.0)

    assert folder.items("memory")[0]["emotion"] == 0.0


def test_what_chroma_alone_knows_is_not_lost(folder):
    folder.memory("m1")
    folder.memory("m2")
    folder.memory("m3")
    folder.vector(1, "m1", source="curator", entity="Lena", timestamp="2026-05-04T09:30:00")
    folder.vector(2, "m2", source="penpal_letter", entity="pair:27|ai_name:Cheng", rank=3, sure=True, near=0.5)
    folder.vector(3, "m3")

    one, two, three = folder.items("memory")

    assert one["entities"] == ["Lena"]
    assert one["metadata"] == {"source": "curator", "entity": "Lena"}
    assert "entities" not in two
    assert two["metadata"] == {
        "source": "penpal_letter", "entity": "pair:27|ai_name:Cheng", "rank": 3, "sure": 1, "near": 0.5,
    }  # fmt: skip
    assert "metadata" not in three


def test_another_collection_of_chroma_says_nothing_of_a_memory(folder):
    folder.memory("m1")
    folder.vector(1, "m1", segment="s-2", source="elsewhere")
    folder.queued(UPSERT, "m1", topic="persistent://default/default/c-2", source="elsewhere")

    assert "metadata" not in folder.items("memory")[0]


def test_what_still_waits_in_the_queue_of_chroma_counts(folder):
    for name in ("m1", "m2", "m3"):
        folder.memory(name)
    folder.vector(1, "m1", source="old", entity="Lena")
    folder.vector(2, "m3", source="gone")
    folder.queued(UPSERT, "m1", source="new", tag="general")
    folder.queued(UPSERT, "m2", source="first")
    folder.queued(DELETE, "m3")

    one, two, three = folder.items("memory")

    assert one["metadata"] == {"source": "new", "entity": "Lena"}
    assert two["metadata"] == {"source": "first"}
    assert "metadata" not in three


def test_a1_a_vector_without_a_row_is_no_memory(folder):
    folder.memory("m1")
    folder.vector(1, "ghost", source="curator")
    folder.queued(UPSERT, "ghost-2", source="curator")

    assert [fields["id"] for fields in folder.items("memory")] == ["m1"]


def test_a_folder_without_chroma_is_read(folder):
    folder.memory("m1")
    folder.chroma.unlink()
    folder.chroma.parent.rmdir()

    assert [fields["id"] for fields in folder.items("memory")] == ["m1"]


def test_columns_that_we_do_not_know_are_metadata(folder):
    folder.run("ALTER TABLE memories ADD COLUMN mood TEXT; ALTER TABLE memories ADD COLUMN source TEXT;")
    folder.memory("m1", mood="sunny", source="column", visual_embedding="[0.5, 0.25]")
    folder.vector(1, "m1", source="chroma")

    assert folder.items("memory")[0]["metadata"] == {
        "mood": "sunny", "source": "column", "source_2": "chroma", "visual_embedding": "[0.5, 0.25]",
    }  # fmt: skip


def test_the_two_rows_of_a_pair_are_one_edge(folder):
    for name in ("a", "b", "c"):
        folder.memory(name)
    folder.edge("b", "a", 2.5)
    folder.edge("a", "c", 0.2, created="2026-05-04T17:30:00+08:00")
    folder.edge("b", "c", 25.0)

    assert folder.items("edge") == [
        {"a": "a", "b": "b", "kind": "manual", "weight": 2.5, "label": "", "created_at": MAY_4},
        {"a": "a", "b": "c", "kind": "hebbian", "weight": 0.2, "label": "", "created_at": MAY_4},
        {"a": "b", "b": "c", "kind": "manual", "weight": 10.0, "label": "", "created_at": MAY_4},
    ]


def test_a_single_row_is_an_edge_too(folder):
    folder.memory("a")
    folder.memory("b")
    folder.insert("edges", source_id="b", target_id="a", weight=1.0, created="2026-05-04T09:30:00", last_fired="")

    assert [(edge["a"], edge["b"], edge["weight"]) for edge in folder.items("edge")] == [("a", "b", 1.0)]


def test_an_edge_that_leads_nowhere_is_a_fault_and_the_rest_goes_on(folder):
    for name in ("a", "b", "c"):
        folder.memory(name)
    folder.run("PRAGMA ignore_check_constraints = 1; UPDATE memories SET text = ' ' WHERE memory_id = 'c';")
    folder.edge("a", "ghost", 1.0)
    folder.edge("a", "a", 1.0)
    folder.edge("a", "b", 1.0)
    folder.edge("a", "c", 1.0)

    assert [(edge["a"], edge["b"]) for edge in folder.items("edge")] == [("a", "b")]
    assert len([fault for fault in folder.faults() if "edges" in fault.place]) == 3


@pytest.mark.parametrize("weight", [None, 0, -1, "much", float("inf")])
def test_an_edge_without_a_weight_is_a_fault(folder, weight):
    folder.memory("a")
    folder.memory("b")
    folder.edge("a", "b", weight)

    assert folder.items("edge") == []
    assert [fault.detail for fault in folder.faults()] == ["weight is no number above 0"]


def test_comments_are_threads_and_say_whether_they_were_read(folder):
    folder.memory("m1")
    folder.comment("c1", "m1", content="look here 👀", author="human", read_by_ai=1)
    folder.comment("c2", "m1", reply_to="c1", created_at="2026-05-04T17:30:00+08:00", read_by_human=1)
    folder.comment("c3", "m1", author=None)

    assert folder.items("comment") == [
        {
            "id": "c1", "memory": "m1", "author": "human", "content": "look here 👀", "reply_to": None, "read": True,
            "created_at": MAY_4,
        },
        {
            "id": "c2", "memory": "m1", "author": "ai", "content": "a remark", "reply_to": "c1", "read": False,
            "created_at": MAY_4,
        },
        {
            "id": "c3", "memory": "m1", "author": "ai", "content": "a remark", "reply_to": None, "read": False,
            "created_at": MAY_4,
        },
    ]  # fmt: skip


def test_a12_a_reply_stays_where_what_it_answers_is_gone(folder):
    folder.memory("m1")
    folder.comment("c2", "m1", reply_to="c1")
    folder.comment("c3", "ghost")

    assert [(fields["id"], fields["reply_to"]) for fields in folder.items("comment")] == [("c2", None)]
    assert [fault.place for fault in folder.faults()] == ["row 2 of comments"]


def test_annotations_are_comments_that_nobody_has_to_read(folder):
    folder.memory("m1")
    folder.insert("annotations", memory_id="m1", text="she meant the sea", created_at="2026-05-04T09:30:00")

    assert folder.items("comment") == [
        {
            "id": stable_id("annotation", "m1", "1"), "memory": "m1", "author": "ai", "content": "she meant the sea",
            "reply_to": None,
            "read": True, "created_at": MAY_4,
        }
    ]  # fmt: skip


def test_each_kind_comes_after_what_it_refers_to(folder):
    folder.memory("a")
    folder.memory("b")
    folder.edge("a", "b", 1.0)
    folder.comment("c1", "a")
    folder.insert("annotations", memory_id="b", text="a note", created_at="2026-05-04T09:30:00")

    kinds = [item.kind for item in folder.read()]
    assert kinds == sorted(kinds, key=KINDS.index) == ["memory", "memory", "edge", "comment", "comment"]


def without_not_null(folder):
    """The tables as a fork may have them, in which anything can stand anywhere."""
    folder.run(
        "DROP TABLE memories; CREATE TABLE memories (memory_id, text, timestamp, usage_count, last_used, tag, tier);"
    )


@pytest.mark.parametrize("text", [None, "", " \n", 7, b"\xff\xfe"])
def test_seed_1_7_4_a_row_without_a_text_is_a_fault_and_the_rest_goes_on(folder, text):
    without_not_null(folder)
    folder.memory("a")
    folder.memory("b", text)
    folder.memory("c")

    assert [fields["id"] for fields in folder.items("memory")] == ["a", "c"]
    assert [fault.place for fault in folder.faults()] == ["row 2 of memories"]


def test_a_text_that_is_no_utf8_is_a_fault_and_the_rest_goes_on(folder):
    folder.memory("a")
    folder.run(
        "INSERT INTO memories (memory_id, text, timestamp) VALUES ('b', CAST(X'636166E9' AS TEXT), '2026-05-04')"
    )
    folder.memory("c")

    assert [type(entry) for entry in folder.read()] == [Item, Fault, Item]


@pytest.mark.parametrize("column", ["timestamp", "last_used"])
@pytest.mark.parametrize("time", ["soon", "2026-13-45T00:00:00", "99999-01-01T00:00:00", "1e400", b"\xff"])
def test_a14_an_absurd_time_is_a_fault_and_the_rest_goes_on(folder, column, time):
    folder.memory("a")
    folder.memory("b", **{column: time})
    folder.memory("c")

    assert [fields["id"] for fields in folder.items("memory")] == ["a", "c"]
    (fault,) = folder.faults()
    assert fault.detail.startswith(f"{column}: ")


@pytest.mark.parametrize("time", ["2026-05-04T09:30:00", "2026-05-04T17:30:00+08:00", "2026-05-04T09:30:00Z", MAY_4])
def test_a14_naive_zone_aware_and_plain_numbers_are_the_same_instant(folder, time):
    folder.memory("m1", timestamp=time)

    assert folder.items("memory")[0]["created_at"] == MAY_4


def test_an_id_that_we_cannot_keep_is_the_same_everywhere(folder):
    long = "m" * 200
    folder.memory(long)
    folder.memory("b")
    folder.edge(long, "b", 1.0)
    folder.comment("c\n1", long)
    folder.comment("c2", long, reply_to="c\n1")

    made = folder.items("memory")[0]
    assert made["metadata"] == {"original_id": long}
    (edge,) = folder.items("edge")
    assert {edge["a"], edge["b"]} == {made["id"], "b"}
    first, second = folder.items("comment")
    assert first["memory"] == second["memory"] == made["id"]
    assert second["reply_to"] == first["id"]


def test_thousands_of_rows_come_one_after_another(folder):
    with closing(sqlite3.connect(folder.database)) as connection, connection:
        rows = [(f"m{n}", "a text" if n != 1234 else " ", "2026-05-04T09:30:00") for n in range(3000)]
        connection.executemany("INSERT INTO memories (memory_id, text, timestamp) VALUES (?, ?, ?)", rows)

    reading = anchor.read(folder.path)
    assert next(reading).fields["id"] == "m0"
    assert [type(entry) for entry in reading].count(Item) == 2998
