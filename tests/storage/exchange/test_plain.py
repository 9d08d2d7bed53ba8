"""Plain text: a memory a paragraph."""

from __future__ import annotations

import pytest

from storage.errors import Invalid
from storage.exchange import plain
from storage.model import MAX_CONTENT_BYTES


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.md"


def contents(path, text):
    path.write_bytes(text.encode())
    return [(item.place, item.fields) for item in plain.read(path)]


def test_paragraphs_are_parted_by_blank_lines_and_stay_as_they_are_within(path):
    text = "\ufeff\n\nAda keeps bees.\n  Three hives. \n \t\n\n日本語の段落\r\nzweite Zeile\r\n\r\n# last"

    assert contents(path, text) == [
        ("line 3", {"content": "Ada keeps bees.\n  Three hives. "}),
        ("line 7", {"content": "日本語の段落\r\nzweite Zeile"}),
        ("line 10", {"content": "# last"}),
    ]


def test_a_long_line_is_one_memory(path):
    assert contents(path, "x" * MAX_CONTENT_BYTES + "\n\nnext") == [
        ("line 1", {"content": "x" * MAX_CONTENT_BYTES}),
        ("line 3", {"content": "next"}),
    ]


def test_of_a_paragraph_that_is_too_long_enough_is_kept_to_be_refused(path):
    (_, first), (place, second) = contents(path, "x\n" * (2 * MAX_CONTENT_BYTES) + "\nnext")

    assert MAX_CONTENT_BYTES < len(first["content"].encode()) <= 3 * MAX_CONTENT_BYTES
    assert (place, second) == (f"line {2 * MAX_CONTENT_BYTES + 2}", {"content": "next"})


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_a_file_in_which_nothing_stands_is_refused(path, text):
    with pytest.raises(Invalid, match="is empty"):
        contents(path, text)


def test_a_file_that_is_no_utf_8_is_refused(path):
    path.write_bytes("Käse\n".encode("latin-1"))

    with pytest.raises(Invalid, match="not UTF-8") as caught:
        list(plain.read(path))
    assert "iconv" in caught.value.hint


@pytest.mark.parametrize(("name", "text"), [("a.TXT", True), ("a.markdown", True), ("a.csv", False), ("a", False)])
def test_text_is_told_by_the_name_of_the_file(tmp_path, name, text):
    (tmp_path / name).write_text("x")

    assert plain.matches(tmp_path / name) is text
    assert not plain.matches(tmp_path)
