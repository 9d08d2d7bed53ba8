"""What a `remember` does: create a memory, or reinforce, edit or bring back the one that it already is."""

from __future__ import annotations

from typing import Any

import pytest

from storage.errors import Conflict, Invalid, NotFound
from storage.model import DAY, MAX_CONTENT_BYTES
from storage.remember import Write
from tests.storage.opened import Opened


def test_a_new_memory_has_the_defaults(opened) -> None:
    written = opened.remember("I am allergic to nuts")

    memory = opened.read(written.memory.id)
    assert written.created
    assert not written.restored
    assert memory == written.memory
    assert (memory.type, memory.tier, memory.heat, memory.source, memory.provenance) == (
        "semantic", "short", "warm", "stated", "direct",
    )  # fmt: skip
    assert (memory.sensitivity, memory.importance, memory.emotion, memory.confidence) == ("personal", 0.5, 0.5, 1.0)
    assert (memory.version, memory.seq, memory.access_count, memory.pinned) == (1, 1, 0, False)
    assert memory.created_at == memory.updated_at == opened.now
    assert memory.expires_at is memory.event_at is memory.accessed_at is None


def test_what_is_given_is_kept(opened) -> None:
    given: dict[str, Any] = {
        "id": "my id", "author": "Ann", "scope": "a/b", "tags": ["X", "ü"], "type": "episodic", "subtype": "trip", "tier": "long",
        "importance": 0.9, "emotion": 0.0, "sensitivity": "public", "source": "inferred", "confidence": 0.3, "session": "s",
        "metadata": {"a": [1, None, True]}, "context": "the long story", "event_at": 5.5, "expires_at": 4e9, "pinned": True,
    }  # fmt: skip
    memory = opened.read(opened.remember("we went to Rome?", **given).memory.id)

    kept = {name: getattr(memory, name) for name in given}
    assert kept == given | {"tags": ("x", "ü")}
    assert memory.asks


def test_the_content_is_missing_only_where_nothing_has_it_yet(opened) -> None:
    with pytest.raises(Invalid) as refused:
        opened.stores.writer.remember(Write({"id": "m", "tags": ("x",)}, {}), None, opened.now, "new")

    assert refused.value.extra["field"] == "content"


def test_names_heard_in_the_scope_are_entities_but_for_the_author(opened) -> None:
    opened.add("hello", author="Ann")
    opened.add("hello too", author="李雷")
    opened.add("hello there", author="Bob", scope="elsewhere")

    memory = opened.read(opened.add("Ann told 李雷说 and bob", author="Ann"))

    assert memory.entities == ("李雷",)


def test_row_68_the_same_content_is_the_same_memory_reinforced_once(opened) -> None:
    memory = opened.add("I am allergic to nuts", tags=["x"])
    opened.clock.advance(DAY)

    again = opened.remember("I am allergic to nuts", tags=["y"])

    assert (again.memory.id, again.created, again.restored) == (memory, False, False)
    row = opened.row(memory)
    assert (row.access_count, row.access_days, row.accessed_at) == (1, 1, opened.now)
    assert (row.tags, row.version) == (("x",), 1)
    assert len(opened.stores.catalogue) == 1


def test_saying_it_again_on_another_day_counts_that_day(opened) -> None:
    memory = opened.add("I am allergic to nuts")
    for _ in range(2):
        opened.clock.advance(DAY)
        opened.add("I am allergic to nuts")
        opened.add("I am allergic to nuts")

    assert (opened.row(memory).access_count, opened.row(memory).access_days) == (4, 2)


@pytest.mark.parametrize(
    "other",
    [
        {"author": "Bob"},
        {"event_at": 9.0},
        {"type": "episodic", "session": "s2"},
        {"scope": "default/finer"},
        {"id": "an id of its own"},
    ],
)
def test_b10_another_author_event_episode_scope_or_id_makes_another_memory(opened, other) -> None:
    first = {"type": "episodic", "session": "s1"} if "session" in other else {}
    memory = opened.add("I am allergic to nuts", **first)

    written = opened.remember("I am allergic to nuts", **other)

    assert written.created
    assert written.memory.id != memory
    assert opened.row(memory).access_count == 0


