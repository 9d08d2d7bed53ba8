"""What Animus writes: snapshots, its JSON, JSONL and CSV, and histories in which every edit is a record of its own."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import Invalid
from storage.exchange import animus, mem0
from storage.exchange.chains import Chains, Link
from storage.exchange.items import Fault, Item

MAY_4 = datetime(2026, 5, 4, 9, 30, tzinfo=UTC).timestamp()
HOUR = 3600.0


def record(own, content="a text", hour=9, **fields):
    """A memory as its `to_dict` writes it."""
    at = f"2026-05-04T{hour:02}:30:00"
    return {
        "id": own, "content": content, "memory_type": "semantic", "created_at": at, "updated_at": at, "metadata": {},
        "tags": [], "source": "stated", "confidence": 1.0, "subtype": None, "version": 1, "parent_id": None,
        "change_summary": None, "provenance": "direct", "sensitivity": "public", "tier": "warm", "access_count": 0,
        "last_accessed": None, **fields,
    }  # fmt: skip


def edits(*contents, **last):
    """A history: each edit is a record that names the one before."""
    made = [
        record(f"v{n}", text, hour=8 + n, version=n, parent_id=f"v{n - 1}" if n > 1 else None,
               change_summary="content updated" if n > 1 else None)
        for n, text in enumerate(contents, 1)
    ]  # fmt: skip
    made[-1] |= last
    return made


@pytest.fixture
def path(tmp_path):
    return tmp_path / "before_20260504T093000.json"


def snapshot(records):
    return {"label": "before", "timestamp": "2026-05-04T09:30:00", "memory_count": len(records), "memories": records}


def saved(path, *records):
    path.write_text(json.dumps(snapshot(list(records)), indent=2))
    return list(animus.read(path))


def as_csv(records):
    """As its `export_memories_csv` writes it."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(animus.COLUMNS)
    for one in records:
        values = one | {"tags": ";".join(one["tags"]), "subtype": one["subtype"] or ""}
        writer.writerow([values[name] for name in animus.COLUMNS])
    return file.getvalue()


def test_a_memory_keeps_all_that_it_is(path):
    text = "Lives in Rio 🏖 — 住在里约, cafe\u0301"
    (item,) = saved(
        path,
        record(
            "m1", text, memory_type="episodic", subtype="conversation", tags=["Home", "work"], source="inferred",
            confidence=0.8, sensitivity="confidential", tier="hot", access_count=7, last_accessed="2026-05-04T17:30:00+08:00",
            metadata={"conversation_id": "c-7", "nothing": None},
        ),
    )  # fmt: skip

    assert item == Item(
        "memory",
        "record 1",
        {
            "id": "m1", "content": text, "session": "c-7", "type": "episodic", "subtype": "conversation",
            "tags": ["Home", "work"], "tier": "long", "heat": "hot", "confidence": 0.8, "source": "inferred",
            "sensitivity": "confidential", "version": 1, "created_at": MAY_4, "updated_at": MAY_4, "accessed_at": MAY_4,
            "access_count": 7, "provenance": "import",
            "metadata": {"conversation_id": "c-7", "nothing": None},
        },
    )  # fmt: skip


def test_every_shape_gives_the_same_memories(path):
    records = [record("m1", "one"), record("m2", "two", tags=["a"])]
    expected = [item.fields for item in saved(path, *records)]
    shapes = [
        json.dumps(snapshot(records)),
        json.dumps(records, indent=2),
        json.dumps(records),
        "\n".join(map(json.dumps, records)),
        "\n".join(map(json.dumps, records)) + "\n",
    ]
    for shape in shapes:
        path.write_text(shape)
        assert animus.matches(path)
        assert [item.fields for item in animus.read(path)] == expected


def test_a_csv_has_what_a_csv_can_hold(path):
    text = 'He said "no",\r\nthen yes; 是\u2028🙂'
    path.write_text(
        as_csv([record("m1", text, tags=["a", "b"], confidence=0.8), record("m2", "two", subtype="fact")]), newline=""
    )

    assert animus.matches(path)
    one, two = animus.read(path)
    assert one.fields == {
        "id": "m1", "content": text, "type": "semantic", "tags": ["a", "b"], "tier": "long", "confidence": 0.8,
        "source": "stated", "created_at": MAY_4, "updated_at": MAY_4, "provenance": "import",
    }  # fmt: skip
    assert two.fields["subtype"] == "fact"


def test_a_long_text_in_a_csv_is_read_whole(path):
    text = "long " * 60_000
    path.write_text(as_csv([record("m1", text)]), newline="")

    assert [item.fields["content"] for item in animus.read(path)] == [text]


def test_unknown_fields_are_kept_and_overwrite_nothing(path):
    (item,) = saved(path, record("m1", mood="sunny", provenance="sync", metadata={"mood": "grey"}))

    assert item.fields["metadata"] == {"mood": "grey", "mood_2": "sunny", "provenance": "sync"}
    assert item.fields["provenance"] == "import"


