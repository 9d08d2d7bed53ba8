"""JSON lines: of ours with a header, of a person without one; what is cut or newer is refused as a whole."""

from __future__ import annotations

import json

import pytest

from storage.errors import Invalid
from storage.exchange import jsonl
from storage.exchange.items import Fault, Item

HEADER = {"kind": "header", "format": "dreamd", "format_version": 1, "counts": {"memory": 2, "edge": 1}}
LINES = [
    {"kind": "memory", "id": "a", "content": "one", "created_at": "2026-05-04T09:30:00", "event_at": None},
    {"kind": "memory", "id": "b", "content": "two", "created_at": "2026-05-04T11:30:00+02:00"},
    {"kind": "edge", "a": "a", "b": "b", "weight": 1.5, "edge_kind": "manual", "as_of": "2026-05-04"},
]
MAY_4 = 1_777_852_800.0
HALF_PAST_NINE = MAY_4 + 9.5 * 3600


@pytest.fixture
def path(tmp_path):
    return tmp_path / "export.jsonl"


def written(path, *lines, end="\n"):
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end, newline="")
    return path


def refused(path):
    with pytest.raises(Invalid) as caught:
        list(jsonl.read(path))
    assert caught.value.hint
    assert str(path) in caught.value.detail
    return caught.value.detail


def test_each_line_is_an_item_and_naive_times_are_utc(path):
    first, second, edge = jsonl.read(written(path, HEADER, *LINES))

    assert first == Item("memory", "line 2", {"id": "a", "content": "one", "created_at": HALF_PAST_NINE})
    assert second.fields["created_at"] == HALF_PAST_NINE
    assert edge == Item("edge", "line 4", {"a": "a", "b": "b", "weight": 1.5, "kind": "manual", "as_of": MAY_4})


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_blank_lines_and_a_mark_in_front_do_not_matter(path, end, mark):
    lines = [json.dumps(line) for line in (HEADER, *LINES)]
    path.write_text(mark + "\r\n\r\n".join(lines) + end, newline="")

    assert [item.kind for item in jsonl.read(path)] == ["memory", "memory", "edge"]
    assert jsonl.matches(path)


def test_one_bad_line_among_thousands_is_told_and_the_others_are_read(path):
    lines = [{"kind": "memory", "content": f"note {number}"} for number in range(3_000)]
    lines[1_234] = '{"kind": "memory", "content": "a secret word'
    entries = list(jsonl.read(written(path, *lines)))

    (fault,) = [entry for entry in entries if isinstance(entry, Fault)]
    assert len(entries) == 3_000
    assert fault == entries[1_234]
    assert fault.place == "line 1235"
    assert "column" in fault.detail
    assert "secret" not in fault.detail


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("[1]", "it is no JSON object"),
        ('{"id": "a"}', "it says no kind, and has no content"),
        ('{"kind": 3}', "it says no kind, and has no content"),
        ('{"content": "x", "importance": NaN}', "it is no JSON: it holds a number that is none, or too long"),
        ('{"content": "x", "importance": 1' + "0" * 5_000 + "}", "it is no JSON: it holds a number that is none, or too long"),
        ("[" * 100_000, "it is no JSON: it is nested too deeply"),
        ('{"content": "x", "created_at": "in May"}', "created_at: not an RFC 3339 time; write 2026-05-04T09:30:00Z"),
        ('{"content": "x", "created_at": "9999-12-31T23:59:59-14:00"}', "created_at: a time outside"),
        ('{"content": "x", "expires_at": "0000-01-01"}', "expires_at: not an RFC 3339 time"),
        ('{"kind": "header"}', "a header stands in the first line alone"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_fault_with_its_place(path, line, detail):
    good, fault, other = jsonl.read(written(path, {"content": "x"}, line, {"content": "y"}))

    assert isinstance(fault, Fault)
    assert fault.place == "line 2"
    assert fault.detail.startswith(detail)
    assert [good.fields["content"], other.fields["content"]] == ["x", "y"]


def test_bytes_that_are_no_utf_8_are_a_fault(path):
    path.write_bytes(b'{"content": "x"}\n{"content": "\xff"}\n')

    assert list(jsonl.read(path))[1] == Fault("line 2", "it is no JSON: it is not UTF-8")


def test_a_line_that_is_too_long_is_a_fault_and_the_next_one_is_read(path, tmp_path):
    with path.open("wb") as file:
        file.write(b'{"content": "')
        file.seek(jsonl.MAX_LINE_BYTES + 10)
        file.write(b'"}\n{"content": "next"}\n')

    fault, item = jsonl.read(path)
    assert fault == Fault("line 1", "the line is longer than 64 MiB")
    assert item.fields == {"content": "next"}


def test_a_kind_of_a_later_version_is_an_item_of_that_kind(path):
    photo, odd = jsonl.read(written(path, {"kind": "photo", "a": 1}, {"kind": "Sk-ant secret!", "a": 1}))

    assert photo == Item("photo", "line 1", {"a": 1})
    assert odd.kind == "other"


def test_a_cut_file_is_refused_wherever_it_was_cut(path):
    """A cut right before a line end leaves all lines: only that one is read."""
    whole = written(path, HEADER, *LINES).read_bytes()
    header = len(whole.split(b"\n")[0])
    for length in range(header, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "cut" in refused(path), length
    path.write_bytes(whole[:-1])
    assert len(list(jsonl.read(path))) == 3


def test_lines_that_were_added_are_read_and_lines_that_were_taken_out_are_told(path):
    assert len(list(jsonl.read(written(path, HEADER, *LINES, {"content": "mine"})))) == 4
    assert "promises 3 records, and there are 2" in refused(written(path, HEADER, *LINES[:2]))


def test_a_file_of_a_newer_format_is_refused(path):
    detail = refused(written(path, HEADER | {"format_version": 2}, *LINES))

    assert "newer dreamd" in detail


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"format_version": "1"},
        {"format_version": True},
        {"counts": None},
        {"counts": {"memory": -1}},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(path, change):
    assert "header" in refused(written(path, HEADER | change, *LINES))


@pytest.mark.parametrize("content", ["", "\n", " \n\n"])
def test_an_empty_file_is_refused(path, content):
    path.write_text(content)

    assert "is empty" in refused(path)


def test_an_export_of_nothing_holds_a_header_alone(path):
    assert list(jsonl.read(written(path, HEADER | {"counts": {"memory": 0}}))) == []


@pytest.mark.parametrize(
    ("line", "ours", "like"),
    [
        (HEADER, True, True),
        (HEADER | {"format_version": 9}, True, True),
        (HEADER | {"format": "other"}, False, True),
        ({"content": "x"}, False, True),
        ({"memory": "x"}, False, False),
        ("plain text", False, False),
    ],
)
def test_a_file_is_told_by_its_first_line(path, line, ours, like):
    written(path, line, {"other": 1})

    assert (jsonl.matches(path), jsonl.resembles(path)) == (ours, like)
    assert (jsonl.matches(path.parent), jsonl.resembles(path.parent)) == (False, False)
