"""Histories of which each former text is a record of its own, naming the one before it: which is the memory, which a version."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from storage.model import SENSITIVITIES


class Link(NamedTuple):
    """A record and the one that it took the place of; `parent` is empty where there is none."""

    id: str
    parent: str
    number: int
    created_at: float
    sensitivity: str | None


class Head(NamedTuple):
    """What a memory has from its whole history: its number, its birth, and the highest sensitivity it ever had."""

    number: int
    created_at: float
    sensitivity: str | None


class Former(NamedTuple):
    """Where a former text belongs, and until when it stood."""

    memory: str
    number: int
    replaced_at: float


class Chains:
    """Each record that another took the place of is a former one; of several that claim one place, the newest has it.

    Records that name each other in a circle are memories, all of them: none of them is the last.
    """

    def __init__(self, links: Iterable[Link]) -> None:
        known = {link.id: link for link in links}
        successors: dict[str, Link] = {}
        for link in known.values():
            rival = successors.get(link.parent)
            if link.parent in known and link.parent != link.id and (rival is None or _age(rival) < _age(link)):
                successors[link.parent] = link
        self._heads: dict[str, Head] = {}
        self._former: dict[str, Former] = {}
        for link in known.values():
            if link.id not in successors:
                self._place(_chain(link, known, successors))

    def is_former(self, record: str | None) -> bool:
        """Whether another record took its place."""
        return record in self._former

    def head(self, record: str | None) -> Head | None:
        """What the memory has from its history; None where it has none."""
        return self._heads.get(record or "")

    def former(self, record: str) -> Former:
        """Where a former text belongs."""
        return self._former[record]

    def _place(self, chain: list[Link]) -> None:
        newest = chain[0]
        levels = [link.sensitivity for link in chain if link.sensitivity is not None]
        highest = max(levels, key=SENSITIVITIES.index, default=None)
        number = max(newest.number, len(chain))  # those of the chain rise by one, and begin with 1 at the least
        if len(chain) > 1:
            self._heads[newest.id] = Head(number, min(link.created_at for link in chain), highest)
        for later, link in pairwise(chain):
            number -= 1
            self._former[link.id] = Former(newest.id, number, later.created_at)


def _chain(newest: Link, known: dict[str, Link], successors: dict[str, Link]) -> list[Link]:
    """A head and those before it, newest first."""
    chain = [newest]
    while successors.get(chain[-1].parent) is chain[-1]:
        chain.append(known[chain[-1].parent])
    return chain


def _age(link: Link) -> tuple[int, float, str]:
    return link.number, link.created_at, link.id