def test_words_that_we_do_not_know_are_metadata(path):
    (item,) = saved(
        path, record("m1", memory_type="dream", tier="tepid", source="guessed", sensitivity="top", subtype="vision")
    )

    assert item.fields["subtype"] == "vision"
    assert not {"type", "heat", "source", "sensitivity"} & item.fields.keys()
    assert item.fields["metadata"] == {
        "memory_type": "dream", "tier": "tepid", "source": "guessed", "sensitivity": "top",
    }  # fmt: skip


def test_a_record_of_an_older_animus_has_no_sensitivity_and_gets_none(path):
    older = record("m1")
    for name in ("sensitivity", "tier", "access_count", "last_accessed"):
        del older[name]

    assert not {"sensitivity", "heat", "access_count"} & saved(path, older)[0].fields.keys()


# -- histories


def of(read, kind):
    return [item for item in read if isinstance(item, Item) and item.kind == kind]


def test_c10_the_last_of_a_history_is_the_memory_and_the_others_its_versions(path):
    read = saved(path, *edits("lives in SP", "lives in Rio", "lives in Recife"), record("m9"))

    head, other = of(read, "memory")
    first, second = of(read, "version")
    assert other.fields["id"] == "m9"
    assert (head.fields["id"], head.fields["content"], head.fields["version"]) == ("v3", "lives in Recife", 3)
    assert (head.fields["created_at"], head.fields["updated_at"]) == (MAY_4, MAY_4 + 2 * HOUR)
    assert first.fields == {
        "memory": "v3", "number": 1, "content": "lives in SP", "context": "", "type": "semantic", "tags": [],
        "metadata": {"original_id": "v1"}, "sensitivity": "public", "change_summary": "", "created_at": MAY_4,
        "replaced_at": MAY_4 + HOUR,
    }  # fmt: skip
    assert (second.fields["number"], second.fields["replaced_at"]) == (2, MAY_4 + 2 * HOUR)
    assert second.fields["change_summary"] == "content updated"
    assert second.fields["metadata"] == {"original_id": "v2", "parent_id": "v1"}


def test_versions_come_after_every_memory_whatever_the_order_of_the_file(path):
    for order in (edits("a", "b", "c"), edits("a", "b", "c")[::-1]):
        read = saved(path, *order, record("m9"))

        assert [item.kind for item in read] == ["memory", "memory", "version", "version"]
        assert {item.fields["number"]: item.fields["content"] for item in of(read, "version")} == {1: "a", 2: "b"}


def test_c6_an_edit_that_published_a_secret_is_secret_again(path):
    first, second = edits("a secret", "the same secret")

    read = saved(path, first | {"sensitivity": "secret"}, second | {"sensitivity": "public"})

    assert of(read, "memory")[0].fields["sensitivity"] == "secret"
    assert of(read, "version")[0].fields["sensitivity"] == "secret"


def test_what_a_version_has_no_place_for_is_in_its_metadata(path):
    first, second = edits("a", "b")

    read = saved(
        path, first | {"subtype": "fact", "confidence": 0.5, "source": "learned", "metadata": {"own": 1}}, second
    )

    assert of(read, "version")[0].fields["metadata"] == {
        "own": 1, "subtype": "fact", "confidence": 0.5, "source": "learned", "original_id": "v1",
    }  # fmt: skip


def test_of_two_edits_of_one_text_the_newer_has_its_history_and_both_are_memories(path):
    first, second = edits("a", "b")
    rival = second | {"id": "v2b", "content": "c", "created_at": "2026-05-04T12:30:00"}

    read = saved(path, first, second, rival)

    assert [item.fields["id"] for item in of(read, "memory")] == ["v2", "v2b"]
    assert [item.fields["memory"] for item in of(read, "version")] == ["v2b"]
    assert of(read, "memory")[0].fields["metadata"] == {"parent_id": "v1"}


def test_a_history_whose_beginning_is_gone_keeps_its_numbers(path):
    read = saved(path, *edits("a", "b", "c", "d")[2:])

    assert of(read, "memory")[0].fields["version"] == 4
    assert [item.fields["number"] for item in of(read, "version")] == [3]


@pytest.mark.parametrize("last", [{"content": None}, {"created_at": "soon"}])
def test_a_history_whose_last_record_is_bad_ends_with_the_one_before(path, last):
    read = saved(path, *edits("a", "b", "c", **last))

    assert [item.fields["content"] for item in of(read, "memory")] == ["b"]
    assert [item.fields["content"] for item in of(read, "version")] == ["a"]
    assert [fault.place for fault in read if isinstance(fault, Fault)] == ["record 3"]


def test_records_that_name_each_other_in_a_circle_are_all_kept(path):
    one, two = edits("a", "b")
    read = saved(path, one | {"parent_id": "v2"}, two, record("own", parent_id="own"))

    assert [item.fields["id"] for item in of(read, "memory")] == ["v1", "v2", "own"]
    assert of(read, "version") == []


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4), st.integers(0, 3)), max_size=8))
def test_whoever_names_whom_each_record_is_one_memory_or_one_version_of_one(parents):
    links = [Link(f"m{n}", f"m{parent}", number, at, None) for n, (parent, number, at) in enumerate(parents)]
    chains = Chains(links)

    former = [link.id for link in links if chains.is_former(link.id)]
    places = [(chains.former(own).memory, chains.former(own).number) for own in former]
    assert len(set(places)) == len(places)
    for memory, number in places:
        head = chains.head(memory)
        assert not chains.is_former(memory)
        assert head is not None
        assert 1 <= number < head.number


