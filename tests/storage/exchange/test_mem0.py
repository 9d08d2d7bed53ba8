"""What mem0's `get_all` gives, in each shape that it is saved in."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from storage.errors import Invalid
from storage.exchange import animus, mem0
from storage.exchange.items import Fault, Item

MAY_4 = datetime(2026, 5, 4, 9, 30, tzinfo=UTC).timestamp()
RECORD = {
    "id": "8d2c1f9e-5e1b-4d4f-9c53-0f4f7f0f7c11",
    "memory": "Allergic to peanuts 🥜 — 对花生过敏, cafe\u0301",
    "hash": "0cc175b9c0f1b6a831c399e269772661",
    "metadata": {"category": "health", "nothing": None},
    "created_at": "2026-05-04T02:30:00-07:00",
    "updated_at": "2026-05-04T09:30:00",
    "user_id": "alice",
    "agent_id": "coder",
    "run_id": "run-7",
    "actor_id": "Bob",
    "role": "user",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "export.json"


def saved(path, *records, indent=None):
    path.write_text(json.dumps({"results": list(records)}, indent=indent, ensure_ascii=False))
    return list(mem0.read(path))


def line(number, **fields):
    return json.dumps({"id": f"m{number}", "memory": f"memory {number}", "user_id": "alice", **fields})


def test_a_memory_keeps_its_text_owner_times_and_author(path):
    (item,) = saved(path, RECORD)

    assert item.kind == "memory"
    assert item.fields == {
        "id": RECORD["id"],
        "content": RECORD["memory"],
        "author": "Bob",
        "session": "run-7",
        "scope": "alice/coder/run-7",
        "tier": "long",
        "created_at": MAY_4,
        "updated_at": MAY_4,
        "provenance": "import",
        "metadata": {"category": "health", "nothing": None, "hash": RECORD["hash"], "role": "user"},
    }


@pytest.mark.parametrize("name", ["results", "memories"])
@pytest.mark.parametrize("indent", [None, 2])
def test_every_shape_of_the_export_gives_the_same_memories(path, name, indent):
    expected = saved(path, RECORD, RECORD | {"id": "second"})
    shapes = [
        json.dumps({name: [RECORD, RECORD | {"id": "second"}], "count": 2, "next": None}, indent=indent),
        json.dumps([RECORD, RECORD | {"id": "second"}], indent=indent),
        json.dumps(RECORD) + "\n" + json.dumps(RECORD | {"id": "second"}) + "\n",
        "\ufeff" + json.dumps(RECORD) + "\r\n\r\n" + json.dumps(RECORD | {"id": "second"}),
        json.dumps({name: [RECORD]}) + "\n" + json.dumps({name: [RECORD | {"id": "second"}]}),
    ]
    for shape in shapes:
        path.write_text(shape, newline="")
        assert mem0.matches(path)
        assert [item.fields for item in mem0.read(path)] == [item.fields for item in expected]


@pytest.mark.parametrize("indent", [None, 2])
def test_one_memory_alone_is_read_too(path, indent):
    path.write_text(json.dumps(RECORD, indent=indent))

    assert mem0.matches(path)
    assert [item.fields["id"] for item in mem0.read(path)] == [RECORD["id"]]


def test_an_export_of_the_hosted_service_keeps_its_fields(path):
    (item,) = saved(
        path,
        {
            "id": "m1", "memory": "Her Pro trial ends soon", "user_id": "alice", "app_id": "shop",
            "categories": ["Billing", "trial"], "created_at": "2026-05-04T09:30:00Z", "updated_at": None,
            "expiration_date": "2030-01-31", "immutable": False, "owner": "org-1",
            "structured_attributes": {"day": 4, "quarter": 2}, "metadata": None,
        },
    )  # fmt: skip

    assert item.fields["tags"] == ["Billing", "trial"]
    assert item.fields["scope"] == "shop/alice"
    assert item.fields["expires_at"] == datetime(2030, 2, 1, tzinfo=UTC).timestamp()  # its last day counts
    assert item.fields["metadata"] == {
        "immutable": False, "owner": "org-1", "structured_attributes": {"day": 4, "quarter": 2},
    }  # fmt: skip
    assert "updated_at" not in item.fields


def test_a_procedure_is_one(path):
    (item,) = saved(path, RECORD | {"metadata": {"memory_type": "procedural_memory"}})

    assert item.fields["type"] == "procedural"
    assert item.fields["metadata"]["memory_type"] == "procedural_memory"


def test_unknown_fields_are_kept_and_overwrite_nothing(path):
    (item,) = saved(path, RECORD | {"mood": "sunny", "score": 0.5, "metadata": {"mood": "grey"}})

    assert item.fields["metadata"] == {
        "mood": "grey", "mood_2": "sunny", "score": 0.5, "hash": RECORD["hash"], "role": "user",
    }  # fmt: skip


def test_one_bad_line_among_thousands_is_a_fault_and_all_others_are_read(path):
    lines = [line(number) for number in range(3000)]
    lines[1234] = '{"id": "m1234", "memory": "half a li'
    path.write_text("\n".join(lines))

    read = list(mem0.read(path))

    faults = [entry for entry in read if isinstance(entry, Fault)]
    assert [fault.place for fault in faults] == ["line 1235"]
    assert "half a li" not in faults[0].detail
    assert [item.fields["id"] for item in read if isinstance(item, Item)] == [f"m{n}" for n in range(3000) if n != 1234]


@pytest.mark.parametrize("bad", ["half a li", '{"id": "m0", "memory":', "\ufffe", '"text"', "7", "null"])
def test_a_bad_first_line_hides_none_of_the_others(path, bad):
    path.write_text(bad + "\n" + line(1) + "\n" + line(2) + "\n")

    assert mem0.matches(path)
    assert [entry.fields["id"] for entry in mem0.read(path) if isinstance(entry, Item)] == ["m1", "m2"]
    assert [entry.place for entry in mem0.read(path) if isinstance(entry, Fault)] == ["line 1"]


def test_a_line_that_is_no_utf8_is_a_fault_and_the_rest_goes_on(path):
    path.write_bytes(line(1).encode() + b'\n{"id": "m2", "memory": "caf\xe9"}\n' + line(3).encode())

    assert [type(entry) for entry in mem0.read(path)] == [Item, Fault, Item]


def test_a_line_nested_without_end_is_a_fault_and_the_rest_goes_on(path):
    path.write_text(line(1) + "\n" + '{"memory": ' + "[" * 200_000 + "\n" + line(3) + "\n")

    assert [type(entry) for entry in mem0.read(path)] == [Item, Fault, Item]


@pytest.mark.parametrize("text", [None, "", "  ", 7, ["a"]])
def test_seed_1_7_4_a_record_without_a_text_is_a_fault_and_the_rest_goes_on(path, text):
    read = saved(path, RECORD | {"id": "a"}, RECORD | {"memory": text}, RECORD | {"id": "c"})

    assert [type(entry) for entry in read] == [Item, Fault, Item]
    assert read[1].place == "line 1, record 2"
    assert read[1].detail.startswith("memory ")


@pytest.mark.parametrize("name", ["created_at", "updated_at", "expiration_date"])
@pytest.mark.parametrize("time", ["soon", "99999-01-01", "2026-13-45T00:00:00", 1e300, True])
def test_a14_an_absurd_time_is_a_fault_and_the_rest_goes_on(path, name, time):
    read = saved(path, RECORD | {"id": "a"}, RECORD | {name: time}, RECORD | {"id": "c"})

    assert [type(entry) for entry in read] == [Item, Fault, Item]
    assert read[1].detail.startswith(f"{name}: ")


def test_a_record_that_is_no_object_is_a_fault(path):
    read = saved(path, RECORD, 7, None, ["a"])

    assert [type(entry) for entry in read] == [Item, Fault, Fault, Fault]


def test_relations_between_entities_are_counted_as_left_out(path):
    path.write_text(
        json.dumps({"results": [RECORD], "relations": [{"source": "a", "relationship": "b", "target": "c"}]})
    )

    assert [type(entry) for entry in mem0.read(path)] == [Item, Fault]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_cut_document_is_refused_before_the_first_memory(path, indent):
    text = json.dumps({"results": [RECORD] * 5}, indent=indent)
    path.write_text(text[: len(text) // 2])

    assert mem0.matches(path)
    with pytest.raises(Invalid, match="cut") as caught:
        next(mem0.read(path))
    assert caught.value.hint
    assert "peanuts" not in caught.value.detail


def test_a_file_of_lines_that_ends_within_one_is_refused_before_the_first_memory(path):
    path.write_text(line(1) + "\n" + line(2) + "\n" + line(3)[:-9])

    with pytest.raises(Invalid, match="cut"):
        next(mem0.read(path))


def test_a_last_line_that_is_merely_wrong_is_a_fault(path):
    path.write_text(line(1) + "\n" + "# the end")

    assert [type(entry) for entry in mem0.read(path)] == [Item, Fault]


def test_owners_that_look_alike_do_not_share_a_scope(path):
    read = saved(
        path, *(RECORD | {"id": str(n), "user_id": user} for n, user in enumerate(["a/b", "a-b", "*", "x" * 300]))
    )

    scopes = [item.fields["scope"] for item in read]
    assert len(set(scopes)) == 4
    assert scopes[1] == "a-b/coder/run-7"
    assert read[0].fields["metadata"]["user_id"] == "a/b"


def test_numbers_as_ids_are_ids(path):
    (item,) = saved(path, {"id": 42, "memory": "hello", "user_id": 7, "hash": "x"})

    assert (item.fields["id"], item.fields["scope"]) == ("42", "7")


def test_a_long_first_record_is_recognised(path):
    path.write_text(json.dumps({"results": [RECORD | {"memory": "long " * 50_000}] * 20}, indent=1))

    assert mem0.matches(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words",
        "[]",
        "{}",
        '{"results": []}',
        '{"kind": "header", "format": "dreamd"}\n{"kind": "comment", "memory": "a", "created_at": "2026-05-04"}\n',
        '{"kind": "comment", "memory": "a", "created_at": "2026-05-04"}\n',
        '{"memory": "a word of another program"}',
        '[{"id": "1", "content": "x", "memory_type": "semantic", "created_at": "2026-05-04T00:00:00"}]',
        "id,memory,hash\n1,2,3\n",
        "\x00\x01\x02",
    ],
)
def test_other_files_are_not_taken_for_it(path, text):
    path.write_text(text)

    assert not mem0.matches(path)


def test_a_folder_or_a_missing_file_is_not_taken_for_it(tmp_path):
    assert not mem0.matches(tmp_path)
    assert not mem0.matches(tmp_path / "missing")


def test_an_export_of_mem0_is_not_taken_for_one_of_animus(path):
    saved(path, RECORD)

    assert not animus.matches(path)
