"""Which format a file is in is told by what stands in it."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from typing import get_args

import pytest

from daemon.methods.exchange import ExportFormat, ImportFormat
from storage.errors import Invalid, NotFound
from storage.exchange.detect import READERS, source_of
from storage.exchange.writers import WRITERS
from tests.requirements import unprivileged

HEADER = '{"kind":"header","format":"dreamd","format_version":1,"counts":{}}\n'
DOCUMENT = '{"format":"dreamd","format_version":1,\n"memories":[\n{"kind":"memory","content":"x"}\n],"counts":{}}'
ANIMUS = {"id": "a", "content": "x", "memory_type": "semantic", "created_at": "2026-05-04T09:30:00"}


@pytest.mark.parametrize(
    ("name", "text", "format_", "whole"),
    [
        ("a", HEADER, "jsonl", True),
        ("a.txt", HEADER + '{"kind":"memory","content":"x"}\n', "jsonl", True),
        ("a", '{"content":"x"}\n', "jsonl", False),
        ("a", '{"kind":"memory","content":"x"}\n{"kind":"edge"}\n', "jsonl", False),
        ("a", 'oops\n{"kind":"memory","content":"x"}\n', "jsonl", False),
        ("a", DOCUMENT, "json", True),
        ("a", '{"memories":[{"content":"x"}]}', "json", False),
        ("a", '[{"content":"x"}]', "json", False),
        ("a.json", json.dumps({"results": [{"memory": "x", "user_id": "u"}]}), "mem0", False),
        ("a.json", json.dumps({"memories": [ANIMUS]}), "animus", False),
        ("a.jsonl", json.dumps(ANIMUS) + "\n", "animus", False),
        ("a", "id,content,memory_type,created_at,updated_at,tags,source,confidence,subtype\n", "animus", False),
        ("a", "content,author\nx,y\n", "csv", False),
        ("a.md", "# Notes\n", "text", False),
        ("a.TXT", "content of a text\n", "text", False),
    ],
)
def test_a_file_is_told_by_its_content(tmp_path, name, text, format_, whole):
    (tmp_path / name).write_text(text)
    source = source_of(tmp_path / name)

    assert (source.format, source.whole) == (format_, whole)
    assert source.read is READERS[format_]


def test_databases_of_other_systems_are_told(tmp_path):
    for name, tables in {
        "memories.db": ("memories (memory_id, text)", "edges (source_id, target_id)"),
        "agent.db": ("kv (key, value, base, sc_user)",),
    }.items():
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            for table in tables:
                connection.execute(f"CREATE TABLE {table}")

    assert source_of(tmp_path).format == "anchor"
    assert source_of(tmp_path / "memories.db").format == "anchor"
    assert source_of(tmp_path / "agent.db").format == "agentmaker"


def test_a_format_that_is_named_is_taken_at_its_word(tmp_path):
    (tmp_path / "a").write_text(HEADER)

    assert source_of(tmp_path / "a", "text").format == "text"
    assert source_of(tmp_path / "a", "jsonl").whole


def test_what_is_not_known_is_refused_and_the_formats_are_named(tmp_path):
    (tmp_path / "a b").write_bytes(b"\x00\x01")

    with pytest.raises(Invalid, match="no format that is known") as caught:
        source_of(tmp_path / "a b")
    assert "jsonl, json, csv, text" in caught.value.hint
    assert f"'{tmp_path}/a b'" in caught.value.hint


def test_paths_at_which_nothing_can_be_read_are_refused(tmp_path):
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for path, error, words in (
        (tmp_path / "none", NotFound, "no file"),
        (tmp_path / "empty", Invalid, "is empty"),
        (tmp_path / "pipe", Invalid, "neither a file nor a folder"),
        (tmp_path, Invalid, "is a folder"),
        ((tmp_path / "empty").relative_to("/"), Invalid, "not absolute"),
        (tmp_path / "a\0b", Invalid, "not absolute"),
        (tmp_path / ("x" * 300), Invalid, "cannot be read"),
    ):
        with pytest.raises(error, match=words) as caught:
            source_of(path)
        assert caught.value.hint


def test_a_file_that_the_daemon_may_not_read_is_refused(folder):
    folder.chmod(0o755)
    path = folder / "a.jsonl"
    path.write_text(HEADER)
    source_of(path)
    path.chmod(0)

    with unprivileged(), pytest.raises(Invalid, match="cannot be read by the daemon"):
        source_of(path)


def test_every_format_of_the_wire_has_a_reader_or_a_writer():
    assert set(get_args(ImportFormat)) == READERS.keys()
    assert set(get_args(ExportFormat)) == WRITERS.keys()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_and_what_to_do_about_it(tmp_path, encoding):
    mark = "" if encoding == "utf-16" else "\ufeff"
    (tmp_path / "a.txt").write_bytes(f"{mark}Käse".encode(encoding))

    with pytest.raises(Invalid, match="UTF-16") as caught:
        source_of(tmp_path / "a.txt")
    assert "UTF-8" in caught.value.hint
    assert "iconv" not in caught.value.hint
