"""What an edit changes, what follows from it, and what it leaves alone."""

from __future__ import annotations

import pytest

from jobs.decay import plan
from storage.errors import Conflict, Invalid, NotFound
from storage.fading import Retention
from storage.memories import LIVE
from storage.model import DAY, point_id
from storage.remember import NeedsVectors
from tests.storage.opened import Opened


def cosine(opened: Opened, query: str, memory: str) -> float:
    (hit,) = [hit for hit in opened.recall(query, k=99, explain=True) if hit.memory.id == memory]
    assert hit.why is not None
    return hit.why["cosine"]


def history(opened: Opened, memory: str) -> list[tuple[int, str]]:
    return [(one.number, one.content) for one in opened.stores.records.versions(memory)]


def test_b18_every_edit_is_a_version_and_the_chain_is_whole(opened) -> None:
    memory = opened.add("A")
    for text in ("B", "C"):
        opened.clock.advance(1)
        opened.update(memory, content=text)

    head = opened.read(memory)
    assert (head.content, head.version, head.change_summary) == ("C", 3, "content changed")
    assert history(opened, memory) == [(2, "B"), (1, "A")]
    first = opened.stores.records.versions(memory)[-1]
    assert (first.created_at, first.replaced_at) == (head.created_at, head.created_at + 1)


def test_c10_only_the_head_of_a_chain_is_found(opened) -> None:
    memory = opened.add("Ann lives in Rome")
    opened.update(memory, content="Ann lives in Rio")

    (hit,) = opened.recall("Ann lives in Rome")
    assert hit.memory.content == "Ann lives in Rio"


@pytest.mark.parametrize(
    ("change", "version", "summary"),
    [
        ({"content": "new"}, 2, "content changed"),
        ({"tags": ["y"], "type": "procedural"}, 2, "type, tags changed"),
        ({"metadata": {"k": True}}, 2, "metadata changed"),
        ({"metadata": {"k": 1.0}}, 2, "metadata changed"),
        ({"sensitivity": "secret"}, 2, "sensitivity changed"),
        ({"tier": "core", "pinned": True, "emotion": 0.1, "importance": 0.2, "confidence": 0.3}, 1, ""),
        ({"expires_at": 4e9, "event_at": 5.0, "session": "s", "subtype": "t", "source": "learned"}, 1, ""),
    ],
)
def test_edits_of_content_type_tags_metadata_and_sensitivity_make_versions_and_others_do_not(
    opened, change, version, summary
) -> None:
    memory = opened.add("old", tags=["x"], metadata={"k": 1})
    opened.clock.advance(10)

    edited = opened.update(memory, **change)

    assert edited == opened.read(memory)
    assert (edited.version, edited.change_summary) == (version, summary)
    assert edited.updated_at == (opened.now if "content" in change else edited.created_at)
    assert len(history(opened, memory)) == version - 1


def test_an_edit_that_changes_nothing_writes_nothing(opened) -> None:
    memory = opened.add("text", tags=["x"], metadata={"k": 1})

    edited = opened.update(memory, content="text", tags=["X"], metadata={"k": 1}, tier="short", sensitivity="personal")

    assert edited == opened.read(memory)
    assert (edited.seq, edited.version) == (1, 1)


def test_an_edit_of_the_content_moves_the_vectors_the_terms_and_what_follows_from_the_text(opened) -> None:
    opened.add("hello", author="Bob")
    memory = opened.add("the cat chased the mouse", author="Ann")

    opened.update(memory, content="does Bob read books?")

    read = opened.read(memory)
    assert (read.asks, read.entities) == (True, ("Bob",))
    assert cosine(opened, "Ann: does Bob read books?", memory) == pytest.approx(1.0, abs=0.01)
    assert opened.recall("mouse", explain=True)[0].why["bm25"] == 0.0
    assert not opened.remember("does Bob read books?", author="Ann").created


