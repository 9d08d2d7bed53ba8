"""Memories as points: nothing is lost by writing, patching, moving or a crash in the middle of a move."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.engine import Point, Query
from storage.errors import Conflict, NotFound, Unavailable
from storage.memories import BATCH, BIN, LIVE, Vectors, from_payload, to_payload
from storage.model import HEATS, SENSITIVITIES, SOURCES, TIERS, TYPES, Memory, point_id, scored_text
from storage.rank import Weights
from storage.store import Stores
from tests.fakes import MortalEngine

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
floats = st.floats(-1e6, 1e6).map(lambda number: round(number, 6))
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | floats | texts
metadata = st.dictionaries(
    texts, st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)),
    max_size=3,
)  # fmt: skip
several = st.lists(texts, max_size=3).map(tuple)
shares = st.floats(0.0, 1.0).map(lambda share: round(share, 9))
instants = st.floats(0.0, 4e9).map(lambda instant: round(instant, 6))

memories = st.builds(
    Memory,
    id=st.just("m"), content=texts, context=texts, author=texts, session=texts, subtype=texts, tags=several,
    entities=several, source_turns=several, metadata=metadata, scope=st.sampled_from(["a", "a/b", "日本/東京"]),
    type=st.sampled_from(TYPES), tier=st.sampled_from(TIERS), heat=st.sampled_from(HEATS), source=st.sampled_from(SOURCES),
    sensitivity=st.sampled_from(SENSITIVITIES), pinned=st.booleans(), emotion=shares, importance=shares, confidence=shares,
    redactions=st.dictionaries(texts, st.integers(1, 9), max_size=2), version=st.integers(1, 9), seq=st.integers(1, 99),
    created_at=instants, updated_at=instants, event_at=st.none() | instants, accessed_at=st.none() | instants,
    access_count=st.integers(0, 99), expires_at=st.none() | instants, content_hash=texts, asks=st.booleans(),
)  # fmt: skip


def vectors(opened, memory: Memory) -> Vectors:
    return opened.gate.vectors([scored_text(memory.author, memory.content or "nothing")])[0]


def insert(opened, *rows: Memory) -> None:
    opened.stores.memories.insert([(row, vectors(opened, row)) for row in rows])


def stored(opened, collection: str, memory: str) -> dict[str, object] | None:
    record = opened.engine.retrieve(collection, [point_id(memory)]).get(point_id(memory))
    return None if record is None else record.payload


def add_unknown(opened, memory: str) -> None:
    """Store what only a later version knows."""
    opened.engine.set_payload(LIVE, {point_id(memory): {"mood": {"of": ["a", None]}, "strength": 3}})


def unknown(opened, collection: str, memory: str) -> object:
    payload = stored(opened, collection, memory) or {}
    return payload.get("mood"), payload.get("strength")


KEPT = ({"of": ["a", None]}, 3)


@given(memories)
def test_a_memory_comes_back_from_its_payload_as_it_was(memory) -> None:
    payload = json.loads(json.dumps(to_payload(memory)))

    assert from_payload(payload) == memory
    assert None not in [payload[name] for name in payload]


@settings(max_examples=25, deadline=None)
@given(memories)
def test_a_memory_comes_back_from_the_store_as_it_was(shared, memory) -> None:
    shared.engine.delete(LIVE, [point_id("m")])
    insert(shared, memory)

    assert shared.read("m") == memory


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=20, max_size=20))
def test_any_other_float_comes_back_but_for_its_last_digit(shared, numbers) -> None:
    """The engine reads numbers of 17 digits a little off; 15 digits, or an instant in microseconds, stay exact."""
    shared.engine.delete(LIVE, [point_id("m")])
    insert(shared, Memory(id="m", metadata={"numbers": numbers}))

    assert shared.read("m").metadata["numbers"] == pytest.approx(numbers, rel=1e-15, abs=5e-324)


def test_a_payload_lists_every_scope_that_sees_it() -> None:
    assert to_payload(Memory(id="m", scope="a/b/c"))["scopes"] == ["a", "a/b", "a/b/c"]


def test_reading_leaves_out_what_does_not_exist_and_finds_what_lies_in_the_bin(opened) -> None:
    a, b = opened.add("one"), opened.add("two")
    opened.forget(b)

    assert {memory.content for memory in opened.stores.memories.read([a, b, "nobody"]).values()} == {"one", "two"}
    with pytest.raises(NotFound):
        opened.stores.memories.read_one("nobody")


def test_a15_a_missing_id_and_a_hidden_one_are_not_found_in_the_same_words(opened) -> None:
    hidden = opened.add("the code is blue", sensitivity="secret")
    memories = opened.stores.memories

    for call in (memories.visible, partial(memories.live, now=opened.now)):
        with pytest.raises(NotFound) as absent:
            call("nobody", "personal")
        with pytest.raises(NotFound) as above:
            call(hidden, "personal")
        assert above.value.detail.replace(hidden, "nobody") == absent.value.detail
        assert above.value.hint == absent.value.hint
        assert call(hidden, "secret").id == hidden


def test_what_lies_in_the_bin_is_visible_and_not_live(opened) -> None:
    memory = opened.add("one")
    opened.forget(memory)

    assert opened.stores.memories.visible(memory, "secret").state == "forgotten"
    with pytest.raises(Conflict) as refused:
        opened.stores.memories.live(memory, "secret", opened.now)
    assert refused.value.hint == f"dreamctl restore {memory}"


def test_who_asks_for_what_was_superseded_hears_who_took_its_place(opened) -> None:
    """Over however many, and in words that a caller who may not know of that one gets as if there were none."""
    for name in ("old", "newer", "newest"):
        opened.add(f"the {name} one", id=name, sensitivity="secret" if name == "newest" else "personal")
    opened.forget("old", superseded_by="newer")
    opened.forget("newer", superseded_by="newest")
    memories = opened.stores.memories

    def refused(clearance: str = "secret") -> Conflict:
        with pytest.raises(Conflict) as refusal:
            memories.live("old", clearance, opened.now)
        return refusal.value

    named = refused()
    assert named.detail == "Memory 'old' is superseded by 'newest'."
    assert (named.hint, named.extra) == ("dreamctl get newest", {"state": "superseded", "superseded_by": "newest"})
    hidden = refused("personal")
    assert (hidden.detail, hidden.hint) == ("Memory 'old' is superseded.", "dreamctl restore old")
    assert hidden.extra == {"state": "superseded"}
    opened.update("newest", expires_at=opened.now + 5)
    opened.clock.advance(5)
    assert refused().hint == "dreamctl restore old"


def test_of_memories_that_name_each_other_as_successors_none_is_live(opened) -> None:
    for name in ("a", "b"):
        opened.add(f"the {name} one", id=name)
    opened.stores.memories.move({"a": {"invalid_at": 1.0, "superseded_by": "b"}})
    opened.stores.memories.move({"b": {"invalid_at": 1.0, "superseded_by": "a"}})

    assert [opened.stores.catalogue.heir(opened.row(name)) for name in ("a", "b")] == [None, None]


def test_a_patch_sets_and_removes_fields_and_raises_the_sequence_number(opened) -> None:
    memory = opened.add("one", event_at=5.0, metadata={"a": {"b": 1}, "c": None}, tags=["x"])
    opened.stores.memories.patch({memory: {"event_at": None, "metadata": {"a": {"d": None}}, "tags": ("y", "z")}})

    read = opened.read(memory)
    assert (read.event_at, read.metadata, read.tags, read.seq) == (None, {"a": {"d": None}}, ("y", "z"), 2)
    assert "event_at" not in stored(opened, LIVE, memory)
    assert opened.row(memory) == replace(read, content="")


def test_a_patch_reaches_the_live_and_the_binned_in_one_call(opened) -> None:
    live, gone = opened.add("one"), opened.add("two")
    opened.forget(gone)

    opened.stores.memories.patch({live: {"pinned": True}, gone: {"pinned": True}})

    assert opened.read(live).pinned
    assert opened.read(gone).pinned
    assert opened.read(gone).state == "forgotten"


def test_a_move_carries_a_memory_with_its_vectors_there_and_back(opened) -> None:
    memory = opened.add("the cat chased the mouse", author="Ann")
    before = opened.engine.retrieve(LIVE, [point_id(memory)], vectors=True)[point_id(memory)]

    opened.stores.memories.move({memory: {"forgotten_at": 7.0}})
    assert stored(opened, LIVE, memory) is None
    assert opened.read(memory).state == "forgotten"
    opened.stores.memories.move({memory: {"forgotten_at": None}})

    after = opened.engine.retrieve(LIVE, [point_id(memory)], vectors=True)[point_id(memory)]
    assert stored(opened, BIN, memory) is None
    assert np.array_equal(before.dense, after.dense)
    assert before.text == after.text
    assert after.payload == before.payload | {"seq": 3}


def test_a_move_that_does_not_change_the_state_stays_where_it_is(opened) -> None:
    memory = opened.add("one")
    opened.forget(memory)

    opened.stores.memories.move({memory: {"forgotten_at": None, "invalid_at": 9.0}})

    assert stored(opened, LIVE, memory) is None
    assert opened.read(memory).state == "superseded"


def test_moves_in_both_directions_go_in_one_call(opened) -> None:
    here, there = opened.add("one"), opened.add("two")
    opened.forget(there)

    opened.stores.memories.move({here: {"forgotten_at": 7.0}, there: {"forgotten_at": None}})

    assert (opened.row(here).state, opened.row(there).state) == ("forgotten", "live")
    assert (opened.engine.count(LIVE), opened.engine.count(BIN)) == (1, 1)


def test_more_memories_than_fit_a_batch_all_move(opened) -> None:
    ids = [f"m{n}" for n in range(BATCH + 5)]
    vectors = opened.gate.vectors(ids)
    opened.stores.memories.insert([(Memory(id=one, content=one), made) for one, made in zip(ids, vectors, strict=True)])

    opened.stores.memories.move({one: {"forgotten_at": 7.0} for one in ids})

    assert (opened.engine.count(LIVE), opened.engine.count(BIN)) == (0, len(ids))
    assert (len(opened.stores.catalogue), opened.stores.catalogue.gone_count) == (0, len(ids))


def test_b11_fields_of_a_later_version_survive_a_patch_a_rewrite_and_moves(opened) -> None:
    memory = opened.add("one")
    add_unknown(opened, memory)

    opened.stores.memories.patch({memory: {"pinned": True}})
    assert unknown(opened, LIVE, memory) == KEPT
    opened.update(memory, content="two", tags=["x"], event_at=5.0)
    assert unknown(opened, LIVE, memory) == KEPT
    opened.update(memory, event_at=None, content="three")
    assert "event_at" not in stored(opened, LIVE, memory)
    opened.forget(memory)
    assert unknown(opened, BIN, memory) == KEPT
    opened.stores.memories.move({memory: {"forgotten_at": None}})
    assert unknown(opened, LIVE, memory) == KEPT
    opened.reopen()
    assert unknown(opened, LIVE, memory) == KEPT


def test_b11_a_point_that_is_no_memory_is_left_alone_and_never_shown(opened) -> None:
    memory = opened.add("the cat chased the mouse")
    opened.engine.upsert(
        LIVE,
        [Point(point_id("foreign"), {"scopes": ["default"], "kind": "dream"}, *vectors(opened, Memory(id="x"))[:2])],
    )
    opened.reopen()

    assert opened.found("the cat", k=10) == [memory]
    assert len(opened.stores.catalogue) == 1
    assert opened.engine.count(LIVE) == 2


def leave_behind(opened, memory: str, collection: str, target: str, fields: dict[str, object]) -> None:
    """Move a memory as a process does that is killed before it deletes the source."""
    record = opened.engine.retrieve(collection, [point_id(memory)], vectors=True)[point_id(memory)]
    payload = {name: value for name, value in (record.payload | fields).items() if value is not None}
    payload["seq"] = record.payload["seq"] + 1
    opened.engine.upsert(target, [Point(record.id, payload, record.dense, record.text)])


def test_a25_a_crash_in_the_middle_of_a_move_to_the_bin_leaves_the_memory_in_the_bin_alone(opened) -> None:
    memory = opened.add("the cat chased the mouse")
    leave_behind(opened, memory, LIVE, BIN, {"forgotten_at": opened.now})

    opened.reopen()

    assert opened.row(memory).state == "forgotten"
    assert (opened.engine.count(LIVE), opened.engine.count(BIN)) == (0, 1)
    assert opened.found("the cat") == []


def test_a25_a_crash_in_the_middle_of_a_move_out_of_the_bin_leaves_the_memory_live_alone(opened) -> None:
    memory = opened.add("the cat chased the mouse")
    opened.forget(memory)
    leave_behind(opened, memory, BIN, LIVE, {"forgotten_at": None})

    opened.reopen()

    assert opened.row(memory).state == "live"
    assert (opened.engine.count(LIVE), opened.engine.count(BIN)) == (1, 0)
    assert opened.found("the cat") == [memory]


def test_a25_a_move_whose_source_cannot_be_removed_is_made_and_stays_made_after_a_restart(fresh) -> None:
    """Else it would be live until the restart and in the bin from then on."""
    fresh.add("one", id="m")
    fields = {"forgotten_at": 5.0, "forgotten_reason": "request"}
    engine = MortalEngine(fresh.engine, Unavailable("The disk is full.", hint="df -h"))
    stores = Stores(engine, fresh.ledger, weights=Weights(), default_sensitivity="personal")
    stores.load()
    engine.writes_left = 1
    with pytest.raises(Unavailable):
        stores.memories.move({"m": fields})
    assert stores.memories.row("m").state == "forgotten"

    engine.writes_left = 9
    stores.memories.move({"m": dict.fromkeys(fields) | {"forgotten_reason": ""}})
    assert (stored(fresh, LIVE, "m") is None, stored(fresh, BIN, "m")) == (False, None)
    fresh.reopen()
    assert fresh.row("m").state == "live"


def test_a_damaged_store_is_read_and_not_mended(opened) -> None:
    memory = opened.add("one")
    leave_behind(opened, memory, LIVE, BIN, {"forgotten_at": opened.now})
    catalogue = opened.stores.catalogue

    opened.stores.memories.load(mend=False)

    assert catalogue.get(memory).state == "forgotten"
    assert (opened.engine.count(LIVE), opened.engine.count(BIN)) == (1, 1)


def test_what_is_erased_is_gone_from_wherever_it_was(opened) -> None:
    live, gone, kept = opened.add("one"), opened.add("two"), opened.add("three")
    opened.forget(gone)

    opened.stores.memories.erase([live, gone, "nobody"])

    assert (opened.engine.count(LIVE), opened.engine.count(BIN)) == (1, 0)
    assert [row.id for row in opened.stores.catalogue.every()] == [kept]


def test_b21_a_memory_in_the_bin_takes_no_place_among_the_found(opened) -> None:
    """There is one truth: what is binned has no vector left behind to use up the nearest places."""
    gone = [opened.add(f"the cat chased the mouse {n}") for n in range(60)]
    kept = opened.add("a cat slept")
    opened.forget(*gone)

    scored = opened.engine.search(LIVE, [Query(opened.gate.question("the cat chased the mouse")[0], None, 50)])[0]

    assert [opened.stores.catalogue.at_point(one.id).id for one in scored] == [kept]
    assert opened.found("the cat chased the mouse") == [kept]
