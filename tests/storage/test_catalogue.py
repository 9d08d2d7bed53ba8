"""The rows in RAM: whatever was done to them, they are what the store would rebuild."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from storage.catalogue import Catalogue, count_by
from storage.model import EVERY_SCOPE, Memory, covers, point_id

NOW = 1_767_225_600.0
SCOPES = ("a", "a/b", "a/b/c", "ab", "z")
AUTHORS = ("", "Ann", "Bob Ray", "李雷")
TEXT = "Ann asked Bob Ray and 李雷"

scopes = st.sampled_from(SCOPES)
sessions = st.sampled_from(["", "s1", "s2"])
authors = st.sampled_from(AUTHORS)
hashes = st.sampled_from(["h1", "h2", "h3"])
emotions = st.sampled_from([0.0, 0.5, 0.9])
instants = st.sampled_from([NOW, NOW + 1, NOW + 2])


def rebuilt(rows: dict[str, Memory]) -> Catalogue:
    """A catalogue as `Memories.load` fills it."""
    catalogue = Catalogue()
    for row in sorted(rows.values(), key=lambda one: (one.created_at, one.id)):
        catalogue.put(row)
    return catalogue


class Catalogues(RuleBasedStateMachine):
    """Puts and drops, compared after each step with a catalogue that never saw a change."""

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.catalogue = Catalogue()
        self.rows: dict[str, Memory] = {}

    def put(self, row: Memory) -> None:
        self.catalogue.put(replace(row, content="text", context="more text"))
        self.rows[row.id] = row

    @rule(
        target=ids, scope=scopes, session=sessions, author=authors, content_hash=hashes, emotion=emotions, at=instants
    )
    def create(self, scope, session, author, content_hash, emotion, at) -> str:
        row = Memory(
            id=f"m{len(self.rows)}-{scope}-{at}", scope=scope, session=session, author=author, content_hash=content_hash,
            emotion=emotion, created_at=at, tags=("x",),
        )  # fmt: skip
        self.put(row)
        return row.id

    @rule(memory=ids, author=authors, content_hash=hashes, session=sessions, emotion=emotions, at=instants)
    def edit(self, memory, author, content_hash, session, emotion, at) -> None:
        if memory in self.rows:
            changed = {"author": author, "content_hash": content_hash, "session": session, "created_at": at}
            self.put(replace(self.rows[memory], **changed, emotion=emotion, seq=self.rows[memory].seq + 1))

    @rule(memory=ids, emotion=emotions)
    def feel(self, memory, emotion) -> None:
        if memory in self.rows:
            self.put(replace(self.rows[memory], emotion=emotion))

    @rule(memory=ids, superseded=st.booleans())
    def bin(self, memory, superseded) -> None:
        if memory in self.rows:
            field = "invalid_at" if superseded else "forgotten_at"
            self.put(replace(self.rows[memory], **{field: NOW}))

    @rule(memory=ids)
    def restore(self, memory) -> None:
        if memory in self.rows:
            self.put(replace(self.rows[memory], invalid_at=None, forgotten_at=None))

    @rule(memory=consumes(ids))
    def drop(self, memory) -> None:
        self.catalogue.drop(memory)
        self.rows.pop(memory, None)

    @invariant()
    def answers_are_those_of_the_rows(self) -> None:
        live = {memory for memory, row in self.rows.items() if row.state == "live"}
        assert (len(self.catalogue), self.catalogue.gone_count) == (len(live), len(self.rows) - len(live))
        assert {row.id: row for row in self.catalogue.every()} == self.rows
        for scope in (*SCOPES, EVERY_SCOPE, "b"):
            seen = {memory for memory, row in self.rows.items() if covers(scope, row.scope)}
            assert {row.id for row in self.catalogue.rows(scope)} == seen & live
            assert {row.id for row in self.catalogue.gone(scope)} == seen - live
            assert self.catalogue.count(scope) == len(seen & live)
            named = {self.rows[memory].author for memory in seen & live} - {""}
            assert self.catalogue.names_in(scope, TEXT, "secret") == named
            for content_hash in ("h1", "h2", "h3"):
                same = {m for m, row in self.rows.items() if (row.scope, row.content_hash) == (scope, content_hash)}
                assert {row.id for row in self.catalogue.same_content(scope, content_hash)} == same
        for memory, row in self.rows.items():
            assert memory in self.catalogue
            assert self.catalogue.at_point(point_id(memory)) == row

    @invariant()
    def equals_one_rebuilt_from_its_rows(self) -> None:
        fresh = rebuilt(self.rows)
        for scope in SCOPES:
            here, there = self.catalogue.scope(scope), fresh.scope(scope)
            # Equal dicts may differ in order; the order of a session counts.
            assert here == there
            assert {name: list(members) for name, members in here.sessions.items()} == {
                name: list(members) for name, members in there.sessions.items()
            }
            for session in ("s1", "s2"):
                assert self.catalogue.last_in_session(scope, session) == fresh.last_in_session(scope, session)
        assert vars(self.catalogue).keys() == vars(fresh).keys()
        for index in ("_rows", "_ids", "_hashes", "_scopes", "_views"):
            assert vars(self.catalogue)[index] == vars(fresh)[index], index


Catalogues.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_after_any_puts_and_drops_the_catalogue_is_the_one_rebuilt_from_its_rows = Catalogues.TestCase


def test_a_row_is_kept_without_its_text() -> None:
    catalogue = Catalogue()
    catalogue.put(Memory(id="m", content="text", context="more", metadata={"a": 1}))

    row = catalogue.get("m")
    assert row is not None
    assert (row.content, row.context, row.metadata) == ("", "", {"a": 1})
    assert catalogue.get("other") is None
    assert catalogue.at_point(point_id("other")) is None


def test_dropping_what_is_not_there_does_nothing() -> None:
    catalogue = Catalogue()
    catalogue.drop("nobody")

    assert len(catalogue) == 0


def test_a_session_is_in_the_order_of_creation_whoever_comes_back_last() -> None:
    catalogue = Catalogue()
    rows = [Memory(id=f"m{n}", session="s", created_at=NOW + n) for n in range(3)]
    for row in rows:
        catalogue.put(row)
    catalogue.put(replace(rows[0], forgotten_at=NOW))
    catalogue.put(rows[0])

    assert catalogue.session_of(rows[1]) == ["m0", "m1", "m2"]
    assert catalogue.last_in_session("default", "s") == "m2"
    assert catalogue.last_in_session("default", "other") is None
    assert catalogue.session_of(Memory(id="lone")) == []


@given(st.floats(1.7e9, 4.1e9), st.lists(st.floats(0.0, 1e-5), min_size=1, max_size=20))
def test_creations_at_one_instant_get_rising_instants_of_their_own(now, steps) -> None:
    catalogue = Catalogue()
    stamps = []
    for step in steps:
        now += step
        stamps.append(catalogue.stamp(now))

    assert stamps[0] == pytest.approx(now - sum(steps[1:]), abs=1e-5)
    assert stamps == sorted(set(stamps))
    assert stamps == [round(stamp, 6) for stamp in stamps]
    assert catalogue.stamp(now + 5) == round(now + 5, 6)


def test_a_clock_that_ran_ahead_and_was_set_back_is_believed() -> None:
    """One bad hour must not date all that follows into the future."""
    catalogue = Catalogue()
    catalogue.stamp(NOW + 3600)
    catalogue.put(Memory(id="imported", created_at=NOW + 7200))

    assert catalogue.stamp(NOW) == NOW


def test_a_clock_that_is_slewed_back_a_little_keeps_the_order() -> None:
    catalogue = Catalogue()
    first = catalogue.stamp(NOW + 0.2)

    assert first < catalogue.stamp(NOW) < NOW + 0.3


def test_counts_by_a_field_stand_commonest_first() -> None:
    rows = [Memory(id=str(n), tier=tier) for n, tier in enumerate(["short", "long", "short", "core", "short", "long"])]

    assert list(count_by(rows, "tier").items()) == [("short", 3), ("long", 2), ("core", 1)]