# -- what is wrong with a file


@pytest.mark.parametrize("content", [None, "", " \n", 7])
def test_seed_1_7_4_a_record_without_a_text_is_a_fault_and_the_rest_goes_on(path, content):
    read = saved(path, record("a"), record("b", content), record("c"))

    assert [type(entry) for entry in read] == [Item, Fault, Item]
    assert read[1].place == "record 2"


@pytest.mark.parametrize("name", ["created_at", "updated_at", "last_accessed"])
@pytest.mark.parametrize("time", ["soon", "2026-13-45", "99999-01-01T00:00:00", True])
def test_a14_an_absurd_time_is_a_fault_and_the_rest_goes_on(path, name, time):
    read = saved(path, record("a"), record("b", **{name: time}), record("c"))

    assert [type(entry) for entry in read] == [Item, Fault, Item]
    assert read[1].detail.startswith(f"{name}: ")


def test_a_record_without_a_time_of_birth_is_a_fault(path):
    assert [type(entry) for entry in saved(path, record("a", created_at=None), 7)] == [Fault, Fault]


def test_one_bad_line_among_thousands_is_a_fault_and_all_others_are_read(path):
    lines = [json.dumps(record(f"m{n}", f"memory {n}")) for n in range(2000)]
    lines[1234] = lines[1234][:40]
    path.write_text("\n".join(lines))

    read = list(animus.read(path))

    assert [entry.place for entry in read if isinstance(entry, Fault)] == ["line 1235"]
    assert len(of(read, "memory")) == 1999


def test_one_bad_row_of_a_csv_is_a_fault_and_the_rest_goes_on(path):
    header, *rows = as_csv([record(f"m{n}") for n in range(5)]).splitlines()
    rows[1] = "m1,too,few"
    rows[2] = rows[2].replace("a text", '"a text" and more')
    rows[3] = rows[3].replace("2026-05-04", "soon")
    path.write_text("\r\n".join([header, *rows, ""]), newline="")

    read = list(animus.read(path))

    assert [item.fields["id"] for item in of(read, "memory")] == ["m0", "m4"]
    assert [entry.place for entry in read if isinstance(entry, Fault)] == ["row 3", "row 4", "row 5"]


def test_a_row_of_a_csv_that_is_no_utf8_is_left_to_the_gate(path):
    path.write_bytes(as_csv([record("m1"), record("m2")]).encode().replace(b"a text", b"caf\xe9", 1))

    one, two = animus.read(path)

    assert one.fields["content"] == "caf\udce9"  # half a character, which no text may hold
    assert two.fields["content"] == "a text"


@pytest.mark.parametrize("indent", [None, 2])
def test_a_cut_snapshot_is_refused_before_the_first_memory(path, indent):
    text = json.dumps(snapshot([record(f"m{n}", "a text of mine") for n in range(5)]), indent=indent)
    path.write_text(text[: len(text) // 2])

    assert animus.matches(path)
    with pytest.raises(Invalid, match="cut") as caught:
        next(animus.read(path))
    assert caught.value.hint
    assert "of mine" not in caught.value.detail


@pytest.mark.parametrize("content", ["a text", 'a "quoted" text\n\nof lines'])
@pytest.mark.parametrize("cut", [3, 60, 85])
def test_a_cut_csv_is_refused_before_the_first_memory(path, content, cut):
    path.write_text(as_csv([record(f"m{n}", content) for n in range(5)])[:-cut], newline="")

    with pytest.raises(Invalid, match="cut"):
        next(animus.read(path))


def test_a_csv_without_a_last_line_break_is_whole(path):
    path.write_text(as_csv([record("m1")]).rstrip(), newline="")

    assert [type(entry) for entry in animus.read(path)] == [Item]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words",
        '{"label": "x", "timestamp": "2026-05-04T00:00:00", "memory_count": 0, "memories": []}',
        '{"kind": "memory", "id": "1", "content": "x", "type": "semantic"}',
        '[{"id": "1", "memory": "x", "user_id": "alice"}]',
        "id,content,type,created_at\n1,x,semantic,2026-05-04\n",
    ],
)
def test_other_files_are_not_taken_for_it(path, text):
    path.write_text(text)

    assert not animus.matches(path)


def test_a_folder_or_a_missing_file_is_not_taken_for_it(tmp_path):
    assert not animus.matches(tmp_path)
    assert not animus.matches(tmp_path / "missing")


def test_a_file_of_animus_is_not_taken_for_one_of_mem0(path):
    saved(path, record("m1"))
    assert not mem0.matches(path)
    path.write_text(as_csv([record("m1")]))
    assert not mem0.matches(path)
