"""Rows and edges for plans, made at random, and what they are after a plan was carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from storage.changes import Change, Edge, Erase, Move, Patch
from storage.fading import Awake
from storage.model import DAY, HEATS, TIERS, Memory, Synapse
from storage.synapses import ASSOCIATIVE, associate

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
SCOPES = ("a", "a/b", "a/b/c", "d")
YEAR = 365 * DAY


def for_all(*some: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]) -> Callable[[Any], Any]:
    """`given`, without a deadline: a busy machine is no counterexample."""
    return lambda test: settings(deadline=None, max_examples=40)(given(*some, **named)(test))


shares = st.floats(0.0, 1.0)
past = st.floats(NOW - YEAR, NOW)
scopes = st.sampled_from(SCOPES)
names = st.text("abcdefghij", min_size=1, max_size=3)


@st.composite
def memories(draw: st.DrawFn, ids: st.SearchStrategy[str] = names) -> Memory:
    """A live row with any history that a row can have."""
    created = draw(past)
    count = draw(st.integers(0, 12))
    return Memory(
        id=draw(ids), scope=draw(scopes), tier=draw(st.sampled_from(TIERS)), heat=draw(st.sampled_from(HEATS)),
        pinned=draw(st.booleans()), emotion=draw(shares), importance=draw(shares), seq=draw(st.integers(1, 9)),
        created_at=created, updated_at=created, accessed_at=draw(st.floats(created, NOW)) if count else None,
        access_count=count, access_days=draw(st.integers(min(count, 1), count)), cooled_at_count=draw(st.integers(0, count)),
        expires_at=draw(st.none() | st.floats(NOW - DAY, NOW + DAY)),
    )  # fmt: skip


rows = st.lists(memories(), max_size=40, unique_by=lambda row: row.id)


@st.composite
def absences(draw: st.DrawFn) -> Awake:
    """An awake clock with up to three absences in the last year."""
    spans = draw(st.lists(st.tuples(past, st.floats(0.0, 60 * DAY)), max_size=3))
    return Awake([(since, min(since + length, NOW)) for since, length in spans])


@st.composite
def associations(draw: st.DrawFn) -> Synapse:
    """An associative edge of any kind, age and weight."""
    a, b = draw(st.tuples(names, names).filter(lambda pair: pair[0] != pair[1]))
    return associate(a, b, draw(st.sampled_from(ASSOCIATIVE)), draw(st.floats(0.0, 10.0)), draw(past))


edges = st.lists(associations(), max_size=40, unique_by=lambda edge: edge.key)


def row(name: str, **fields: object) -> Memory:
    """A short, warm, neutral memory made an hour ago, but for what is given."""
    plain = {"id": name, "scope": "a", "created_at": NOW - 3600.0, "updated_at": NOW - 3600.0}
    return Memory(**{**plain, **fields})  # type: ignore[arg-type]


def after(before: Iterable[Memory], changes: Iterable[Change]) -> list[Memory]:
    """The rows once the changes were made; those that left the live ones are left out."""
    now = {one.id: one for one in before}
    for change in changes:
        if isinstance(change, Erase):
            del now[change.memory]
        elif isinstance(change, Patch | Move):
            former = now[change.memory]
            assert former.seq == change.seq
            now[change.memory] = replace(former, **change.fields, seq=former.seq + 1)
    return [one for one in now.values() if one.state == "live"]


def edges_after(before: Iterable[Synapse], changes: Iterable[Change]) -> dict[str, Synapse]:
    """The edges by key once the changes were made."""
    now = {edge.key: edge for edge in before}
    for change in changes:
        if isinstance(change, Edge):
            assert now.get(change.key) == change.before
            if change.after is None:
                del now[change.key]
            else:
                now[change.key] = change.after
    return now


def by_id(some: Sequence[Memory]) -> Mapping[str, Memory]:
    """Rows by their id."""
    return {one.id: one for one in some}
