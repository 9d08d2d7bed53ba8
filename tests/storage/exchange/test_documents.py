"""The JSON document: read a record at a time, refused where it is cut, newer or no JSON."""

from __future__ import annotations

import json

import pytest

from storage.errors import Invalid
from storage.exchange import documents
from storage.exchange.items import Fault, Item

DOCUMENT = {
    "format": "dreamd",
    "format_version": 1,
    "scope": "*",
    "memories": [
        {"kind": "memory", "id": "a", "content": "é \U0001f469\u200d\U0001f4bb"},
        {"id": "b", "content": "]}"},
    ],
    "edges": [{"kind": "edge", "a": "a", "b": "b", "weight": 1.5, "edge_kind": "next"}],
    "facts": [],
    "counts": {"memory": 2, "edge": 1},
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "export.json"


def saved(path, value, **options):
    path.write_text(value if isinstance(value, str) else json.dumps(value, **options), encoding="utf-8")
    return path


def refused(path):
    with pytest.raises(Invalid) as caught:
        list(documents.read(path))
    assert str(path) in caught.value.detail
    return caught.value.detail


@pytest.mark.parametrize("options", [{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}])
def test_every_layout_gives_the_same_items(path, options):
    memory, other, edge = documents.read(saved(path, DOCUMENT, **options))

    assert memory == Item("memory", "memories, record 1", {"id": "a", "content": "é \U0001f469\u200d\U0001f4bb"})
    assert other == Item("memory", "memories, record 2", {"id": "b", "content": "]}"})
    assert edge == Item("edge", "edges, record 1", {"a": "a", "b": "b", "weight": 1.5, "kind": "next"})


def test_a_document_is_read_in_pieces_whatever_its_length(path):
    texts = ["\\" * 700_000, "é" * 1_100_000, '"' * 300_000, *(f"note {number}" for number in range(5_000))]
    saved(path, {"memories": [{"content": text} for text in texts]}, ensure_ascii=False)

    assert [item.fields["content"] for item in documents.read(path)] == texts


def test_a_number_at_the_end_of_a_piece_is_read_whole(path):
    head = '{"format":"dreamd","format_version":1,"counts":{},"memories":['
    for shift in range(6):
        pad = " " * ((1 << 20) - len(head) - 3 - shift)
        saved(path, f'{head}{pad}123456,{{"content":"x"}}]}}')
        fault, item = documents.read(path)
        assert fault == Fault("memories, record 1", "it is no JSON object")
        assert item.fields == {"content": "x"}


def test_a_bare_list_of_memories_is_read(path):
    (item,) = documents.read(saved(path, [{"content": "x"}]))

    assert item == Item("memory", "memories, record 1", {"content": "x"})


def test_a_list_of_a_later_version_is_of_that_kind(path):
    (item, odd) = documents.read(saved(path, {"photos": [{"a": 1}], "Secret Words!": [{"a": 1}]}))

    assert item == Item("photos", "photos, record 1", {"a": 1})
    assert (odd.kind, odd.place) == ("other", "other, record 1")


def test_a_record_that_is_none_is_a_fault_and_the_rest_is_read(path):
    entries = list(
        documents.read(saved(path, {"memories": [3, {"content": "x"}, {"content": "y", "created_at": "soon"}]}))
    )

    assert entries[0] == Fault("memories, record 1", "it is no JSON object")
    assert entries[1].fields == {"content": "x"}
    assert entries[2].place == "memories, record 3"
    assert entries[2].detail.startswith("created_at: ")


def test_a_cut_document_is_refused_wherever_it_was_cut(path):
    whole = json.dumps(DOCUMENT)
    for length in range(1, len(whole)):
        saved(path, whole[:length])
        assert "is cut or no JSON" in refused(path), length


@pytest.mark.parametrize(
    "text",
    [
        '{"memories": [{"content": "x"} {"content": "y"}]}',
        '{"memories": [{"content": "x"}]} and more',
        '{"memories": [{"content": NaN}]}',
        "{memories: []}",
        "{1: []}",
        '{"memories" []}',
        '["' + "[" * 100_000,
        "[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_json_is_refused_as_a_whole(path, text):
    assert "is cut or no JSON" in refused(saved(path, text))


def test_bytes_that_are_no_utf_8_are_refused(path):
    path.write_bytes(b'[{"content": "\xff"}]')

    assert "not UTF-8" in refused(path)


def test_an_empty_file_is_refused(path):
    assert "is empty" in refused(saved(path, ""))


def test_records_that_are_missing_are_told_by_the_counts(path):
    assert "promises 4 records, and there are 3" in refused(saved(path, DOCUMENT | {"counts": {"memory": 4}}))


def test_a_newer_document_is_refused(path):
    assert "newer dreamd" in refused(saved(path, DOCUMENT | {"format_version": 2}))


@pytest.mark.parametrize(
    ("value", "ours", "like"),
    [
        (DOCUMENT, True, True),
        ({"memories": []}, False, True),
        ([{"content": "x"}], False, True),
        ([{"kind": "edge"}], False, True),
        ([{"memory": "x"}], False, False),
        ([], False, False),
        ({"format": "other"}, False, False),
        ({"content": "x"}, False, False),
        ("text", False, False),
        ('{"format": "dream', False, False),
    ],
)
def test_a_document_is_told_by_its_beginning(path, value, ours, like):
    saved(path, value)

    assert (documents.matches(path), documents.resembles(path)) == (ours, like)
    assert (documents.matches(path.parent), documents.resembles(path.parent)) == (False, False)
