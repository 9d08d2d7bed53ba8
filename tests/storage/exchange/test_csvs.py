"""CSV: every text comes back as it was, and none of them is a formula to a spreadsheet."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import Invalid
from storage.exchange import csvs
from storage.exchange.forms import MEMORY_FIELDS, of_memory
from storage.exchange.items import Fault, Item
from storage.exchange.telling import item_of
from storage.model import Memory

MARKS = ("=", "+", "-", "@", "\t", "\r")
texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("'=+-@\t\r\n\",;")), max_size=20)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "export.csv"


def rows_of(memories):
    file = io.StringIO(newline="")
    csvs.header_row(file)
    for memory in memories:
        csvs.row(file, of_memory(memory, memory.superseded_by))
    return file.getvalue()


def saved(path, text):
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=5))
def test_every_text_comes_back_as_it_was(tmp_path_factory, told):
    memories = [
        Memory(
            id=f"m{number}",
            content=content,
            author=author,
            context=context,
            tags=(author,),
            metadata={content: context},
        )
        for number, (content, author, context) in enumerate(told)
    ]
    path = saved(tmp_path_factory.mktemp("csv") / "x.csv", rows_of(memories))

    for memory, item in zip(memories, csvs.read(path), strict=True):
        expected = item_of(of_memory(memory, None), item.place)
        assert isinstance(expected, Item)
        # An empty cell says nothing, which for a text is the same.
        assert item.fields == {name: value for name, value in expected.fields.items() if value != ""}


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("apostrophes", ["", "'", "''"])
def test_no_cell_begins_as_a_formula_does(path, mark, apostrophes):
    text = f"{apostrophes}{mark}HYPERLINK(1)"
    saved(path, rows_of([Memory(id=text, content=text, author=text, context=text, scope=text, change_summary=text)]))

    with path.open(newline="") as file:
        _, cells = csv.reader(file)
    assert not [cell for cell in cells if cell.startswith(MARKS)]
    (item,) = csvs.read(path)
    assert {item.fields[name] for name in ("id", "content", "author", "context", "scope", "change_summary")} == {text}


def test_an_apostrophe_of_ones_own_stays(path):
    saved(path, rows_of([Memory(id="m", content="'tis so")]))

    assert "'tis so" in path.read_text()
    assert [item.fields["content"] for item in csvs.read(path)] == ["'tis so"]


def test_the_columns_are_the_fields_of_a_memory(path):
    saved(path, rows_of([]))

    assert path.read_bytes() == (",".join(MEMORY_FIELDS) + "\r\n").encode()
    assert list(csvs.read(path)) == []


def test_a_table_that_a_person_made_is_read(path):
    saved(
        path,
        "\ufeffcontent, tags ,pinned,importance,mood,created_at\n"
        "eats nuts,a; b,Yes,0.9,sunny,2026-05-04\n"
        'line one\nstill none,"c,d",0,,,\n'.replace("line one\n", '"line one\n').replace("none,", 'none",'),
    )

    first, second = csvs.read(path)
    assert first == Item("memory", "line 2", {
        "content": "eats nuts", "tags": ["a", "b"], "pinned": True, "importance": 0.9, "mood": "sunny",
        "created_at": 1_777_852_800.0,
    })  # fmt: skip
    assert second == Item("memory", "line 3", {"content": "line one\nstill none", "tags": ["c", "d"], "pinned": False})


def test_a_cell_that_should_be_json_and_is_not_is_left_for_the_check(path):
    (item,) = csvs.read(saved(path, "content,importance,metadata\nx,high,{oops\n"))

    assert item.fields == {"content": "x", "importance": "high", "metadata": "{oops"}


def test_a_bad_row_is_told_and_the_others_are_read(path):
    entries = list(csvs.read(saved(path, 'content,author\nx,a\nonly one\n"y"z,b\n\nlast,c\nw,d,e\n')))

    assert [entry.place for entry in entries] == ["line 2", "line 3", "line 4", "line 6", "line 7"]
    faults = [entry for entry in entries if isinstance(entry, Fault)]
    assert [fault.place for fault in faults] == ["line 3", "line 4", "line 7"]
    assert faults[0].detail == "it has 1 cells, and the first row has 2"
    assert "z" not in faults[1].detail.split()


def test_a_row_that_is_no_utf_8_is_told_as_such_and_the_others_are_read(path):
    path.write_bytes(b"content,mood\nK\xe4se,fine\nx,fr\xf6hlich\ny,fine\n")

    *faults, item = csvs.read(path)
    assert faults == [Fault("line 2", "it is not UTF-8"), Fault("line 3", "it is not UTF-8")]
    assert item.fields["content"] == "y"


def test_a_cut_table_is_refused_wherever_it_was_cut_within_a_row(path):
    text = rows_of([Memory(id=f"m{n}", content="one\r\ntwo", content_hash="f" * 64) for n in range(2)]).encode()
    lines = text.splitlines(keepends=True)
    ends = [sum(map(len, lines[:count])) for count in (1, 3, 5)]
    whole = {end - missing for end in ends for missing in (0, 1, 2)}  # all but the line end, of which nothing is missed
    for length in range(ends[0], len(text)):
        path.write_bytes(text[:length])
        if length in whole:
            list(csvs.read(path))
        else:
            with pytest.raises(Invalid, match="cut"):
                list(csvs.read(path))


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("", "is empty"),
        ("id,author\na,b\n", "does not name its columns"),
        ("content,content\na,b\n", "does not name its columns"),
        ('"content', "is cut"),
    ],
)
def test_a_table_without_names_is_refused(path, text, detail):
    with pytest.raises(Invalid, match=detail):
        list(csvs.read(saved(path, text)))


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("content\nx\n", True),
        ("id,content,My Column\n", True),
        ("id,author\n", False),
        ('{"content": 1}\n', False),
        ("the content, of it all; and more\n", False),
        ("", False),
    ],
)
def test_a_table_is_told_by_its_first_row(path, text, table):
    assert csvs.matches(saved(path, text)) is table
    assert not csvs.matches(path.parent)


@pytest.mark.parametrize(
    "text",
    [
        "content;tags;author\nx, y;a,b;Ada\n",
        "content\ttags\tauthor\r\nx, y\ta,b\tAda\r\n",
        'sep=,\ncontent,tags,author\n"x, y","a,b",Ada\n',
        "sep=;\r\ncontent;tags;author\r\nx, y;a,b;Ada\r\n",
        'Content,TAGS,Author\n"x, y","a,b",Ada\n',
        '\ufeffsep=;\nCONTENT;Tags;author\n\n;;\n;  ;\n"x, y";"a,b";Ada\n;;\n',
    ],
)
def test_tables_as_spreadsheets_save_them_are_read(path, text):
    saved(path, text)

    assert csvs.matches(path)
    assert [item.fields for item in csvs.read(path)] == [{"content": "x, y", "tags": ["a", "b"], "author": "Ada"}]


def test_a_cell_longer_than_any_record_is_told_and_the_others_are_read(path):
    saved(path, f'content\n"{"x" * (csvs.MAX_LINE_BYTES + 10)}"\nlast\n')
    fault, *_, last = csvs.read(path)

    assert isinstance(fault, Fault)
    assert last.fields == {"content": "last"}
