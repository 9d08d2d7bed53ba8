"""What a store says before and after it got new vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.daemon.methods.providers import USE, WORDLLAMA, Providers
from tests.harness import BY_HAND, Daemon


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


def made_with_another(daemons: Callable[..., Daemon], providers: Providers) -> Daemon:
    """A daemon whose store was made with another embedder than the configuration names now."""
    first = daemons(options=BY_HAND | USE, embedder=providers.load).start()
    fill(first, 60)
    first.call("connect", a="n1", b="n2")
    first.call("update", id="n3", content="note 3 was edited")
    first.call("forget", ids=["n4", "n5"])
    first.call("forget", id="n6", superseded_by="n7")
    first.stop()
    return daemons(options=BY_HAND | WORDLLAMA, embedder=providers.load, clock=first.clock).start()
