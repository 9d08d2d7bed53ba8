"""Edges: stored as points, mirrored in RAM, fading by themselves."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.engine import Point
from storage.fading import Awake
from storage.memories import LIVE
from storage.model import DAY, EDGE_KINDS, Synapse, synapse_key
from storage.synapses import (
    ASSOCIATIVE,
    BATCH,
    SYNAPSES,
    Synapses,
    associate,
    faded,
    from_payload,
    stronger_kind,
    to_payload,
)
from tests.storage.opened import Opened

NOW = 1_767_225_600.0


def next_edge(a: str, b: str) -> Synapse:
    return Synapse(a, b, "next", 1.0, NOW, NOW)


@pytest.fixture
def synapses(opened) -> Synapses:
    return opened.stores.synapses


def reread(opened: Opened) -> Synapses:
    fresh = Synapses(opened.engine)
    fresh.load()
    return fresh


names = st.text(min_size=1)
instants = st.floats(0, 4e9)


@given(st.builds(Synapse, names, names, st.sampled_from(EDGE_KINDS), st.floats(0, 10), instants, instants, st.text()))
def test_an_edge_comes_back_from_its_payload_as_it_was(edge) -> None:
    assert from_payload(to_payload(edge)) == edge


def test_edges_are_found_by_key_by_pair_and_by_either_end_also_after_a_restart(opened, synapses) -> None:
    edges = [
        associate("b", "a", "manual", 2.0, NOW, label="why"),
        next_edge("b", "a"),
        associate("a", "c", "similar", 0.3, NOW),
    ]
    synapses.put(edges)

    for view in (synapses, reread(opened)):
        assert len(view) == 3
        assert dict(view.every()) == {edge.key: edge for edge in edges}
        assert view.between("a", "b") == view.between("b", "a") == edges[0]
        assert view.get(edges[1].key) == edges[1]
        assert set(view.of("a")) == set(edges)
        assert set(view.of("c")) == {edges[2]}
        assert list(view.of("nobody")) == []
        assert view.degree("a") == 2
        assert (view.after("b"), view.before("a"), view.after("a")) == (["a"], ["b"], [])


def test_a_pair_has_one_associative_edge_and_beside_it_one_of_next_and_one_of_derived(synapses) -> None:
    synapses.put([associate(*pair, kind, 1.0, NOW) for pair in (("a", "b"), ("b", "a")) for kind in ASSOCIATIVE])
    synapses.put([next_edge("a", "b"), Synapse("a", "b", "derived", 1.0, NOW, NOW)])

    assert sorted(edge.kind for edge in synapses.of("a")) == ["derived", "manual", "next"]


def test_row_12_a_new_weight_leaves_label_creation_and_kind_as_they_were(opened, synapses) -> None:
    edge = associate("a", "b", "manual", 2.0, NOW, label="they met")
    synapses.put([edge])
    synapses.put([edge._replace(weight=2.2, as_of=NOW + 5)])

    kept = reread(opened).between("a", "b")
    assert (kept.label, kept.created_at, kept.kind, kept.weight, kept.as_of) == (
        "they met",
        NOW,
        "manual",
        2.2,
        NOW + 5,
    )


def test_row_16_edges_are_no_memories(opened, synapses) -> None:
    ids = [opened.add(f"alpha {n}") for n in range(10)]
    synapses.put([associate(a, b, "similar", 0.3, NOW, label="alpha") for a, b in combinations(ids, 2)])
    synapses.put([associate(ids[0], ids[1], "manual", 1.0, NOW)])

    assert (opened.engine.count(LIVE), len(opened.stores.catalogue), len(synapses)) == (10, 10, 45)
    assert set(opened.found("alpha", k=99)) == set(ids)


def test_dropped_edges_are_gone_from_store_and_ram_and_unknown_keys_do_not_matter(opened, synapses) -> None:
    edges = [associate("a", end, "manual", 1.0, NOW) for end in "bcd"]
    synapses.put(edges)

    synapses.drop([edges[0].key, "unknown", edges[0].key + "x"])
    assert synapses.drop_around(["c", "nobody"]) == 1

    for view in (synapses, reread(opened)):
        assert [edge for _, edge in view.every()] == [edges[2]]
        assert list(view.of("b")) == []


def test_a_dropped_link_of_a_session_is_no_step_any_more(opened, synapses) -> None:
    synapses.put([next_edge("a", "b"), next_edge("b", "c")])
    synapses.put([next_edge("b", "a")])  # the pair has one such edge: it turns round
    assert (synapses.after("a"), synapses.before("a"), synapses.after("b")) == ([], ["b"], ["c", "a"])

    synapses.drop([next_edge("b", "c").key])

    for view in (synapses, reread(opened)):
        assert (view.after("b"), view.before("c"), view.before("a")) == (["a"], [], ["b"])


ends = st.sampled_from("abcd")
writes = st.lists(st.tuples(ends, ends, st.sampled_from(EDGE_KINDS), st.floats(0.1, 10.0), st.booleans()), max_size=20)


@settings(max_examples=40, deadline=None)
@given(writes)
def test_after_any_writes_the_edges_in_ram_are_those_that_a_restart_reads(shared, steps) -> None:
    shared.empty()
    synapses = shared.stores.synapses
    for a, b, kind, weight, puts in steps:
        edge = (
            Synapse(a, b, kind, weight, NOW, NOW) if kind in ("next", "derived") else associate(a, b, kind, weight, NOW)
        )
        if puts and a != b:
            synapses.put([edge])
        else:
            synapses.drop([edge.key])

    fresh = reread(shared)

    assert {key: edge._replace(weight=0.0) for key, edge in synapses.every()} == {
        key: edge._replace(weight=0.0) for key, edge in fresh.every()
    }
    for end in "abcd":
        edges = list(synapses.of(end))
        assert {edge.key for edge in edges} == {edge.key for edge in fresh.of(end)}
        assert sorted(synapses.after(end)) == sorted(fresh.after(end))
        assert sorted(synapses.before(end)) == sorted(fresh.before(end))
        tied = [edge for edge in edges if edge.kind != "next"]
        heaviest = {
            other: max(one.weight for one in tied if one.other(end) == other)
            for other in {one.other(end) for one in tied}
        }
        assert {other: edge.weight for other, edge in synapses.ties(end).items()} == heaviest


def test_more_edges_than_fit_a_batch_are_all_written_and_all_dropped(opened, synapses) -> None:
    edges = [associate("hub", f"m{n}", "hebbian", 0.2, NOW) for n in range(2 * BATCH + 1)]
    synapses.put(edges)
    assert opened.engine.count(SYNAPSES) == len(synapses) == len(edges)

    assert synapses.drop_around(["hub"]) == len(edges)

    assert opened.engine.count(SYNAPSES) == len(synapses) == 0


def test_b11_an_edge_of_a_kind_that_we_do_not_know_is_kept_and_not_shown(opened) -> None:
    edge = associate("a", "b", "manual", 1.0, NOW)
    opened.engine.upsert(SYNAPSES, [Point(synapse_key("a", "b", "next"), {"kind": "causes", "a": "a", "b": "b"})])
    opened.stores.synapses.put([edge])

    fresh = reread(opened)

    assert [one for _, one in fresh.every()] == [edge]
    assert opened.engine.count(SYNAPSES) == 2


@pytest.mark.parametrize(
    ("kind", "days", "left"),
    [
        ("hebbian", 1, 0.9),
        ("similar", 1, 0.9),
        ("manual", 1, 0.95),
        ("hebbian", 2, 0.81),
        ("next", 99, 1.0),
        ("derived", 99, 1.0),
    ],
)
def test_a2_an_edge_fades_once_by_the_rate_of_its_kind(kind, days, left) -> None:
    """Source: anchor-memory's factors, read as a day's."""
    edge = associate("a", "b", kind, 2.0, NOW)

    assert faded(edge, NOW + days * DAY, Awake()) == pytest.approx(2.0 * left)


def test_an_edge_does_not_fade_while_nobody_is_there() -> None:
    edge = associate("a", "b", "hebbian", 2.0, NOW)

    assert faded(edge, NOW + 3 * DAY, Awake([(NOW + DAY, NOW + 3 * DAY)])) == pytest.approx(1.8)


def test_the_stronger_claim_names_the_edge() -> None:
    rising = ("hebbian", "similar", "concept", "manual")
    for (i, one), (j, other) in product(enumerate(rising), repeat=2):
        assert stronger_kind(one, other) == rising[max(i, j)]


def test_associative_edges_have_their_ends_in_order_and_the_other_end_is_told() -> None:
    edge = associate("b", "a", "concept", 0.3, NOW)

    assert (edge.a, edge.b, edge.created_at, edge.as_of) == ("a", "b", NOW, NOW)
    assert (edge.other("a"), edge.other("b")) == ("b", "a")
