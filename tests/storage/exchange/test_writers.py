"""The formats as they are written, and the order in which things stand in them."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.exchange.forms import PLURALS
from storage.exchange.items import KINDS
from storage.exchange.survey import SORTED, _in_order
from storage.exchange.writers import WRITERS

ABOUT = {"version": "1", "exported_at": "2026-05-04T09:30:00Z", "scope": "ä"}


def written(name, records, counts):
    file = io.StringIO()
    writer = WRITERS[name](file, ABOUT)
    for kind in records:
        writer.write({"kind": kind, "n": 1})
    writer.end(counts)
    return file.getvalue()


@given(st.lists(st.sampled_from(KINDS), max_size=9), st.fixed_dictionaries(dict.fromkeys(KINDS, st.integers(0, 10**9))))
def test_whatever_there_is_every_format_of_json_is_whole(kinds, counts):
    records = sorted(kinds, key=KINDS.index)
    lines = written("jsonl", records, counts)
    document = json.loads(written("json", records, counts))

    header, *told = [json.loads(line) for line in lines.removesuffix("\n").split("\n")]
    assert header == {"kind": "header", "format": "dreamd", "format_version": 1, **ABOUT, "counts": counts}
    assert [one["kind"] for one in told] == records
    assert [one["kind"] for name in PLURALS.values() for one in document[name]] == records
    assert document["counts"] == counts
    assert list(document) == ["format", "format_version", *ABOUT, *PLURALS.values(), "counts"]


def test_a_document_is_a_record_a_line():
    text = written("json", ["memory", "memory", "edge"], {})

    assert '"memories":[\n{"kind":"memory","n":1},\n{"kind":"memory","n":1}\n],\n"versions":[\n],\n"edges":[\n{' in text


@pytest.mark.parametrize("name", WRITERS)
def test_a_format_says_what_it_has_a_place_for(name):
    assert WRITERS[name](io.StringIO(), ABOUT).kinds == (("memory",) if name == "csv" else KINDS)


@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=2)), max_size=30))
def test_what_is_sorted_in_parts_is_sorted(items):
    assert list(_in_order(items * SORTED)) == sorted(items * SORTED)