@pytest.mark.parametrize(
    "change", [{"tier": "core"}, {"pinned": True}, {"tags": ["y"]}, {"event_at": 5.0}, {"emotion": 0.9}]
)
def test_an_edit_of_anything_else_leaves_the_vectors_as_they_were(opened, change) -> None:
    """Even if the caller brings vectors of another text."""
    memory = opened.add("the cat chased the mouse")
    before = opened.engine.retrieve(LIVE, [point_id(memory)], vectors=True)[point_id(memory)]

    opened.stores.writer.update(memory, opened.admit(change), opened.gate.vectors(["else"])[0], opened.now)

    after = opened.engine.retrieve(LIVE, [point_id(memory)], vectors=True)[point_id(memory)]
    assert (after.dense == before.dense).all()
    assert after.text == before.text
    assert opened.row(memory).seq == 2


def test_a_new_author_is_said_by_the_vectors_too(opened) -> None:
    opened.add("hello", author="Bob")
    memory = opened.add("Bob and Ann read books", author="Ann")

    edited = opened.update(memory, author="Bob")

    assert edited.entities == ("Ann",)
    assert cosine(opened, "Bob: Bob and Ann read books", memory) == pytest.approx(1.0, abs=0.01)


def test_a8_decay_never_takes_what_is_pinned_and_may_when_it_is_not_any_more(opened) -> None:
    memory = opened.add("one", pinned=True)
    opened.clock.advance(400 * DAY)

    def goes() -> list[str]:
        rows = list(opened.stores.catalogue.rows())
        planned = plan(rows, opened.now, opened.stores.awake, Retention(), ceiling=0.05, moved={})
        return [move.memory for move in planned.decayed]

    assert goes() == []
    opened.update(memory, pinned=False)
    assert goes() == [memory]


def test_a_write_asks_for_the_vectors_of_what_is_true_by_then(opened) -> None:
    """The text was edited between the embedding and the write."""
    memory = opened.add("the cat chased the mouse")
    writer, write = opened.stores.writer, opened.admit({"author": "Ann"})
    text = writer.text_to_embed(write, memory)
    assert text == "Ann: the cat chased the mouse"
    stale = opened.gate.vectors([text])[0]
    opened.update(memory, content="the dog slept")

    with pytest.raises(NeedsVectors) as wanted:
        writer.update(memory, write, stale, opened.now)

    assert wanted.value.text == "Ann: the dog slept"
    assert opened.read(memory).author == ""
    writer.update(memory, write, opened.gate.vectors([wanted.value.text])[0], opened.now)
    assert opened.read(memory).author == "Ann"


@pytest.mark.parametrize(
    ("given", "memory", "text"),
    [
        ({"content": "new"}, None, "new"),
        ({"content": "new", "author": "Ann"}, None, "Ann: new"),
        ({"content": "new", "id": "other"}, None, "new"),
        ({"content": "known", "author": "Bob"}, None, None),
        ({"content": "known", "author": "Bob", "id": "other"}, None, "Bob: known"),
        ({"content": "new", "id": "m"}, None, "Bob: new"),
        ({"content": "new"}, "m", "Bob: new"),
        ({"author": "Ann"}, "m", "Ann: known"),
        ({"tier": "core"}, "m", None),
        ({"author": "Ann"}, None, None),
        ({"content": "new"}, "gone", None),
        ({}, "m", None),
    ],
)
def test_the_text_to_embed_is_known_before_the_write(opened, given, memory, text) -> None:
    opened.add("known", author="Bob", id="m")
    opened.add("binned", id="gone")
    opened.forget("gone")

    assert opened.stores.writer.text_to_embed(opened.admit(given), memory) == text


def test_an_edit_at_another_version_than_expected_is_a_conflict(opened) -> None:
    memory = opened.add("A")
    opened.update(memory, content="B", if_version=1)

    with pytest.raises(Conflict) as refused:
        opened.update(memory, content="C", if_version=1)
    assert refused.value.extra["version"] == 2
    assert opened.read(memory).content == "B"