def test_a_session_makes_no_difference_to_what_is_no_episode(opened) -> None:
    memory = opened.add("I am allergic to nuts", session="s1")

    assert opened.remember("I am allergic to nuts", session="s2").memory.id == memory


def test_row_7_the_same_words_about_two_days_are_two_events(opened) -> None:
    january = opened.add("assigned to Ann", event_at=1.7e9)
    june = opened.add("assigned to Ann", event_at=1.71e9)

    assert january != june
    assert not opened.remember("assigned to Ann", event_at=1.7e9).created


def test_row_76_what_only_reads_alike_is_stored_beside_it(opened) -> None:
    first = opened.remember("Excalidraw log issue fixed in the auto start script")
    second = opened.remember("Express log issue fixed in the auto start script")

    assert first.created
    assert second.created


def test_b5_a_longer_text_never_swallows_a_shorter_newer_one(opened) -> None:
    opened.add("Ann does eat meat every single day of the week")
    correction = opened.remember("Ann does not eat meat")

    assert correction.created
    assert opened.found("Ann does not eat meat")[0] == correction.memory.id


def test_what_was_forgotten_comes_back_when_it_is_said_again(opened) -> None:
    memory = opened.add("I am allergic to nuts")
    opened.forget(memory)
    opened.clock.advance(20 * DAY)

    again = opened.remember("I am allergic to nuts")

    assert (again.memory.id, again.created, again.restored) == (memory, False, True)
    row = opened.row(memory)
    assert (row.state, row.forgotten_reason, row.used_at, row.access_count) == ("live", "", opened.now, 1)
    assert opened.found("allergic to nuts") == [memory]


def test_what_was_superseded_is_a_new_memory_when_it_is_said_again(opened) -> None:
    old, new = opened.add("Ann lives in Rome"), opened.add("Ann lives in Rio")
    opened.forget(old, superseded_by=new)

    again = opened.remember("Ann lives in Rome")

    assert again.created
    assert again.memory.id != old
    assert opened.row(old).state == "superseded"


def test_a_live_memory_is_preferred_to_a_forgotten_one_of_the_same_content(opened) -> None:
    gone, live = opened.add("same words", id="a"), opened.add("same words", id="b")
    opened.forget(gone)

    assert opened.remember("same words").memory.id == live


def test_what_is_over_is_true_again_when_it_is_said_again(opened) -> None:
    memory = opened.add("Ann is in Rome", expires_at=opened.now + 10)
    opened.clock.advance(20)
    assert opened.found("Ann is in Rome") == []

    again = opened.remember("Ann is in Rome")

    assert (again.memory.id, again.restored, again.memory.expires_at) == (memory, True, None)
    assert opened.found("Ann is in Rome") == [memory]


def test_b9_known_content_is_found_among_two_thousand(opened) -> None:
    """By its hash: no text is read to find it."""
    texts = [f"fact number {n} about the garden" for n in range(2_000)]
    writes = [opened.admit({"content": text}) for text in texts]
    for n, (write, vectors) in enumerate(zip(writes, opened.gate.vectors(texts), strict=True)):
        opened.stores.writer.remember(write, vectors, opened.now, f"m{n}")

    assert opened.remember(texts[1_234]).memory.id == "m1234"
    assert len(opened.stores.catalogue) == 2_000


def test_a16_the_same_id_again_sets_what_is_given_and_leaves_the_rest(opened) -> None:
    opened.add("first", id="m", tier="core", tags=["a"], emotion=0.9, importance=0.8, event_at=5.0, author="Ann")
    created = opened.row("m").created_at
    opened.clock.advance(DAY)

    again = opened.remember("second", id="m", importance=0.1)

    memory = opened.read("m")
    assert not again.created
    assert (memory.content, memory.importance) == ("second", 0.1)
    assert (memory.tier, memory.tags, memory.emotion, memory.event_at, memory.author) == (
        "core",
        ("a",),
        0.9,
        5.0,
        "Ann",
    )
    assert (memory.created_at, memory.updated_at, memory.access_count) == (created, opened.now, 0)


