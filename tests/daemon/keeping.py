"""A few memories to keep and to find again, for whatever copies and brings back whole stores."""

from __future__ import annotations

from tests.harness import Daemon


def contents(daemon: Daemon) -> dict[str, str]:
    return {one["id"]: one["content"] for one in daemon.call("list", scope="*", limit=500)["memories"]}


def fill(daemon: Daemon) -> dict[str, str]:
    """A few memories; returns what they say."""
    daemon.remember("Ada likes tea", id="tea")
    daemon.remember("Ada bakes cake", id="cake", connect_to=["tea"])
    return contents(daemon)