def test_an_edit_to_what_another_memory_says_is_a_conflict_that_names_it(opened) -> None:
    one, other = opened.add("one"), opened.add("other", event_at=5.0)

    with pytest.raises(Conflict) as refused:
        opened.update(other, content="one", event_at=None)
    assert refused.value.extra["duplicate_of"] == one
    assert refused.value.hint == f"dreamctl merge {one} {other}"
    assert opened.read(other).content == "other"
    opened.update(other, content="one")
    opened.forget(one)
    opened.update(other, event_at=None)


def test_a_scope_is_for_good(opened) -> None:
    memory = opened.add("one")

    with pytest.raises(Invalid) as refused:
        opened.update(memory, scope="other")
    assert refused.value.extra["field"] == "scope"
    opened.update(memory, scope="default", tier="core")


def test_what_is_missing_hidden_or_binned_cannot_be_edited(opened) -> None:
    hidden, gone = opened.add("one", sensitivity="secret"), opened.add("two")
    opened.forget(gone)

    with pytest.raises(NotFound):
        opened.update("nobody", tier="core")
    with pytest.raises(NotFound):
        opened.update(hidden, tier="core", clearance="confidential")
    with pytest.raises(Conflict):
        opened.update(gone, tier="core")


def test_an_event_or_an_end_can_be_taken_away(opened) -> None:
    memory = opened.add("one", event_at=5.0, expires_at=opened.now + 10)

    edited = opened.update(memory, event_at=None, expires_at=None)
    opened.clock.advance(20)

    assert (edited.event_at, edited.expires_at) == (None, None)
    assert opened.found("one") == [memory]
    assert not opened.remember("one").created


def test_c6_sensitivity_and_tier_stay_as_they_were_unless_they_are_named(opened) -> None:
    memory = opened.add("one", sensitivity="secret", tier="core")

    edited = opened.update(memory, content="two", tags=["x"])

    assert (edited.sensitivity, edited.tier) == ("secret", "core")
    assert opened.update(memory, sensitivity="public").sensitivity == "public"


def test_c8_an_edit_that_brings_a_secret_is_redacted_and_raises_the_sensitivity(opened) -> None:
    memory = opened.add("one", sensitivity="public")

    edited = opened.update(memory, content="the key is AKIAIOSFODNN7EXAMPLE")

    assert "AKIA" not in opened.read(memory).content
    assert edited.sensitivity == "confidential"
    assert sum(edited.redactions.values()) == 1
    assert opened.update(memory, content="the key is gone").redactions == {}


def test_said_again_a_mark_is_only_ever_raised(opened) -> None:
    memory = opened.add("one", sensitivity="confidential")

    assert opened.remember("one", sensitivity="public").memory.sensitivity == "confidential"
    raised = opened.remember("one", sensitivity="secret").memory
    assert (raised.id, raised.sensitivity, raised.version, raised.change_summary) == (
        memory,
        "secret",
        2,
        "sensitivity changed",
    )
    assert history(opened, memory) == [(1, "one")]


def test_a_duplicate_above_the_clearance_is_neither_told_nor_touched(opened) -> None:
    hidden = opened.add("one", sensitivity="secret")

    written = opened.remember("one", clearance="personal")
    assert written.created
    assert opened.row(hidden).access_count == 0
    other = opened.add("other", tags=["x"])
    opened.forget(written.memory.id, hard=True)
    assert opened.update(other, content="one", clearance="personal").content == "one"


def test_an_edit_falls_below_no_floor_of_what_stays_in_the_memory(opened) -> None:
    key = opened.add("AKIA" + "EXAMPLEEXAMPLE00 is the key")
    taste = opened.add("prefers tea", subtype="Preference")

    assert opened.update(key, sensitivity="public").sensitivity == "confidential"
    assert (opened.row(taste).subtype, opened.update(taste, sensitivity="public").sensitivity) == (
        "preference",
        "personal",
    )
    assert opened.update(key, content="nothing of the kind", sensitivity="public").sensitivity == "public"
