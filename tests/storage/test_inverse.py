"""What takes a change back: field by field, only what is as the run left it, and never over what somebody edited since."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.changes import Edge, Insert, Patch, RecordChange
from storage.inverse import first_versions, inverse
from storage.ledger import Entry
from storage.model import Memory, Version
from storage.records import owner_of, record_key, version_key, version_payload
from storage.synapses import associate
from tests.storage.merging import merged, undo
from tests.storage.opened import Opened

NOW = 1_767_225_600.0
NOTE = {"kind": "note", "owner": "m", "text": "x", "seen": 1, "at": NOW}
KEY = record_key("m", "note")


@pytest.fixture
def one(opened) -> Opened:
    opened.add("a memory", id="m", emotion=0.5)
    opened.add("another", id="n", emotion=0.5)
    return opened


def ran(opened: Opened, *changes: Any, run: str = "run") -> None:
    assert opened.stores.changer.apply(run, changes, NOW).skipped == []


# -- records


@pytest.mark.parametrize(
    ("after", "since", "back", "left"),
    [
        ({"owner": "n"}, {}, {}, False),
        ({"owner": "n"}, {"seen": 2}, {"seen": 2}, False),
        ({"owner": "n", "more": [1]}, {"seen": 2, "new": True}, {"seen": 2, "new": True}, False),
        ({"owner": "n", "seen": 5}, {"seen": 6}, {"seen": 6}, True),
        ({"owner": "n", "more": [1]}, {"more": [1, 2]}, {"more": [1, 2]}, True),
        ({"owner": "n", "at": NOW + 1}, {"owner": "m"}, {}, False),
    ],
)
def test_of_a_record_that_was_changed_each_field_goes_back_that_is_as_the_run_left_it(
    one, after, since, back, left
) -> None:
    records = one.stores.records
    records.put({KEY: NOTE})
    ran(one, RecordChange(KEY, NOTE, {**NOTE, **after}, "default"))
    records.put({KEY: {**NOTE, **after, **since}})

    assert undo(one, "run") == ([KEY] if left else [])
    assert records.get([KEY]) == {KEY: {**NOTE, **back}}


def test_a_field_that_the_run_took_away_comes_back_unless_it_was_set_anew(one) -> None:
    records = one.stores.records
    for number, since in enumerate(({}, {"seen": 9})):
        records.put({KEY: NOTE})
        short = {name: value for name, value in NOTE.items() if name != "seen"}
        ran(one, RecordChange(KEY, NOTE, short, "default"), run=f"run {number}")
        records.put({KEY: {**short, **since}})
        assert undo(one, f"run {number}") == [KEY] * bool(since)
        assert records.get([KEY])[KEY] == {**NOTE, **since}


def test_a_record_that_the_run_made_goes_only_while_it_is_unchanged(one) -> None:
    records = one.stores.records
    ran(one, RecordChange(KEY, None, NOTE, "default"))
    records.put({KEY: {**NOTE, "seen": 2}})
    assert undo(one, "run") == [KEY]
    assert records.get([KEY])[KEY]["seen"] == 2

    records.put({KEY: NOTE})
    assert undo(one, "run") == []
    assert records.get([KEY]) == {}


def test_a_record_that_the_run_removed_comes_back_only_where_there_is_none_and_its_owner_is_there(one) -> None:
    records = one.stores.records
    of_scope = {**NOTE, "owner": owner_of("notes", "default")}
    keys = [KEY, record_key("n", "note"), record_key("scope", "note")]
    records.put({keys[0]: NOTE, keys[1]: {**NOTE, "owner": "n"}, keys[2]: of_scope})
    removed = records.get(keys)
    ran(one, *(RecordChange(key, removed[key], None, "default") for key in keys))
    records.put({keys[0]: {**NOTE, "text": "another"}})
    one.stores.changer.erase(["n"])

    assert set(undo(one, "run")) == set(keys[:2])
    assert records.get(keys) == {keys[0]: {**NOTE, "text": "another"}, keys[2]: of_scope}


def test_a_record_that_is_gone_by_now_is_left_gone(one) -> None:
    one.stores.records.put({KEY: NOTE})
    ran(one, RecordChange(KEY, NOTE, {**NOTE, "owner": "n"}, "default"))
    one.stores.records.drop([KEY])

    assert undo(one, "run") == [KEY]
    assert one.stores.records.get([KEY]) == {}


# -- what was never done


def test_what_is_as_it_was_before_is_neither_taken_back_nor_left(one) -> None:
    held = associate("m", "n", "similar", 0.3, NOW)
    version = version_payload(Version("m", 1, "x", "", "semantic", (), {}, "public", "", NOW, NOW))
    one.stores.records.put({KEY: NOTE})
    before = {"heat": "warm", "tags": [], "emotion": 0.5, "version": 1, "change_summary": ""}
    after = {"heat": "hot", "tags": ["x"], "emotion": 0.6, "version": 2, "change_summary": "merged with n"}
    bin_before = {"forgotten_at": None, "forgotten_reason": ""}
    images: list[tuple[str, str, Any, Any]] = [
        ("patch", "m", before, after),
        ("forget", "n", bin_before, {"forgotten_at": NOW, "forgotten_reason": "decayed"}),
        ("edge", held.key, None, held),
        ("record", version_key("m", 1), None, version),
        ("record", KEY, NOTE, {**NOTE, "owner": "n"}),
        ("record", KEY, NOTE, None),
    ]
    one.ledger.write_journal("run", NOW, [(op, key, "default", *pair) for op, key, *pair in images])

    assert [inverse(one.stores, entry, NOW) for entry in one.ledger.journal_of("run")] == [(None, False)] * len(images)


def test_instants_that_lie_closer_together_than_the_engine_is_exact_are_told_apart(one) -> None:
    """Two memories that are made at one instant differ by a millionth of a second."""
    edge = associate("m", "n", "similar", 0.3, NOW)
    one.stores.synapses.put([edge])
    one.stores.memories.patch({"m": {"event_at": NOW}})
    ran(
        one,
        Patch("m", one.row("m").seq, {"event_at": NOW + 1e-6}),
        Edge(edge.key, edge, edge._replace(as_of=NOW + 1e-6), "default"),
    )
    assert one.row("m").event_at != NOW

    assert undo(one, "run") == []
    assert (one.row("m").event_at, one.stores.synapses.get(edge.key).as_of) == (NOW, NOW)


# -- versions


def test_an_import_is_undone_whole_after_a_merge_into_it_that_was_taken_back(one) -> None:
    vectors = one.gate.vectors(["brought"])[0]
    ran(one, Insert(Memory(id="i", content="brought", created_at=NOW), vectors), run="import")
    one.update("n", content="another one")
    merged(one, "i", "n", run="merge")
    undo(one, "merge")
    assert one.row("i").version > 1

    assert undo(one, "import") == []
    assert one.row("i").state == "forgotten"


def test_an_import_that_was_edited_since_is_left(one) -> None:
    vectors = one.gate.vectors(["brought"])[0]
    ran(one, Insert(Memory(id="i", content="brought", created_at=NOW), vectors), run="import")
    merged(one, "i", "n", run="merge")
    one.update("i", content="brought and edited")
    undo(one, "merge")

    assert undo(one, "import") == ["i"]
    assert one.row("i").state == "live"


steps = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.sampled_from([("tags",), ("metadata",), ("tags", "metadata")])),
        st.tuples(st.just("edit"), st.sampled_from(["tags", "metadata", "other"])),
        st.tuples(st.just("undo"), st.integers(0, 5)),
        st.tuples(st.just("last"), st.just(0)),
    ),
    max_size=14,
)


class Told:
    """What a memory said as each of its versions, and the journal of it: runs that edit, people who do, undos of whatever."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {"tags": 0, "metadata": 0, "other": 0}
        self.version = 1
        self.said: dict[int, dict[str, Any]] = {1: dict(self.fields)}
        self.entries: list[Entry] = []

    def edit(self, fields: dict[str, Any], *, by_run: bool) -> None:
        before = {name: self.fields[name] for name in fields} | {"version": self.version}
        self.version += 1
        self.fields |= fields
        self.said[self.version] = dict(self.fields)
        if by_run:
            after = fields | {"version": self.version}
            self.entries.append(Entry(len(self.entries), "r", 0.0, "patch", "m", "a", False, before, after))

    def undo(self, which: int) -> None:
        """Take an entry back as far as it stands; the undo is an entry as well."""
        entry = self.entries[which]
        assert entry.before is not None
        assert entry.after is not None
        back = {
            name: was
            for name, was in entry.before.items()
            if name != "version" and self.fields[name] == entry.after[name]
        }
        if back:
            self.edit(back, by_run=True)
            self.entries[which] = entry._replace(undone=True)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_versions_that_are_told_to_say_the_same_say_the_same(planned) -> None:
    """However runs, edits and undos follow on one another."""
    memory, new = Told(), iter(range(1, 99))
    for verb, what in planned:
        standing = [number for number, entry in enumerate(memory.entries) if not entry.undone]
        if verb == "run":
            memory.edit({name: next(new) for name in what}, by_run=True)
        elif verb == "edit":
            memory.edit({what: next(new)}, by_run=False)
        elif standing:
            memory.undo(standing[-1] if verb == "last" else standing[what % len(standing)])

    for version, first in first_versions(memory.entries[::-1]).items():
        assert first < version
        assert memory.said[version] == memory.said[first]


def test_an_undo_that_a_restored_snapshot_made_undone_makes_no_versions_the_same() -> None:
    """Its entry stays, and its number may have come again for an edit."""
    memory = Told()
    memory.edit({"tags": 1}, by_run=True)
    memory.undo(0)
    assert first_versions(memory.entries[::-1]) == {3: 1}

    memory.entries[0] = memory.entries[0]._replace(undone=False)

    assert first_versions(memory.entries[::-1]) == {}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([("tags",), ("metadata",), ("tags", "metadata")]), min_size=1, max_size=6), st.data())
def test_runs_that_are_taken_back_in_reverse_leave_what_was_said_before_each(runs, data) -> None:
    memory, new = Told(), iter(range(1, 99))
    versions = []
    for what in runs:
        versions.append(memory.version)
        memory.edit({name: next(new) for name in what}, by_run=True)
    for number in reversed(range(data.draw(st.integers(0, len(runs))), len(runs))):
        memory.undo(number)
        first = first_versions(memory.entries[::-1])
        assert first[memory.version] == versions[number]
