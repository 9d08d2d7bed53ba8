"""Names, and who is named together with whom."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable, KeysView, Mapping
from typing import Final

from typing_extensions import TypedDict

from daemon.methods.filters import read_scope
from daemon.parts import Parts
from daemon.wire import Method, Scoped
from storage.model import is_role
from storage.where import Where

MOST: Final = 200  # entities that are told
MOST_RELATED: Final = 10  # others that are told of each


class NameCount(TypedDict):
    """A name and in how many memories it stands."""

    name: str
    count: int


class Entity(TypedDict):
    """A name, in how many memories it stands, and with which others, commonest first."""

    name: str
    count: int
    related: list[NameCount]


class Entities(TypedDict):
    """The 200 commonest names, each with at most ten of those that share a memory with it."""

    entities: list[Entity]


async def entities(parts: Parts, params: Scoped) -> Entities:
    """The names of a scope, commonest first, each with those it shares most memories with."""
    return await asyncio.to_thread(counted, await parts.lane.run(_named, parts, params))


def _named(parts: Parts, params: Scoped) -> list[tuple[str, ...]]:
    """The names of each memory that the caller may see: whom it mentions, and who said it. Called in the lane."""
    where = Where(now=parts.clock.now(), scope=read_scope(params.scope), clearance=params.clearance)
    rows = (row for row in parts.stores.catalogue.rows(where.scope) if where.admits(row))
    every = (row.entities if is_role(row.author) else (row.author, *row.entities) for row in rows)
    return [names for names in every if any(names)]


def counted(memories: Iterable[tuple[str, ...]]) -> Entities:
    """Count each name once a memory, whatever its case; it is shown as it is mostly spelt. Pure: it runs outside the lane."""
    spelt: dict[str, Counter[str]] = {}
    sets: list[KeysView[str]] = []
    for names in memories:
        keys = {name.casefold(): name for name in reversed(names) if name.strip()}  # the author's own spelling wins
        for key, name in keys.items():
            spelt.setdefault(key, Counter())[name] += 1
        sets.append(keys.keys())
    shown = {key: min(names, key=lambda name: (-names[name], name)) for key, names in spelt.items()}
    counts = {key: names.total() for key, names in spelt.items()}
    together: dict[str, Counter[str]] = {key: Counter() for key in _commonest(counts, shown, MOST)}
    for one in sets:
        for key in one & together.keys():
            together[key].update(one - {key})
    return {
        "entities": [
            {"name": shown[key], "count": counts[key], "related": _related(others, shown)}
            for key, others in together.items()
        ]
    }


def _related(others: Mapping[str, int], shown: Mapping[str, str]) -> list[NameCount]:
    return [{"name": shown[key], "count": others[key]} for key in _commonest(others, shown, MOST_RELATED)]


def _commonest(counts: Mapping[str, int], shown: Mapping[str, str], most: int) -> list[str]:
    """The keys with the highest counts, and among equals by name."""
    return heapq.nsmallest(most, counts, key=lambda key: (-counts[key], shown[key]))


METHODS: Final = (
    Method("entities", "read", Scoped, Entities, entities, False, "Count the names in a scope's memories."),
)
