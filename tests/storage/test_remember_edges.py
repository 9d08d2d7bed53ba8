"""The edges that a write makes: the chain of a session, and those asked for by hand."""

from __future__ import annotations

import pytest

from storage.errors import Conflict, NotFound, Refused
from storage.remember import CONNECT_WEIGHT
from storage.synapses import associate
from tests.storage.opened import Opened


def edges(opened: Opened) -> list[tuple[str, str, str]]:
    return sorted((edge.a, edge.b, edge.kind) for _, edge in opened.stores.synapses.every())


def test_neighbours_in_a_session_are_chained(opened) -> None:
    a, b = opened.add("one", session="s"), opened.add("two", session="s")
    opened.add("three", session="other")
    opened.add("four", session="s", scope="elsewhere")
    c = opened.add("five", session="s")

    assert edges(opened) == sorted([(a, b, "next"), (b, c, "next")])
    assert opened.stores.synapses.after(a) == [b]


def test_a_memory_that_changes_its_session_changes_its_place_in_both_chains(opened) -> None:
    a, b, c = (opened.add(f"first {n}", session="s") for n in range(3))
    late = opened.add("early in the other", session="t", id="x")
    later = opened.add("late in the other", session="t", id="y")

    opened.update(b, session="t")
    assert edges(opened) == sorted([(a, c, "next"), (b, late, "next"), (late, later, "next")])
    opened.update(b, session="s")
    assert edges(opened) == sorted([(a, b, "next"), (b, c, "next"), (late, later, "next")])
    opened.update(late, session="")
    assert edges(opened) == sorted([(a, b, "next"), (b, c, "next")])
    opened.update(late, session="s")
    assert edges(opened) == sorted([(a, b, "next"), (b, c, "next"), (c, late, "next")])
    opened.update(a, session="lone")
    assert edges(opened) == sorted([(b, c, "next"), (c, late, "next")])


def test_a_change_of_session_leaves_other_edges_alone(opened) -> None:
    a = opened.add("one", session="s")
    b = opened.add("two", session="s", connect_to=[a])

    opened.update(b, session="t")

    assert edges(opened) == [(*sorted((a, b)), "manual")]


def test_a_new_memory_is_connected_by_hand_to_those_named(opened) -> None:
    ends = [opened.add("one"), opened.add("two")]

    new = opened.add("three", connect_to=[*ends, ends[0]])

    assert edges(opened) == sorted((*sorted((new, end)), "manual") for end in ends)
    assert {edge.weight for edge in opened.stores.synapses.of(new)} == {CONNECT_WEIGHT}


@pytest.mark.parametrize(
    ("end", "error"),
    [("nobody", NotFound), ("hidden", NotFound), ("gone", Conflict), ("elsewhere", Refused), ("new", NotFound)],
)
def test_a_memory_that_cannot_be_connected_is_not_stored(opened, end, error) -> None:
    opened.add("here", id="here")
    opened.add("hidden", id="hidden", sensitivity="secret")
    opened.add("gone", id="gone")
    opened.add("elsewhere", id="elsewhere", scope="other")
    opened.forget("gone")
    before = len(opened.stores.catalogue)

    with pytest.raises(error):
        opened.remember("new", id="new", connect_to=["here", end], clearance="personal")

    assert len(opened.stores.catalogue) == before
    assert edges(opened) == []


def test_a_known_memory_is_connected_too_and_what_is_connected_stays_as_it_was(opened) -> None:
    a, b, c = opened.add("one"), opened.add("two", id="b"), opened.add("three")
    edge = associate(a, c, "similar", 0.3, opened.now, label="why")
    opened.stores.synapses.put([edge])

    for _ in range(2):
        assert not opened.remember("one", connect_to=[a, b, c]).created
        opened.remember("two", id="b", connect_to=[a])

    assert edges(opened) == sorted([(*sorted((a, b)), "manual"), (*sorted((a, c)), "similar")])
    assert opened.stores.synapses.between(a, b).weight == CONNECT_WEIGHT
    assert opened.stores.synapses.between(a, c) == edge
