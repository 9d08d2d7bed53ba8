"""What the write gate makes of a text, tags, a scope, an id and metadata, and what it refuses."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import Invalid, TooLarge
from storage.text import MAX_METADATA_BYTES, clean, clean_id, clean_metadata, clean_scope, clean_tags

WRITABLE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WRITABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WRITABLE, inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(WRITABLE, JSON, max_size=4)


def refused(call, *args, **options):
    with pytest.raises(Invalid) as caught:
        call(*args, **options)
    assert caught.value.hint
    return caught.value


def composed(value):
    match value:
        case str():
            return unicodedata.normalize("NFC", value)
        case list():
            return [composed(item) for item in value]
        case dict():
            return {composed(key): composed(item) for key, item in value.items()}
    return value


def nested(depth):
    value = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


@given(WRITABLE)
@settings(deadline=None)
def test_a_text_comes_out_in_nfc_and_otherwise_as_it_was(text):
    cleaned = clean(text, "content", max_bytes=1_000, blank_ok=True)
    assert cleaned == unicodedata.normalize("NFC", text)
    assert clean(cleaned, "content", max_bytes=1_000, blank_ok=True) == cleaned


@pytest.mark.parametrize(
    "text", ["  two  spaces \n", "\ttab", "a\r\nb", "\ufeffmark", "👩‍👩‍👧", "שלום", "日本語 ", "\x07bell"]
)
def test_blanks_line_ends_and_marks_are_kept_byte_for_byte(text):
    assert clean(text, "content", max_bytes=100).encode() == text.encode()


def test_a_decomposed_letter_is_composed():
    assert clean("cafe\u0301", "content", max_bytes=100) == "café"


@pytest.mark.parametrize(("text", "offset"), [("ab\ud800", 2), ("\udfffab", 0), ("a\0b", 1), ("é\ud83d x", 1)])
def test_a_lone_surrogate_or_nul_is_refused_with_its_offset(text, offset):
    error = refused(clean, text, "content", max_bytes=100)
    assert error.extra == {"field": "content", "offset": offset}
    assert f"character {offset}" in error.detail


@pytest.mark.parametrize(
    "text", ["", " ", "\n\t\r", "\u200b\u2060\ufeff", "\u3000\u00a0", "\u3164\u2800", "\x07", "\ufe0f"]
)
def test_a_text_that_shows_nothing_is_blank(text):
    error = refused(clean, text, "content", max_bytes=100)
    assert "blank" in error.detail
    assert clean(text, "context", max_bytes=100, blank_ok=True) == text


def test_the_limit_counts_bytes_of_the_composed_text():
    assert clean("é" * 5, "content", max_bytes=10) == "é" * 5
    assert clean("e\u0301" * 5, "content", max_bytes=10) == "é" * 5
    with pytest.raises(TooLarge) as caught:
        clean("é" * 6, "content", max_bytes=10)
    assert caught.value.extra == {"field": "content", "size_bytes": 12, "limit_bytes": 10}
    assert "12" in caught.value.detail
    assert "10" in caught.value.detail


@pytest.mark.parametrize("value", [None, 3, b"bytes", ["list"]])
def test_what_is_no_text_is_refused(value):
    assert refused(clean, value, "content", max_bytes=100).extra["field"] == "content"


def test_an_error_never_quotes_the_text():
    assert "hunter2" not in refused(clean, "hunter2\0", "content", max_bytes=100).detail
    assert "hunter2" not in refused(clean_metadata, {"my hunter2 key": float("nan")}).detail


def test_tags_are_trimmed_lowered_and_listed_once_in_their_order():
    assert clean_tags([" Work ", "URGENT", "work", "Äpfel", "A\u0308pfel"]) == ("work", "urgent", "äpfel")
    assert clean_tags([]) == ()


@given(st.lists(WRITABLE, max_size=5))
@settings(deadline=None)
def test_clean_tags_stay_as_they_are(tags):
    try:
        once = clean_tags(tags)
    except Invalid:
        return
    assert clean_tags(once) == once
    assert len(set(once)) == len(once)


@pytest.mark.parametrize(
    "tags", [["fine", " "], ["\u200b"], ["a" * 129], [f"t{n}" for n in range(65)], "text", [3], ["a\0"], ["\ud800"]]
)
def test_bad_tags_are_refused(tags):
    assert refused(clean_tags, tags).extra["field"] == "tags"


def test_the_limits_of_tags_are_inclusive():
    assert clean_tags(["a" * 128]) == ("a" * 128,)
    assert len(clean_tags([f"t{n}" for n in range(64)] * 2)) == 64


@pytest.mark.parametrize(
    ("scope", "cleaned"),
    [
        ("default", "default"),
        (" alice / coder ", "alice/coder"),
        ("Alice/日本", "Alice/日本"),
        ("cafe\u0301", "café"),
        ("a" * 256, "a" * 256),
    ],
)
def test_a_scope_is_trimmed_in_each_segment_and_keeps_its_case(scope, cleaned):
    assert clean_scope(scope) == cleaned


@pytest.mark.parametrize(
    "scope",
    ["", " ", "/", "a/", "/a", "a//b", "a/ /b", "*", "a/*", "a\nb", "a\x07", "a\u200bb", "a" * 257, "a\0", None],
)
def test_a_bad_scope_is_refused(scope):
    assert refused(clean_scope, scope).extra["field"] == "scope"


@given(WRITABLE)
@settings(deadline=None)
def test_a_clean_scope_stays_as_it_is_and_has_no_empty_segment(scope):
    try:
        once = clean_scope(scope)
    except Invalid:
        return
    assert clean_scope(once) == once
    assert all(segment.strip() for segment in once.split("/"))


@pytest.mark.parametrize("memory", ["a", "note-1", "ünïcode", "日本", "with space", "a" * 128])
def test_a_printable_id_is_kept(memory):
    assert clean_id(memory) == memory


@pytest.mark.parametrize(
    "memory", ["", " ", "a\nb", "a\tb", "a\0", "\ud800", "a\u200b", "a\u2028", "\x7f", "a" * 129, 7]
)
def test_a_bad_id_is_refused(memory):
    assert refused(clean_id, memory).extra["field"] == "id"


@given(OBJECTS)
@settings(deadline=None)
def test_metadata_keeps_its_values_in_nfc(value):
    try:
        once = clean_metadata(value)
    except Invalid as error:
        assert "NFC" in error.detail  # noqa: PT017
        return
    assert json.dumps(once) == json.dumps(composed(value))
    assert clean_metadata(once) == once


def test_null_values_and_empty_containers_stay():
    value = {"a": None, "b": [], "c": {}, "d": [None, {"e": None}], "f": False, "g": 0, "h": ""}
    assert clean_metadata(value) == value


def test_metadata_is_copied_not_shared():
    value = {"a": [1, {"b": 2}]}
    cleaned = clean_metadata(value)
    value["a"][1]["b"] = 3
    assert cleaned == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {1: "a"},
        {"a": float("nan")},
        {"a": [1, float("inf")]},
        {"a": {"b": -float("inf")}},
        {"a": 2**63},
        {"a": -(2**63) - 1},
        {"a": "x\0"},
        {"a": ["\ud800"]},
        {"a\0": 1},
        {"\udc00": 1},
        {"a": b"bytes"},
        {"a": {1, 2}},
        {"a": (1, 2)},
        {"é": 1, "e\u0301": 2},
        nested(17),
    ],
)
def test_what_is_no_storable_json_object_is_refused(value):
    assert refused(clean_metadata, value).extra["field"] == "metadata"


def test_nesting_is_allowed_to_sixteen_and_counts_lists():
    assert clean_metadata(nested(16)) == nested(16)
    value = {"a": []}
    for _ in range(16):
        value = {"a": [value]}
    assert "deeper than 16" in refused(clean_metadata, value).detail


def test_the_error_names_the_place_in_metadata():
    assert "metadata.a.b[1]" in refused(clean_metadata, {"a": {"b": [1.0, float("nan")]}}).detail


def test_metadata_over_its_limit_is_too_large():
    assert clean_metadata({"a": "x" * (MAX_METADATA_BYTES - 8)})
    with pytest.raises(TooLarge) as caught:
        clean_metadata({"a": "x" * (MAX_METADATA_BYTES - 7)})
    assert caught.value.extra["limit_bytes"] == MAX_METADATA_BYTES
