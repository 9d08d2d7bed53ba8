"""What a person does to the graph, and what is seen of it."""

from __future__ import annotations

import pytest

from storage.errors import Conflict, NotFound, Refused
from storage.graph import Neighbour, connect, disconnect, neighbours, snapshot, statistics, visible
from storage.model import DAY, Synapse
from storage.synapses import associate
from tests.storage.opened import Opened


def join(opened: Opened, a: str, b: str, weight: float = 2.0, label: str = "", clearance: str = "secret") -> Synapse:
    return connect(opened.stores, a, b, weight, label, opened.now, clearance)


def around(opened: Opened, memory: str, clearance: str = "secret") -> list[Neighbour]:
    return neighbours(opened.stores, memory, opened.now, clearance)


def test_two_memories_are_joined_by_hand(opened) -> None:
    a, b = opened.add("one"), opened.add("two")

    edge = join(opened, b, a, 3.0, "they met")

    assert edge == opened.stores.synapses.between(a, b)
    assert (edge.kind, edge.weight, edge.label, edge.created_at) == ("manual", 3.0, "they met", opened.now)


def test_joining_again_adds_to_what_is_left_up_to_the_greatest_weight(opened) -> None:
    a, b = opened.add("one"), opened.add("two")
    first = join(opened, a, b, 2.0, "they met")
    opened.clock.advance(DAY)

    second = join(opened, a, b, 3.0)
    third = join(opened, a, b, 9.0, "they are friends")

    assert second.weight == pytest.approx(2.0 * 0.95 + 3.0)
    assert (second.label, second.created_at, second.as_of) == ("they met", first.created_at, opened.now)
    assert (third.weight, third.label) == (10.0, "they are friends")
    assert len(opened.stores.synapses) == 1


def test_a_hand_on_a_learned_edge_makes_it_a_manual_one(opened) -> None:
    a, b = opened.add("one"), opened.add("two")
    opened.stores.synapses.put([associate(a, b, "hebbian", 1.0, opened.now)])
    opened.clock.advance(DAY)

    edge = join(opened, a, b)

    assert (edge.kind, edge.weight) == ("manual", pytest.approx(0.9 + 2.0))


def test_what_cannot_be_joined_is_told_why(opened) -> None:
    a, other = opened.add("one"), opened.add("two", scope="other")
    hidden, gone = opened.add("three", sensitivity="secret"), opened.add("four")
    opened.forget(gone)

    with pytest.raises(Refused):
        join(opened, a, a)
    with pytest.raises(Refused):
        join(opened, a, other)
    with pytest.raises(NotFound):
        join(opened, a, "nobody")
    with pytest.raises(NotFound):
        join(opened, hidden, a, clearance="personal")
    with pytest.raises(Conflict) as refused:
        join(opened, a, gone)
    assert refused.value.hint == f"dreamctl restore {gone}"
    assert len(opened.stores.synapses) == 0


def test_an_edge_is_removed_and_the_chain_of_the_session_stays(opened) -> None:
    a, b = opened.add("one", session="s"), opened.add("two", session="s")
    join(opened, a, b)

    disconnect(opened.stores, b, a, "secret")

    assert [edge.kind for _, edge in opened.stores.synapses.every()] == ["next"]
    with pytest.raises(NotFound):
        disconnect(opened.stores, a, b, "secret")
    with pytest.raises(NotFound):
        disconnect(opened.stores, a, "nobody", "secret")


def test_neighbours_come_with_their_text_the_strongest_now_first(opened) -> None:
    a = opened.add("one")
    learned, manual, weak = (opened.add(text) for text in ("learned", "manual", "weak"))
    opened.stores.synapses.put([associate(a, learned, "hebbian", 2.1, opened.now)])
    join(opened, a, manual, 2.0, "why")
    join(opened, weak, a, 0.5)
    opened.clock.advance(DAY)

    found = around(opened, a)

    assert [(one.memory.content, one.edge.label) for one in found] == [("manual", "why"), ("learned", ""), ("weak", "")]
    assert [one.weight for one in found] == pytest.approx([1.9, 1.89, 0.475])
    assert [one.memory.id for one in around(opened, manual)] == [a]


def test_neighbours_that_are_hidden_binned_or_over_are_not_there(opened) -> None:
    a = opened.add("one")
    for end in (
        opened.add("hidden", sensitivity="secret"),
        opened.add("gone", id="gone"),
        opened.add("over", expires_at=opened.now + 5),
        opened.add("seen", id="seen"),
    ):
        join(opened, a, end)
    opened.forget("gone")
    opened.clock.advance(5)

    assert [one.memory.id for one in around(opened, a, "personal")] == ["seen"]
    assert len(around(opened, a)) == 2
    with pytest.raises(NotFound):
        around(opened, "nobody")


def test_visible_is_what_the_clearance_covers_in_any_state(opened) -> None:
    memory = opened.add("one", sensitivity="confidential")
    opened.forget(memory)

    assert visible(opened.stores, memory, "confidential").id == memory
    with pytest.raises(NotFound):
        visible(opened.stores, memory, "personal")


def test_an_empty_graph_has_numbers_too(opened) -> None:
    told = statistics(snapshot(opened.stores, opened.now, "secret"))

    assert told == {
        "nodes": 0, "edges": 0, "by_kind": {}, "mean_degree": 0.0, "median_degree": 0.0, "max_degree": 0, "isolated": 0,
        "strongest": [],
    }  # fmt: skip


def test_the_graph_in_numbers_counts_what_the_caller_may_see(opened) -> None:
    for name in "abcd":
        opened.add(f"text {name}", id=name, session="s" if name in "ab" else "")
    opened.add("text e", id="e", sensitivity="secret")
    for end in "bce":
        join(opened, "a", end, 1.0 + "bce".index(end))

    told = statistics(snapshot(opened.stores, opened.now, "personal"))

    assert (told["nodes"], told["edges"], told["isolated"]) == (4, 3, 1)
    assert told["by_kind"] == {"manual": 2, "next": 1}
    assert (told["mean_degree"], told["median_degree"], told["max_degree"]) == (1.0, 1.0, 2)
    assert told["strongest"][0] == {"a": "a", "b": "c", "kind": "manual", "weight": 2.0}
    assert statistics(snapshot(opened.stores, opened.now, "secret"))["max_degree"] == 3
