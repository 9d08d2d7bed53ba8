"""The one write gate: what comes out of it may be kept, and nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.embed import Plan, load_embedder
from storage.errors import Invalid, TooLarge, Unavailable
from storage.gate import Gate
from storage.model import MAX_CONTENT_BYTES, MAX_CONTEXT_BYTES
from storage.redact import Redactor
from tests.fakes import BrokenEmbedder, HashEmbedder
from tests.storage.opened import KEYWORDS, REDACTOR

SECRET = "AKIAIOSFODNN7EXAMPLE"


def gate(embedder=None, *, levels=None, redactor: Redactor = REDACTOR) -> Gate:
    return Gate(redactor, embedder, KEYWORDS, levels=levels or {}, default="personal")


@pytest.mark.parametrize("field", ["content", "context", "author", "session", "subtype", "label"])
def test_c9_a_secret_leaves_the_gate_in_no_text(field) -> None:
    admitted = gate().admit({field: f"the key is {SECRET}"})

    assert SECRET not in repr(admitted.fields)
    assert sum(admitted.redactions.values()) == 1
    assert admitted.fields["sensitivity_floor"] == "confidential"


def test_c9_a_secret_leaves_the_gate_in_no_tag_and_no_metadata() -> None:
    given = {"tags": ["work", SECRET], "metadata": {"a": {"b": [f"key {SECRET}"]}, SECRET: 1}}
    admitted = gate().admit(given)

    assert SECRET.lower() not in repr(admitted.fields).lower()
    assert admitted.fields["tags"][0] == "work"
    assert sum(admitted.redactions.values()) == 3
    assert admitted.fields["sensitivity_floor"] == "confidential"


def test_row_79_a_commit_and_a_hyphenated_word_are_no_secrets() -> None:
    text = "fixed in da39a3ee5e6b4b0d3255bfef95601890afd80709, a risk-based choice"
    admitted = gate().admit({"content": text})

    assert admitted == ({"content": text}, {})


def test_an_owners_own_pattern_masks_and_raises_nothing_by_itself() -> None:
    own = gate(redactor=Redactor({"street": "Elm Street"}))
    admitted = own.admit({"content": "I live in Elm Street", "metadata": {"home": "Elm Street 4"}})

    assert "Elm" not in repr(admitted.fields)
    assert admitted.redactions == {"street": 2}
    assert "sensitivity_floor" not in admitted.fields


@pytest.mark.parametrize(
    ("given", "floor"),
    [
        ({"content": "my salary is low"}, "confidential"),
        ({"content": "low", "context": "my salary"}, "confidential"),
        ({"content": "low", "metadata": {"k": ["my salary"]}}, "confidential"),
        ({"content": "low", "tags": ["salary"]}, "confidential"),
        ({"content": "my salary and the launch code"}, "secret"),
        ({"content": f"launch {SECRET}"}, "secret"),
        ({"content": f"token {SECRET}"}, "confidential"),
        ({"content": "tea", "subtype": "preference"}, "personal"),
        ({"content": "tea", "subtype": "note"}, None),
    ],
)
def test_what_a_text_says_raises_its_sensitivity_to_the_highest_that_applies(given, floor) -> None:
    """Patterns see the text before anything is masked, in every field."""
    levels = {"salary": "confidential", "launch": "secret", "tea": "public"} if floor not in ("personal", None) else {}

    assert gate(levels=levels).admit(given).fields.get("sensitivity_floor") == floor


def test_what_is_not_given_is_absent_and_an_event_or_an_end_may_be_taken_away() -> None:
    given = {
        "content": None,
        "tags": None,
        "metadata": None,
        "event_at": None,
        "expires_at": None,
        "pinned": False,
        "emotion": 0.0,
    }

    assert gate().admit(given).fields == {"event_at": None, "expires_at": None, "pinned": False, "emotion": 0.0}


@pytest.mark.parametrize("text", ["", " \n", "\u200b\u3164", "\ufeff"])
def test_row_74_a_blank_text_is_refused_with_the_field(text) -> None:
    with pytest.raises(Invalid) as refused:
        gate().admit({"content": text})
    assert refused.value.extra["field"] == "content"
    with pytest.raises(Invalid):
        gate().admit({"tags": [text]})


def test_a_text_beside_the_content_may_be_empty() -> None:
    given = {"context": "", "author": "", "session": "", "label": ""}

    assert gate().admit(given) == (given, {})


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
def test_what_no_file_can_keep_is_refused_with_its_offset(bad) -> None:
    fields = {"content": bad, "author": bad, "tags": [bad], "metadata": {"k": bad}, "id": bad, "scope": bad}
    for field, value in fields.items():
        with pytest.raises(Invalid) as refused:
            gate().admit({field: value})
        assert refused.value.extra["offset"] == 1


@pytest.mark.parametrize(
    ("field", "limit"), [("content", MAX_CONTENT_BYTES), ("context", MAX_CONTEXT_BYTES), ("author", 256)]
)
def test_row_73_a_text_at_its_limit_is_kept_whole_and_one_over_is_refused(field, limit) -> None:
    """In bytes of UTF-8."""
    text = "é" * (limit // 2)

    assert gate().admit({field: text}).fields[field] == text
    with pytest.raises(TooLarge) as refused:
        gate().admit({field: text + "a"})
    assert (refused.value.extra["field"], refused.value.extra["limit_bytes"]) == (field, limit)


@given(st.text())
def test_what_left_the_gate_leaves_it_again_as_it_is(text) -> None:
    try:
        first = gate().admit({"content": text}).fields
    except Invalid:
        return

    assert gate().admit({"content": first["content"]}).fields["content"] == first["content"]


def test_names_are_put_into_one_form() -> None:
    given = {
        "id": "e\u0301",
        "connect_to": ["e\u0301", "b"],
        "scope": "a / e\u0301",
        "tags": ["WORK", "work", "E\u0301"],
    }

    assert gate().admit(given).fields == {"id": "é", "connect_to": ["é", "b"], "scope": "a/é", "tags": ("work", "é")}


@pytest.mark.parametrize(
    "given",
    [{"scope": "a//b"}, {"scope": "*"}, {"id": " "}, {"connect_to": ["a\nb"]}, {"metadata": {"k": float("nan")}}],
)
def test_names_and_metadata_that_cannot_be_kept_are_refused(given) -> None:
    with pytest.raises(Invalid):
        gate().admit(given)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"id": SECRET}, "id"),
        ({"id": "password=hunter2xyz"}, "id"),
        ({"scope": f"alice/{SECRET}"}, "scope"),
        ({"fact": ("password=hunter2xyz", 1)}, "key"),
        ({"fact": (f"about {SECRET}", 1)}, "key"),
    ],
)
def test_a_name_that_would_be_masked_is_refused_and_never_quoted(given, field) -> None:
    """Two things that are called by different secrets would be one once both are masked."""
    with pytest.raises(Invalid) as refused:
        gate().admit({"content": "tea", **given})

    assert refused.value.extra == {"field": field}
    told = f"{refused.value.detail} {refused.value.hint}"
    assert SECRET not in told
    assert "hunter2" not in told
    assert "another" in told


def test_an_owners_own_pattern_holds_for_names_too() -> None:
    with pytest.raises(Invalid):
        gate(redactor=Redactor({"street": "Elm Street"})).admit({"scope": "home/Elm Street"})


@pytest.mark.parametrize(
    "name",
    ["ba63fc5d-8344-4173-84fa-086c1a933c7c", "9fceb02d0ae598e95dc970b74767f19372d61af8", "wifi-password", "token"],
)
def test_a_uuid_a_hash_or_the_name_of_a_secret_is_none(name) -> None:
    """The first UUID here would pass for an IBAN with its check digits right, as one in 7,000 does."""
    given = {"id": name, "scope": f"alice/{name}"}

    assert gate().admit(given).fields == given
    assert gate().admit({"fact": (name, 1)}).fields["fact"] == (name, 1)


def test_what_is_only_looked_for_is_masked_and_not_refused() -> None:
    fields = gate().admit({"key": f"about {SECRET}", "connect_to": [SECRET]}).fields

    assert fields["key"] == "about [REDACTED:aws_access_key]"
    assert fields["connect_to"] == [SECRET]


def test_a_floor_that_is_given_counts_with_what_the_texts_raise_it_to() -> None:
    floors = [
        gate().admit({"content": text, "sensitivity_floor": level}).fields["sensitivity_floor"]
        for text, level in ((SECRET, "secret"), (SECRET, "public"), ("tea", "public"))
    ]

    assert floors == ["secret", "confidential", "public"]


def test_each_text_gets_the_vectors_that_name_it() -> None:
    texts = ["the cat chased the mouse", "Ann: 猫"]
    made = gate(HashEmbedder()).vectors(texts)

    assert [one.of for one in made] == texts
    assert np.linalg.norm([one.dense for one in made], axis=1) == pytest.approx([1.0, 1.0])
    assert all(one.text.indices for one in made)


@pytest.mark.parametrize("mode", ["raise", "nan", "zeros", "short", "fewer"])
def test_row_52_a_broken_embedder_makes_writes_unavailable_and_questions_keyword_only(mode) -> None:
    embedder = BrokenEmbedder(mode)
    broken = gate(embedder)

    with pytest.raises(Unavailable) as refused:
        broken.vectors(["the code is blue"])
    assert "blue" not in refused.value.detail
    assert refused.value.hint
    dense, terms = broken.question("the code is blue")
    assert dense is None
    assert terms.indices
    embedder.mode = None
    assert broken.question("the code is blue")[0] is not None


def test_row_52_without_an_embedder_nothing_is_stored_and_recall_goes_on() -> None:
    with pytest.raises(Unavailable):
        gate().vectors(["text"])
    dense, terms = gate().question("cat mouse")
    assert dense is None
    assert len(terms.indices) == 2


def test_a_question_is_asked_in_the_form_in_which_texts_are_kept() -> None:
    asking = gate(HashEmbedder())

    assert asking.question("cafe\u0301")[0] == pytest.approx(asking.question("café")[0])
    with pytest.raises(Invalid):
        asking.question(" ")


LONG = "The committee met again and discussed the weather, the roads and the price of bread. " * 300


def in_turns(work) -> tuple[Any, int]:
    """The result of work that is done in turns, and how many it took."""
    turns = 1
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, turns
        turns += 1


@pytest.mark.parametrize("texts", [["short"], [LONG], ["short", LONG + "猫", "a" * 9_000, "", LONG[:5_000]]])
def test_vectors_made_in_turns_are_those_made_at_one_go(texts) -> None:
    asking = gate(load_embedder("wordllama"))

    at_one_go = asking.vectors(texts)
    made, _ = in_turns(asking.vectors_in_turns(texts))

    for one, other in zip(made, at_one_go, strict=True):
        assert one.dense == pytest.approx(other.dense, abs=2e-6)
        assert (one.text, one.of) == (other.text, other.of)


def test_each_turn_is_a_batch_of_passages_and_what_is_short_has_one() -> None:
    asking = gate(HashEmbedder())

    assert in_turns(asking.vectors_in_turns(["short"] * 32))[1] == 1
    assert in_turns(asking.vectors_in_turns([LONG]))[1] == len(Plan([LONG]).batches) + 1
    assert in_turns(asking.vectors_in_turns([]))[0] == []


def test_a_question_in_turns_is_the_question_at_one_go() -> None:
    asking = gate(load_embedder("wordllama"))

    (dense, terms), turns = in_turns(asking.question_in_turns(LONG))

    assert turns > 3
    assert dense == pytest.approx(asking.question(LONG)[0], abs=2e-6)
    assert terms == asking.question(LONG)[1]


@pytest.mark.parametrize("embedder", [None, BrokenEmbedder("nan")])
def test_row_52_in_turns_as_at_one_go_a_missing_or_broken_embedder_is_told(embedder) -> None:
    asking = gate(embedder)

    with pytest.raises(Unavailable):
        in_turns(asking.vectors_in_turns([LONG]))
    (dense, terms), _ = in_turns(asking.question_in_turns(LONG))
    assert dense is None
    assert terms.indices
