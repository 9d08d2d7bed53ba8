"""Merges made and taken back on whole stores, for the tests that look at what became of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from storage import merge
from storage.changes import Applied
from storage.graph import connect
from storage.inverse import inverse
from storage.memories import BIN, LIVE
from storage.model import DAY
from storage.records import RECORDS
from tests.storage.opened import Opened


def merged(opened: Opened, survivor: str, duplicate: str, *, clearance: str = "secret", run: str = "run") -> Applied:
    changes = merge.intended(opened.stores, survivor, duplicate, clearance, opened.now)
    applied = opened.stores.changer.apply(run, changes, opened.now)
    assert applied.skipped == []
    return applied


def undo(opened: Opened, run: str, by: str = "undo") -> list[str]:
    """Take a run back as the undo job does, newest change first; returns what is left as it is."""
    left = []
    for entry in opened.ledger.journal_of(run):
        if entry.undone:
            continue
        change, partly = inverse(opened.stores, entry, opened.now)
        if change is not None:
            assert opened.stores.changer.apply(by, [change], opened.now).done == [change]
            opened.ledger.mark_entries([entry.number], undone=True)
        if partly:
            left.append(entry.key)
    return left


def image(opened: Opened) -> tuple[dict[str, Any], ...]:
    """All that there is: memories, edges, records, and what search finds a memory by.

    Sequence and version numbers are left out: every write makes the one rise, every edit the other, an undo as well.
    """
    stores = opened.stores
    rows = {row.id: replace(row, seq=0, version=0) for row in stores.catalogue.every()}
    whole = {row.id: replace(row, seq=0, version=0) for row in stores.memories.read(rows).values()}
    records = {one.id: one.payload for batch in opened.engine.scroll(RECORDS) for one in batch}
    vectors = {
        one.id: (name, one.dense.tolist(), one.text)
        for name in (LIVE, BIN)
        for batch in opened.engine.scroll(name, vectors=True)
        for one in batch
    }
    return rows, whole, dict(stores.synapses.every()), records, vectors


def comment(opened: Opened, memory: str, text: str) -> str:
    new_id = opened.clock.new_id()
    opened.stores.comments.add(memory, text, "Ben", opened.now, new_id)
    return new_id


def comments(opened: Opened, memory: str) -> list[str]:
    return [one.content for one in opened.stores.comments.select(opened.now, memory=memory).comments]


def twins(opened: Opened) -> Opened:
    """A core memory with a context and its newer, pinned twin; both with edges, a comment and an edit; a session of four."""
    opened.add("Ada said hello", id="hello", session="s")
    opened.add("deploys on Fridays are forbidden", id="s", tier="core", context="the whole rule", tags=["rule"], session="s",
               importance=0.9, metadata={"team": "billing"})  # fmt: skip
    opened.clock.advance(DAY)
    opened.add("Deploys on Fridays are forbidden!", id="d", pinned=True, tags=["deploy"], session="s", emotion=0.8,
               sensitivity="confidential", metadata={"team": "all", "since": 2024})  # fmt: skip
    opened.add("Ada said goodbye", id="bye", session="s")
    opened.update("s", tags=["rule", "friday"])
    opened.clock.advance(60)
    opened.update("d", content="Deploys on Fridays are forbidden.")
    for memory in ("s", "d"):
        comment(opened, memory, f"about {memory}")
        connect(opened.stores, memory, "hello", 6.0, "", opened.now, "secret")
    connect(opened.stores, "d", "bye", 2.0, "why", opened.now, "secret")
    connect(opened.stores, "s", "d", 1.0, "", opened.now, "secret")
    opened.clock.advance(60)
    return opened
