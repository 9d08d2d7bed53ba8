"""What each change of a run is called in the event stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from daemon import announce
from daemon.events import Events
from storage.changes import Change, Edge, Erase, Insert, Move, Patch, RecordChange
from storage.memories import Vectors
from storage.model import Memory
from storage.synapses import associate
from tests.fakes import SettableClock

Line = dict[str, Any]

VECTORS = Vectors([1.0], ([], []), "x")
EDGE = associate("a", "b", "hebbian", 1.0, 0.0)
NEXT = EDGE._replace(kind="next")

CHANGES: list[tuple[str, Change, list[str], list[str]]] = [
    ("decay", Move("m", 1, {"forgotten_at": 1.0, "forgotten_reason": "decayed"}, "forget"), ["decayed"], ["m"]),
    ("decay", Move("m", 1, {"forgotten_at": 1.0, "forgotten_reason": "expired"}, "expire"), ["expired"], ["m"]),
    ("undo", Move("m", 1, {"forgotten_at": None, "forgotten_reason": ""}, "restore"), ["restored"], ["m"]),
    ("undo", Move("m", 1, {"forgotten_at": 1.0, "forgotten_reason": "decayed"}, "forget"), ["decayed"], ["m"]),
    ("undo", Move("m", 1, {"forgotten_at": 1.0, "forgotten_reason": "undone"}, "retract"), ["forgotten"], ["m"]),
    ("forget_where", Move("m", 1, {"forgotten_reason": "importance"}, "forget"), ["forgotten"], ["m"]),
    ("forget_scope", Move("m", 1, {"forgotten_reason": "scope"}, "clear"), ["forgotten"], ["m"]),
    ("consolidate", Move("m", 1, {"invalid_at": 1.0, "superseded_by": "s"}, "supersede"), ["superseded"], ["m"]),
    ("merge", Move("m", 1, {"invalid_at": 1.0, "superseded_by": "s"}, "supersede"), ["merged"], ["s", "m"]),
    ("dedup", Move("m", 1, {"invalid_at": 1.0, "superseded_by": "s"}, "supersede"), ["merged"], ["s", "m"]),
    ("purge", Erase("m", 1), ["purged"], ["m"]),
    ("demote", Patch("m", 1, {"tier": "long"}), ["tier_changed"], ["m"]),
    ("demote", Patch("m", 1, {"heat": "cold", "cooled_at_count": 3}), ["heat_changed"], ["m"]),
    ("demote", Patch("m", 1, {"heat": "cold", "tier": "long"}), ["heat_changed", "tier_changed"], ["m"]),
    ("dream", Patch("m", 1, {"emotion": 0.4}), ["updated"], ["m"]),
    ("merge", Patch("m", 1, {"tags": ["a"], "tier": "core"}), ["updated", "tier_changed"], ["m"]),
    ("hebbian", Patch("m", 1, {"accessed_at": 1.0, "access_count": 2, "access_days": 1}), [], []),
    ("hebbian", Edge(EDGE.key, None, EDGE, "s"), ["linked"], ["a", "b"]),
    ("hebbian", Edge(EDGE.key, EDGE, EDGE._replace(weight=2.0), "s"), [], []),
    ("prune", Edge(EDGE.key, EDGE, None, "s"), ["pruned"], ["a", "b"]),
    ("undo", Edge(EDGE.key, None, EDGE, "s"), ["linked"], ["a", "b"]),
    ("import", Edge(NEXT.key, None, NEXT, "s"), [], []),
    ("merge", Edge(NEXT.key, NEXT, None, "s"), [], []),
    ("import", Insert(Memory(id="m"), VECTORS), ["remembered"], ["m"]),
    ("import", Insert(Memory(id="m", forgotten_at=1.0), VECTORS), [], []),
    ("extract", Insert(Memory(id="m"), VECTORS), ["extracted"], ["m"]),
    ("consolidate", Insert(Memory(id="m"), VECTORS), ["consolidated"], ["m"]),
    ("summarize", Insert(Memory(id="m"), VECTORS), ["consolidated"], ["m"]),
    ("import", RecordChange("k", None, {"owner": "m"}, "s"), [], []),
]


def told(job: str, changes: Sequence[tuple[Change, str]]) -> list[Line]:
    """What the stream says of changes that a run made."""
    events = Events(SettableClock().now, boot="b7")
    announce.changes(events, job, changes)
    events.emit("commented", "end")
    return asyncio.run(_until_the_end(events))


async def _until_the_end(events: Events) -> list[Line]:
    lines: list[Line] = []
    async for line in events.follow((), "", "b7-0"):
        if line["scope"] == "end":
            break
        lines.append(line)
    return lines


@pytest.mark.parametrize(("job", "change", "types", "ids"), CHANGES)
def test_each_change_of_a_run_has_its_type_of_event(job: str, change: Change, types: list[str], ids: list[str]) -> None:
    lines = told(job, [(change, "s")])

    assert [line["type"] for line in lines] == types
    assert all(line["ids"] == ids and line["scope"] == "s" for line in lines)


def test_changes_of_one_type_in_one_scope_are_one_event() -> None:
    changes: list[tuple[Change, str]] = [
        (Erase("m1", 1), "a"), (Erase("m2", 1), "b"), (Erase("m3", 1), "a"), (Patch("m4", 1, {"heat": "hot"}), "a"),
        (Edge("k1", None, associate("a", "b", "similar", 1.0, 0.0), "a"), "a"),
        (Edge("k2", None, associate("b", "c", "similar", 1.0, 0.0), "a"), "a"),
    ]  # fmt: skip

    assert [(line["type"], line["scope"], line["ids"], line["counts"]) for line in told("x", changes)] == [
        ("purged", "a", ["m1", "m3"], {"memories": 2}),
        ("purged", "b", ["m2"], {"memories": 1}),
        ("heat_changed", "a", ["m4"], {"memories": 1}),
        ("linked", "a", ["a", "b", "c"], {"edges": 2, "memories": 3}),
    ]
