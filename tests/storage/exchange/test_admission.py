"""Nothing of a file is kept which has not passed the gate."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.exchange.admission import passed
from storage.exchange.items import Item
from storage.gate import Gate
from storage.model import MAX_CONTENT_BYTES
from tests.storage.opened import KEYWORDS, REDACTOR

SECRET = "sk-ant-" + "a1b2c3d4" * 5
MASK = "[REDACTED:anthropic_key]"
GATE = Gate(REDACTOR, None, KEYWORDS, levels={"(?i)chemo": "secret"}, default="personal")


def admitted(kind="memory", /, **fields):
    return passed(Item(kind, "line 1", fields), GATE.admit, "personal", GATE.kinds)


@pytest.mark.parametrize(
    ("kind", "name", "others"),
    [
        ("memory", "content", {}),
        ("memory", "context", {"content": "x"}),
        ("memory", "author", {"content": "x"}),
        ("memory", "session", {"content": "x"}),
        ("memory", "subtype", {"content": "x"}),
        ("memory", "change_summary", {"content": "x"}),
        ("memory", "forgotten_reason", {"content": "x", "forgotten_at": 1.0}),
        ("version", "content", {"memory": "m", "number": 1}),
        ("version", "context", {"memory": "m", "number": 1, "content": "x"}),
        ("version", "change_summary", {"memory": "m", "number": 1, "content": "x"}),
        ("edge", "label", {"a": "x", "b": "y", "weight": 1}),
        ("comment", "content", {"id": "c", "memory": "m"}),
        ("comment", "author", {"id": "c", "memory": "m", "content": "x"}),
        ("fact", "value", {"key": "k"}),
        ("turn", "content", {"session": "s"}),
        ("turn", "counter", {"session": "s", "content": "x"}),
        ("session_state", "text", {}),
        ("session_state", "session", {"text": "x"}),
    ],
)
def test_c8_a_secret_is_masked_in_every_text_of_every_kind(kind, name, others):
    one = admitted(kind, **others, **{name: f"key {SECRET} end"})

    assert one.fields[name].lower() == f"key {MASK} end".lower()
    assert one.redactions == {"anthropic_key": 1}
    assert SECRET not in json.dumps(one)
    if kind != "edge":
        assert one.fields.get("floor", one.fields.get("sensitivity")) == "confidential"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("memory", {"content": "x", "tags": [SECRET]}),
        ("memory", {"content": "x", "entities": [SECRET]}),
        ("memory", {"content": "x", "source_turns": [SECRET]}),
        ("memory", {"content": "x", "metadata": {"deep": [{SECRET: SECRET}]}}),
        ("memory", {"content": "x", "a field of theirs": SECRET}),
        ("memory", {"content": "x", "type": SECRET}),
        ("fact", {"key": "k", "value": {"deep": [SECRET]}}),
        ("turn", {"session": SECRET, "content": "x", "metadata": {"k": SECRET}}),
    ],
)
def test_c8_a_secret_is_masked_in_lists_objects_and_names(kind, fields):
    one = admitted(kind, **fields)

    assert SECRET.lower() not in json.dumps(one).lower()
    assert one.redactions
    assert one.fields["sensitivity"] == "confidential"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("memory", {"content": "x", "id": SECRET}),
        ("memory", {"content": "x", "scope": f"home/{SECRET}"}),
        ("fact", {"key": SECRET, "value": 1}),
    ],
)
def test_c8_what_is_named_by_a_secret_is_refused_without_quoting_it(kind, fields):
    with pytest.raises(ValueError, match="holds what looks like a secret") as refused:
        admitted(kind, **fields)

    assert SECRET not in str(refused.value)


def test_a_fact_whose_key_says_so_is_a_secret():
    assert "hunter2hunter2" not in json.dumps(admitted("fact", key="password", value="hunter2hunter2"))


@given(
    st.text(max_size=40),
    st.lists(st.text(max_size=8), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=9)),
)
def test_what_passed_once_passes_unchanged(content, entities, metadata):
    given_ = {
        "content": content,
        "entities": entities,
        "metadata": metadata,
        "author": content[:9],
        "redactions": {"jwt": 1},
    }
    try:
        once = admitted(**given_).fields
    except ValueError:
        return
    assert admitted(**once).fields == once
    assert json.dumps(once)


def test_text_is_normalised_and_an_empty_one_may_be():
    one = admitted(content="cafe\u0301", id="e\u0301", author="", context="", session="")

    assert one.fields | {"redactions": {}, "sensitivity": "personal"} == one.fields
    assert {name: one.fields[name] for name in ("content", "id", "author")} == {
        "content": "café",
        "id": "é",
        "author": "",
    }


def test_sensitivity_is_as_stated_and_never_below_what_the_gate_finds():
    assert admitted(content="x").fields["sensitivity"] == "personal"
    assert admitted(content="x", sensitivity="public").fields["sensitivity"] == "public"
    assert admitted(content="x", sensitivity="Secret").fields["sensitivity"] == "secret"
    assert admitted(content="x", sensitivity="public", subtype="preference").fields["sensitivity"] == "personal"
    assert admitted(content="the Chemo works", sensitivity="public").fields["sensitivity"] == "secret"
    assert admitted(content="x", sensitivity="public", redactions={"jwt": 2}).fields["sensitivity"] == "confidential"
    assert admitted(content="x", entities=["chemo"], sensitivity="public").fields["sensitivity"] == "secret"


def test_versions_and_comments_that_say_nothing_of_it_are_left_to_their_memory():
    assert "sensitivity" not in admitted("comment", id="c", memory="m", content="x").fields
    assert admitted("comment", id="c", memory="m", content="x").fields["floor"] == "public"
    assert admitted("version", memory="m", number=1, content="chemo").fields["floor"] == "secret"
    assert (
        admitted("version", memory="m", number=1, content="chemo", sensitivity="public").fields["sensitivity"]
        == "secret"
    )


def test_redactions_of_before_are_kept_and_new_ones_added():
    assert admitted(content=SECRET, redactions={"anthropic_key": 2, "jwt": 1}).fields["redactions"] == {
        "anthropic_key": 3, "jwt": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("memory", {"content": " \n"}, "blank"),
        ("memory", {"content": "a\0b"}, "NUL at character 1"),
        ("memory", {"content": "a\ud800"}, "lone surrogate"),
        ("memory", {"content": "x" * (MAX_CONTENT_BYTES + 1)}, "the limit is"),
        ("memory", {"content": "x", "id": "a\nb"}, "unprintable"),
        ("memory", {"content": "x", "scope": "a//b"}, "empty segment"),
        ("memory", {"content": "x", "scope": "*"}, "every scope"),
        ("memory", {"content": "x", "tags": [" "]}, "blank"),
        ("memory", {"content": "x", "superseded_by": "a\nb", "invalid_at": 1.0}, "unprintable"),
        ("memory", {"content": "x", "a\ud800": 1}, "lone surrogate"),
        ("edge", {"a": "x\n", "b": "y", "weight": 1}, "unprintable"),
        ("comment", {"memory": "m", "content": ""}, "blank"),
        ("turn", {"session": " ", "content": "x"}, "the session's name is blank"),
        ("fact", {"key": " ", "value": 1}, "blank"),
        ("session_state", {"text": ""}, "blank"),
        ("memory", {}, "content is missing"),
    ],
)
def test_what_the_gate_refuses_is_told_in_words(kind, fields, words):
    with pytest.raises(ValueError, match=words):
        admitted(kind, **fields)
