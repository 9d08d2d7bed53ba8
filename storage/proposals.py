"""Pairs of memories that are near but not plainly the same, in the ledger: what `dedup` leaves to `consolidate` to judge.

A proposal is two ids and a cosine, never a text. Who takes one up looks whether both are still there, and live.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

from storage.database import Database


class Proposal(NamedTuple):
    """A pair of one scope, in the order of the ids; `run` proposed it at `at`."""

    a: str
    b: str
    scope: str
    cosine: float
    at: float
    run: str


class Proposals:
    """The pairs that wait."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, proposals: Sequence[Proposal]) -> None:
        """Let them wait; one that waits already is renewed."""
        with self._db.transaction():
            self._db.many("INSERT OR REPLACE INTO proposals VALUES (?, ?, ?, ?, ?, ?)", proposals)

    def waiting(self) -> list[Proposal]:
        """Those that wait, nearest first."""
        rows = self._db.all("SELECT * FROM proposals ORDER BY cosine DESC, a, b")
        return [Proposal(*row) for row in rows]

    def count(self) -> int:
        """How many wait."""
        return int(self._db.one("SELECT COUNT(*) FROM proposals")[0])

    def settle(self, pairs: Collection[tuple[str, str]]) -> None:
        """Let go of pairs that were judged."""
        with self._db.transaction():
            self._db.many("DELETE FROM proposals WHERE a = ? AND b = ?", list(pairs))

    def forget(self, memories: Collection[str]) -> None:
        """Let go of every pair that names one of these memories."""
        self._db.execute(
            "DELETE FROM proposals WHERE a IN (SELECT value FROM json_each(?1)) OR b IN (SELECT value FROM json_each(?1))",
            json.dumps([*memories]),
        )
