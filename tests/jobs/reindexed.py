"""What a store says before and after it got new vectors."""

from __future__ import annotations

from typing import Any

from tests.harness import Daemon


def contents(daemon: Daemon) -> dict[str, str]:
    return {one["id"]: one["content"] for one in daemon.call("list", scope="*", limit=500)["memories"]}


def everything(daemon: Daemon) -> dict[str, Any]:
    """All but the vectors, and what counts the writes."""
    stores = daemon.stores

    def look() -> dict[str, Any]:
        ids = sorted(row.id for row in stores.catalogue.every())
        return {
            "memories": stores.memories.read(ids),
            "edges": dict(stores.synapses.every()),
            "versions": {memory: stores.records.versions(memory) for memory in ids},
        }

    return daemon.in_lane(look)


def closest(daemon: Daemon, text: str) -> str:
    """The memory that says just this, found by its vector as well."""
    hit = daemon.call("recall", query=text, explain=True, learn=False)["hits"][0]
    assert hit["why"]["cosine"] > 0.99
    return str(hit["id"])


def fill(daemon: Daemon, count: int) -> None:
    items = [{"id": f"n{n}", "content": f"note {n} about topic{n}"} for n in range(count)]
    assert daemon.call("remember_many", items=items)["failed"] == 0
