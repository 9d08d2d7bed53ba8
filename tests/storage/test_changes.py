"""A run's changes: checked when they are made, journalled before, and taken back by their images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.changes import Applied, Change, Edge, Erase, Move, Patch, RecordChange
from storage.edge import EdgeEngine
from storage.errors import Unavailable
from storage.inverse import inverse
from storage.model import HEATS, TIERS, Synapse, Version, synapse_key
from storage.records import version_key, version_payload
from storage.store import Stores, collections
from storage.synapses import associate
from tests.storage.opened import Opened

NOW = 1_767_225_601.123_456_7  # of the kind that the engine gives back with another last digit
GONE = {"forgotten_at": NOW, "forgotten_reason": "decayed"}
REPLACED = {"invalid_at": NOW, "superseded_by": "m0"}


@pytest.fixture
def some(opened) -> Iterator[Opened]:
    """Four memories m0..m3 of one scope, with an edge between the first two."""
    for n in range(4):
        opened.add(f"memory {n}", id=f"m{n}", tags=["x"], emotion=0.5)
    opened.stores.synapses.put([associate("m0", "m1", "manual", 2.0, NOW - 100, label="why")])
    return opened


def apply(opened: Opened, *changes: Change, run: str | None = "run") -> Applied:
    return opened.stores.changer.apply(run, changes, NOW)


def undo(opened: Opened, run: str, by: str = "undo") -> list[str]:
    """Take a run back as the undo job does, newest change first; returns what is left as it is."""
    left = []
    for entry in opened.ledger.journal_of(run):
        change, partly = inverse(opened.stores, entry, opened.now)
        if change is not None:
            assert opened.stores.changer.apply(by, [change], NOW + 1).done == [change]
        if partly:
            left.append(entry.key)
    return left


def edge(a: str, b: str, before: Synapse | None, after: Synapse | None, kind: str = "similar") -> Edge:
    return Edge(synapse_key(a, b, kind), before, after, "default")


def image(stores: Stores) -> tuple[dict[str, Any], ...]:
    """All that undo must bring back: every memory but for its sequence number, every edge, and what search finds it by."""
    rows = {
        row.id: replace(row, seq=0)
        for row in stores.memories.read([row.id for row in stores.catalogue.every()]).values()
    }
    vectors = {
        record.id: (name, record.dense.tolist(), record.text)
        for name in ("memories", "bin")
        for batch in stores.engine.scroll(name, vectors=True)
        for record in batch
    }
    known = {row.id: replace(row, seq=0) for row in stores.catalogue.every()}
    return known, rows, dict(stores.synapses.every()), vectors


def test_changes_that_fit_are_made_and_told(some) -> None:
    before = some.stores.synapses.between("m0", "m1")
    stronger = before._replace(weight=3.0, as_of=NOW)
    changes = [
        Patch("m0", 1, {"heat": "hot", "tags": ("y",)}),
        Move("m1", 1, GONE, "forget"),
        Edge(before.key, before, stronger, "default"),
        edge("m2", "m3", None, associate("m2", "m3", "similar", 0.3, NOW)),
        Erase("m3", 1),
    ]

    applied = apply(some, *changes)

    assert (applied.done, applied.skipped) == (changes, [])
    assert (some.read("m0").heat, some.read("m0").tags) == ("hot", ("y",))
    assert some.row("m1").state == "forgotten"
    assert [one for _, one in some.stores.synapses.every()] == [stronger]
    assert "m3" not in some.stores.catalogue
    assert sorted(entry.op for entry in some.ledger.journal_of("run")) == ["edge", "edge", "erase", "forget", "patch"]


def test_b13_what_changed_since_the_plan_is_skipped(some) -> None:
    planned = [Patch("m0", 1, {"heat": "cold"}), Move("m1", 1, GONE, "forget"), Erase("m2", 1), Patch("m9", 1, {})]
    for memory in ("m0", "m1", "m2"):
        some.stores.memories.patch({memory: {"access_count": 1}})
    before = some.stores.synapses.between("m0", "m1")
    planned.append(Edge(before.key, before._replace(weight=1.0), None, "default"))
    planned.append(edge("m0", "m1", None, associate("m0", "m1", "similar", 0.3, NOW)))
    planned.append(edge("m0", "m9", None, associate("m0", "m9", "similar", 0.3, NOW)))
    untouched = image(some.stores)

    applied = apply(some, *planned)

    assert (applied.done, applied.skipped) == ([], planned)
    assert image(some.stores) == untouched
    assert some.ledger.journal_of("run") == []


def test_of_two_changes_to_one_thing_only_the_first_is_made(some) -> None:
    """The second was planned without knowing of the first."""
    new = associate("m2", "m3", "similar", 0.3, NOW)
    applied = apply(
        some, Patch("m0", 1, {"heat": "hot"}), Patch("m0", 1, {"tier": "long"}), Move("m0", 1, GONE, "forget"),
        edge("m2", "m3", None, new), edge("m2", "m3", None, new._replace(weight=9.0)),
    )  # fmt: skip

    assert (len(applied.done), len(applied.skipped)) == (2, 3)
    assert (some.row("m0").heat, some.row("m0").tier, some.row("m0").state) == ("hot", "short", "live")
    assert some.stores.synapses.between("m2", "m3") == new
    assert undo(some, "run") == []
    assert some.row("m0").heat == "warm"


def test_without_a_run_nothing_is_journalled(some) -> None:
    apply(some, Patch("m0", 1, {"access_count": 5}), run=None)

    assert some.row("m0").access_count == 5
    assert some.ledger.journal_of("run") == []


def test_batches_add_up() -> None:
    total = Applied()
    total.extend(Applied([Erase("a", 1)], [Erase("b", 1)]))
    total.extend(Applied([Erase("c", 1)], []))

    assert ([one.memory for one in total.done], [one.memory for one in total.skipped]) == (["a", "c"], ["b"])


def test_erasing_takes_edges_and_versions_along_and_cannot_be_taken_back(some) -> None:
    some.update("m0", content="memory 0 anew")

    apply(some, Erase("m0", 2))

    assert some.stores.records.versions("m0") == []
    assert len(some.stores.synapses) == 0
    assert undo(some, "run") == ["m0"]
    some.add("another under its id", id="m0")
    assert undo(some, "run") == ["m0"]
    assert some.read("m0").content == "another under its id"


def test_undo_leaves_a_field_that_was_changed_since_and_brings_back_the_others(some) -> None:
    apply(some, Patch("m0", 1, {"heat": "cold", "tier": "long", "emotion": 0.6}))
    some.update("m0", tier="core")

    assert undo(some, "run") == ["m0"]
    assert (some.row("m0").heat, some.row("m0").tier, some.row("m0").emotion) == ("warm", "core", 0.5)


def test_undo_leaves_an_edge_that_was_changed_or_whose_ends_are_gone(some) -> None:
    before = some.stores.synapses.between("m0", "m1")
    apply(
        some,
        Edge(before.key, before, None, "default"),
        edge("m2", "m3", None, associate("m2", "m3", "similar", 0.3, NOW)),
    )
    made = some.stores.synapses.between("m2", "m3")
    some.stores.synapses.put([made._replace(weight=0.5)])
    some.forget("m1", hard=True)

    assert undo(some, "run") == [made.key, before.key]
    assert some.stores.synapses.between("m2", "m3").weight == 0.5
    assert some.stores.synapses.between("m0", "m1") is None


def test_undo_has_nothing_to_say_of_a_memory_that_came_back_by_itself(some) -> None:
    """It is as it was before the run; of what else became of it meanwhile nothing is touched."""
    apply(some, Move("m0", 1, GONE, "forget"))
    assert some.remember("memory 0").restored
    before = image(some.stores)

    assert undo(some, "run") == []
    assert image(some.stores) == before
    assert some.ledger.journal_of("undo") == []
    assert some.row("m0").access_count == 1


def test_undo_leaves_a_memory_that_is_gone_for_another_reason_by_now(some) -> None:
    apply(some, Move("m0", 1, GONE, "forget"))
    some.stores.memories.patch({"m0": {"forgotten_reason": "request"}})

    assert undo(some, "run") == ["m0"]
    assert some.row("m0").state == "forgotten"


@pytest.mark.parametrize(
    ("fields", "op"), [(GONE, "forget"), (GONE | {"forgotten_reason": "expired"}, "expire"), (REPLACED, "supersede")]
)
def test_undoing_an_undo_makes_the_move_again_under_its_own_name(some, fields, op) -> None:
    apply(some, Move("m1", 1, fields, op))
    moved = some.row("m1")

    assert undo(some, "run", by="undo") == []
    assert some.row("m1").state == "live"
    assert undo(some, "undo", by="redo") == []

    assert replace(some.row("m1"), seq=0) == replace(moved, seq=0)
    assert [[entry.op for entry in some.ledger.journal_of(run)] for run in ("run", "undo", "redo")] == [
        [op],
        ["restore"],
        [op],
    ]


def test_a_run_can_be_taken_back_after_a_restart(some) -> None:
    """The engine gives floats of 17 digits back with another last digit; that is no change since."""
    before = some.stores.synapses.between("m0", "m1")
    weights = [0.191_664_418_690_062_34, 1.445_552_609_847_249_3, 2.680_347_473_599_499]
    changes: list[Change] = [Edge(before.key, before, before._replace(weight=weights[0], as_of=NOW), "default")]
    changes += [
        edge(*pair, None, associate(*pair, "similar", weight, NOW))
        for pair, weight in zip((("m0", "m2"), ("m2", "m3")), weights[1:], strict=True)
    ]
    changes += [Patch("m2", 1, {"emotion": weights[0], "metadata": {"a": [weights[1]]}}), Move("m3", 1, GONE, "forget")]
    untouched = image(some.stores)
    assert apply(some, *changes).skipped == []

    some.reopen()

    assert undo(some, "run") == []
    assert image(some.stores) == untouched


def test_what_was_journalled_and_never_written_is_neither_restored_nor_left_by_undo(some) -> None:
    """A disk that fills up between the two: the images are there, the changes are not."""
    some.engine.close()
    free = [1 << 40]
    engine = EdgeEngine.open(some.folder / "store", collections(64), reserve_mb=16, free_bytes=lambda _: free[0])
    some.engine = engine
    stores = Stores(engine, some.ledger, weights=some.stores.recaller.weights, default_sensitivity="personal")
    stores.load()
    some.stores = stores
    held = stores.synapses.between("m0", "m1")
    former = version_payload(Version("m0", 1, "x", "", "semantic", (), {}, "public", "", NOW, NOW))
    planned = [
        Patch("m0", 1, {"heat": "cold", "version": 2}),
        Move("m1", 1, GONE, "forget"),
        Edge(held.key, held, None, "default"),
        edge("m2", "m3", None, associate("m2", "m3", "similar", 0.3, NOW)),
        RecordChange(version_key("m0", 1), None, former, "default"),
    ]
    untouched = image(stores)
    free[0] = 0

    with pytest.raises(Unavailable):
        apply(some, *planned)
    free[0] = 1 << 40

    assert len(some.ledger.journal_of("run")) == len(planned)
    assert undo(some, "run") == []
    assert some.ledger.journal_of("undo") == []
    assert image(stores) == untouched


# One store for all examples: each works in a scope of its own.

counts = st.integers(0, 5)
shares = st.floats(0.0, 1.0).map(lambda share: round(share, 9))
instants = st.floats(0.0, 4e9).map(lambda instant: round(instant, 6))
patches = st.fixed_dictionaries(
    {},
    optional={
        "heat": st.sampled_from(HEATS), "tier": st.sampled_from(TIERS), "emotion": shares, "pinned": st.booleans(),
        "access_count": counts, "accessed_at": st.none() | instants, "tags": st.lists(st.sampled_from("xyz")).map(tuple),
        "entities": st.lists(st.sampled_from("AB")).map(tuple), "event_at": st.none() | instants,
        "metadata": st.dictionaries(st.sampled_from("kl"), st.none() | st.booleans() | shares | st.text(max_size=3)),
    },
).filter(bool)  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("patch"), counts, patches),
        st.tuples(st.just("move"), counts, st.booleans()),
        st.tuples(st.just("edge"), st.tuples(counts, counts), st.none() | shares),
    ),
    max_size=12,
)  # fmt: skip


def as_changes(opened: Opened, scope: str, ids: Sequence[str], planned: Sequence[Any]) -> list[Change]:
    changes: list[Change] = []
    for verb, which, what in planned:
        if verb == "edge":
            a, b = (ids[n] for n in which)
            here = opened.stores.synapses.between(a, b)
            after = None if what is None else associate(a, b, "similar", what, NOW)
            if a == b or (here is None and after is None):
                continue
            changes.append(Edge(synapse_key(a, b, "similar"), here, after, scope))
        elif verb == "patch":
            changes.append(Patch(ids[which], opened.row(ids[which]).seq, what))
        else:
            back = {"forgotten_at": None, "forgotten_reason": "", "invalid_at": None, "superseded_by": None}
            live = opened.row(ids[which]).state == "live"
            fields = (GONE if what else REPLACED) if live else back
            op = ("forget" if what else "supersede") if live else "restore"
            changes.append(Move(ids[which], opened.row(ids[which]).seq, fields, op))
    return changes


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=1, max_size=3))
def test_taking_back_what_was_applied_restores_everything(shared, batches) -> None:
    """Whatever a run does in however many batches, and undoing the undo brings it back as well."""
    name = shared.clock.new_id()
    ids = [shared.add(f"memory {n}", scope=name, tags=["x"], emotion=0.5) for n in range(6)]
    shared.stores.synapses.put([associate(ids[0], ids[1], "similar", 0.3, NOW)])
    before = image(shared.stores)

    for planned in batches:
        shared.stores.changer.apply(name, as_changes(shared, name, ids, planned), NOW)
    after = image(shared.stores)

    assert undo(shared, name, by=f"{name}-undo") == []
    assert image(shared.stores) == before
    assert undo(shared, f"{name}-undo", by=f"{name}-redo") == []
    assert image(shared.stores) == after
    shared.stores.changer.erase(ids)


def test_versions_are_left_alone_by_moves(some) -> None:
    some.update("m0", content="memory 0 anew")
    apply(some, Move("m0", 2, GONE, "forget"))

    assert [type(one) for one in some.stores.records.versions("m0")] == [Version]
