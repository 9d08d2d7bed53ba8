"""Links that lead round in a circle: in a file anything may be its own successor, or the answer to itself."""

from __future__ import annotations

from collections.abc import Mapping


def closing(links: Mapping[str, str]) -> set[str]:
    """From where the links go out that close a circle: one in each, without which there is none. In one pass. Pure."""
    found: set[str] = set()
    done: set[str] = set()
    for start in links:
        path: dict[str, None] = {}
        last, at = "", start
        while at in links and at not in done and at not in path:
            path[at] = None
            last, at = at, links[at]
        if at in path:
            found.add(last)
        done.update(path)
    return found