def test_the_same_id_in_another_scope_is_a_conflict(opened) -> None:
    opened.add("first", id="m")

    with pytest.raises(Conflict):
        opened.add("second", id="m", scope="default/finer")


def test_the_same_id_in_the_bin_is_a_conflict_that_names_restore(opened) -> None:
    opened.add("first", id="m")
    opened.forget("m")

    with pytest.raises(Conflict) as refused:
        opened.add("second", id="m")
    assert refused.value.hint == "dreamctl restore m"


def test_an_id_that_only_exists_above_the_clearance_is_not_found(opened) -> None:
    opened.add("the code is blue", id="m", sensitivity="secret")

    with pytest.raises(NotFound):
        opened.remember("mine", id="m", clearance="personal")
    assert opened.read("m").content == "the code is blue"


def felt(opened: Opened, *emotions: float) -> float:
    """What a memory inherits from three near ones that feel so."""
    for n, emotion in enumerate(emotions):
        opened.add(f"the cat chased the mouse {n}", emotion=emotion)
    return opened.remember("the cat chased the mouse").memory.emotion


@pytest.mark.parametrize(
    ("emotions", "golden"),
    [
        ((0.9, 0.9, 0.9), 0.05 * 0.9 + 0.95 * 0.5),
        ((1.0, 0.8, 0.9), 0.05 * 0.9 + 0.95 * 0.5),
        ((0.0, 1.0, 0.5), 0.15 * 0.5 + 0.85 * 0.5),
        ((0.0, 0.9, 0.9), 0.15 * 0.6 + 0.85 * 0.5),
        ((0.0,), 0.05 * 0.0 + 0.95 * 0.5),
        ((0.5, 0.5, 0.5), 0.5),
        ((), 0.5),
    ],
)
def test_a_memory_inherits_a_little_of_what_lies_near(opened, emotions, golden) -> None:
    """Source: anchor-memory: p * mean + (1 - p) / 2, p = 0.15 where the variance is above 0.02, else 0.05."""
    assert felt(opened, *emotions) == pytest.approx(golden)


def test_a6_an_emotion_of_zero_is_a_given_one(opened) -> None:
    opened.add("the cat chased the mouse", emotion=1.0)

    assert opened.remember("the cat chased the mouse again", emotion=0.0).memory.emotion == 0.0
    assert opened.remember("the cat chased the mouse twice", emotion=0.5).memory.emotion == 0.5


@pytest.mark.parametrize(
    "near", [{"scope": "default/finer"}, {"scope": "other"}, {"sensitivity": "secret"}, {"expires_at": 5.0}]
)
def test_nothing_is_inherited_from_another_scope_from_above_the_clearance_or_from_what_is_over(opened, near) -> None:
    opened.add("a dog slept", emotion=0.5001)
    for n in range(15):
        opened.add(f"the cat chased the mouse {n}", emotion=1.0, **near)

    emotion = opened.remember("the cat chased the mouse", clearance="personal").memory.emotion

    assert emotion == pytest.approx(0.5, abs=0.001)


def test_row_72_a_text_at_the_limit_is_stored_whole_and_its_end_is_found(opened) -> None:
    tail = " the password hint is xylophone"
    text = "word " * ((MAX_CONTENT_BYTES - len(tail)) // 5) + tail
    memory = opened.add(text)
    opened.add("something else")

    assert opened.read(memory).content == text
    assert opened.found("xylophone", k=1, keywords_alone=True) == [memory]


@pytest.mark.parametrize("text", ["今天玩成语接龙游戏", "naïve café 🐱", "e\u0301", "a\tb\nc", "."])
def test_any_script_is_kept_in_nfc_and_known_again(opened, text) -> None:
    memory = opened.add(text)

    assert opened.read(memory).content == ("é" if text == "e\u0301" else text)
    assert opened.remember(text).memory.id == memory
