"""What becomes of each thing that is imported: what is here stays, and nothing crosses scopes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.changes import Edge, RecordChange
from storage.exchange.census import Census, change_for, decide, known, memory_of
from storage.model import SENSITIVITIES, STATES, Memory

NOW = 1_767_225_600.0
FIELDS = {"content": "the sky is blue", "sensitivity": "personal"}


def memory(**fields):
    return memory_of({**FIELDS, **fields}, NOW)


@st.composite
def pairs(draw):
    """A memory of a file and one that is here under its id, in any state, scope and level."""
    state = draw(st.sampled_from(STATES))
    here = Memory(
        id="m", scope=draw(st.sampled_from("ab")), content_hash=draw(st.sampled_from("xy")),
        sensitivity=draw(st.sampled_from(SENSITIVITIES)), forgotten_at=1.0 if state == "forgotten" else None,
        invalid_at=1.0 if state == "superseded" else None, forgotten_reason=draw(st.sampled_from(["", "request", "undone"])),
    )  # fmt: skip
    told = replace(
        here, scope=draw(st.sampled_from("ab")), content_hash=draw(st.sampled_from("xy")),
        forgotten_at=draw(st.sampled_from([None, 1.0])), invalid_at=None,
    )  # fmt: skip
    return told, draw(st.sampled_from([here, None]))


@given(pairs(), st.booleans(), st.booleans(), st.sampled_from(SENSITIVITIES))
def test_every_verdict_has_its_reason(pair, twin, own_id, clearance):
    told, here = pair
    found = decide(told, here, twin=twin, own_id=own_id, clearance=clearance)

    if here is None:
        assert found == ("same" if twin and not own_id else "new")
        return
    assert (found == "hidden") == (SENSITIVITIES.index(here.sensitivity) > SENSITIVITIES.index(clearance))
    undone = (here.state, here.forgotten_reason) == ("forgotten", "undone")
    alike = (here.scope, here.content_hash) == (told.scope, told.content_hash)
    if found != "hidden":
        assert (found == "differs") == (not alike and not undone)
    if found != "hidden":
        assert (found == "back") == undone
    assert found != "new"


def test_a_memory_without_an_id_always_gets_the_same_one_for_its_text_and_scope():
    assert memory().id == memory(created_at=5.0, tags=["a"]).id
    assert len({memory().id, memory(scope="a").id, memory(author="Ada").id, memory(content="x").id}) == 4
    assert memory(id="mine").id == "mine"


def test_a_memory_takes_what_it_is_told_and_our_defaults_for_the_rest():
    told = memory(tags=["a"], access_count=7, updated_at=9.0, forgotten_at=3.0)

    assert (told.scope, told.provenance, told.created_at, told.updated_at) == ("default", "import", NOW, 9.0)
    assert (told.tags, told.access_days, told.seq, told.version) == (("a",), 1, 1, 1)
    assert (told.state, told.forgotten_reason) == ("forgotten", "request")
    assert memory(content="is it?").asks
    assert not memory().asks


def test_the_hash_is_made_anew_as_it_is_for_what_is_remembered(opened):
    for fields in ({}, {"author": "Ada"}, {"event_at": 5.0}, {"type": "episodic", "session": "s"}):
        stored = opened.remember("the sky is blue", **fields).memory
        assert memory(**fields, sensitivity=stored.sensitivity).content_hash == stored.content_hash


# -- against a store


@pytest.fixture
def census():
    return Census("secret", dry_run=False, now=NOW)


def judged(opened, census, *, own_id=True, **fields):
    return census.judge(opened.stores, memory(**fields), own_id=own_id)


def test_same_text_is_here_already_whatever_else_is_told_of_it(opened, census):
    opened.add("the sky is blue", id="m", event_at=5.0)

    assert judged(opened, census, id="m", event_at=5.0, tags=["new"], importance=1.0) == "same"
    assert judged(opened, census, id="m") == "same"  # another hash, for it lacks the time
    assert judged(opened, census, id="m", content="the sky is grey") == "differs"
    assert judged(opened, census, id="m", scope="elsewhere") == "differs"
    assert census.differing == {"m"}


def test_known_content_is_stored_under_an_id_of_its_own_and_skipped_without_one(opened, census):
    opened.add("the sky is blue", id="m")

    assert judged(opened, census, id="n") == "new"
    assert judged(opened, census, own_id=False) == "same"
    assert judged(opened, census, own_id=False, scope="elsewhere") == "new"


def test_what_comes_twice_in_a_file_is_stored_once(opened, census):
    assert judged(opened, census, id="m") == "new"
    assert judged(opened, census, id="m", tags=["other"]) == "same"
    assert judged(opened, census, id="m", content="another") == "differs"
    assert judged(opened, census, own_id=False) == "same"
    assert judged(opened, census, id="n") == "new"


def test_what_was_forgotten_stays_so_and_what_was_superseded_does_not_count(opened, census):
    opened.forget(opened.add("the sky is blue", id="m"))
    assert judged(opened, census, own_id=False) == "same"
    assert judged(opened, census, id="m") == "same"

    opened.forget(opened.add("old", id="o"), superseded_by=opened.add("new", id="p"))
    assert judged(opened, census, own_id=False, content="old") == "new"


def test_what_the_caller_may_not_know_of_is_neither_here_nor_free(opened):
    opened.add("the sky is blue", id="m", sensitivity="secret")
    census = Census("personal", dry_run=False, now=NOW)

    assert judged(opened, census, id="m") == "hidden"
    assert judged(opened, census, own_id=False) == "new"
    assert census.find(opened.stores, "m") is None


# -- what refers to memories


@pytest.fixture
def pair(opened):
    """Two memories of one scope, and one of another."""
    opened.add("a", id="a", scope="x", sensitivity="confidential")
    opened.add("b", id="b", scope="x")
    opened.add("c", id="c", scope="y")
    return opened


def change(opened, census, kind, /, **fields):
    return change_for(kind, fields, opened.stores, census)


def test_an_edge_keeps_weight_and_time_and_joins_what_is_here_in_one_scope(pair, census):
    made = change(pair, census, "edge", a="b", b="a", weight=1.25, as_of=7.0, created_at=5.0, kind="concept", label="l")
    assert isinstance(made, Edge)
    assert (made.before, made.scope) == (None, "x")
    assert made.after == ("a", "b", "concept", 1.25, 7.0, 5.0, "l")

    directed = change(pair, census, "edge", a="b", b="a", weight=1.0, kind="next").after
    assert (directed.a, directed.b, directed.kind, directed.as_of, directed.created_at) == ("b", "a", "next", NOW, NOW)
    for fields, words in (
        ({"a": "a", "b": "c"}, "different scopes"),
        ({"a": "a", "b": "nobody"}, "not here"),
        ({"a": "a", "b": "a"}, "to itself"),
    ):
        with pytest.raises(ValueError, match=words):
            change(pair, census, "edge", **fields, weight=1.0)


def test_an_edge_that_is_here_is_kept(pair, census):
    pair.stores.synapses.put([change(pair, census, "edge", a="a", b="b", weight=1.0).after])

    assert change(pair, census, "edge", a="b", b="a", weight=9.0, kind="hebbian") is None


def test_a_version_belongs_to_a_memory_that_was_edited_since(pair, census):
    pair.update("b", content="b again")
    fields = {"memory": "b", "number": 1, "content": "b", "created_at": 1.0, "floor": "public"}

    made = change(pair, census, "version", **fields)
    assert isinstance(made, RecordChange)
    assert made.key in pair.stores.records.get([made.key])  # ours, which the change then leaves alone
    assert made.after["sensitivity"] == "personal"
    with pytest.raises(ValueError, match="the memory itself is version 2"):
        change(pair, census, "version", **fields | {"number": 2})
    with pytest.raises(ValueError, match="not here"):
        change(pair, census, "version", **fields | {"memory": "nobody"})
    census.differing.add("b")
    assert change(pair, census, "version", **fields) is None


def test_a_comment_is_as_sensitive_as_its_memory_and_answers_only_what_there_is(pair, census):
    fields = {"id": "c1", "memory": "a", "content": "hm", "created_at": 4.0, "floor": "public"}

    made = change(pair, census, "comment", **fields, reply_to="gone", read=True).after
    assert (made["sensitivity"], made["scope"], made["read_at"]) == ("confidential", "x", 4.0)
    assert "reply_to" not in made
    census.replies["c0"] = ""
    assert change(pair, census, "comment", **fields, reply_to="c0").after["reply_to"] == "c0"
    with pytest.raises(ValueError, match="not here"):
        change(pair, census, "comment", **fields | {"memory": "nobody"})


def test_turns_without_numbers_are_in_the_order_of_the_file(opened, census):
    first, second = (
        change(opened, census, "turn", session="s", content=text, sensitivity="personal").after for text in ("b", "a")
    )

    assert (first["number"], second["number"]) == (1, 2)
    assert first["role"] == "user"
    assert len({first["id"], second["id"]}) == 2


def test_a_scope_that_has_states_of_its_own_keeps_them(opened, census):
    opened.stores.talk.write_state("ours", "here", "personal", NOW)

    assert change(opened, census, "session_state", scope="ours", number=9, text="x", sensitivity="personal") is None
    stored = change(opened, census, "session_state", scope="theirs", number=9, text="x", sensitivity="personal")
    assert (stored.after["number"], stored.after["text"]) == (9, "x")


def test_in_a_dry_run_what_would_be_stored_counts_as_here(opened):
    census = Census("secret", dry_run=True, now=NOW)
    judged(opened, census, id="m")

    assert census.find(opened.stores, "m") == known(memory(id="m"))
    assert Census("secret", dry_run=False, now=NOW).find(opened.stores, "m") is None
