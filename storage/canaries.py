"""Canaries: a small ring of the owner's own recalls, by which a night measures what it did to what can be found.

Of a question its vectors are kept, where it looked and which memories it returned; never its text. They lie in the ledger,
so that a restart between the day and the night loses none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np

from storage.database import Database
from storage.engine import Sparse, Vector

RING: Final = 64  # questions kept, the newest


class Canary(NamedTuple):
    """A question as the engine sees it, asked at `at`, and the ids of what it returned, best first."""

    at: float
    scope: str
    clearance: str
    dense: Vector  # (dimension,)
    terms: Sparse
    ids: tuple[str, ...]


class Canaries:
    """The ring."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, canaries: Sequence[Canary]) -> None:
        """Keep these questions; one that was asked before is renewed, and the oldest beyond the ring go."""
        with self._db.transaction():
            self._db.many("INSERT OR REPLACE INTO canaries VALUES (?, ?, ?, ?, ?, ?, ?)", [*map(_row, canaries)])
            self._db.execute(
                "DELETE FROM canaries WHERE question NOT IN "
                "(SELECT question FROM canaries ORDER BY at DESC, question LIMIT ?)",
                RING,
            )

    def every(self) -> list[Canary]:
        """The ring, newest first."""
        rows = self._db.all("SELECT * FROM canaries ORDER BY at DESC, question")
        return [_canary(*row[1:]) for row in rows]

    def clear(self) -> None:
        """Let go of all."""
        self._db.execute("DELETE FROM canaries")

    def forget(self, memories: Collection[str]) -> None:
        """Let go of every question that returned one of these memories: its vector may tell what they said."""
        gone = frozenset(memories)
        rows = self._db.all("SELECT question, ids FROM canaries")
        going = [(question,) for question, ids in rows if not gone.isdisjoint(json.loads(ids))]
        with self._db.transaction():
            self._db.many("DELETE FROM canaries WHERE question = ?", going)

    def forget_within(self, scope: str) -> None:
        """Let go of every question that was asked in a scope or below it."""
        below = f"{scope}/"
        self._db.execute("DELETE FROM canaries WHERE scope = ? OR substr(scope, 1, ?) = ?", scope, len(below), below)


def _row(canary: Canary) -> tuple[bytes, float, str, str, bytes, bytes, str]:
    dense = canary.dense.astype(np.float16).tobytes()
    indices = np.array(canary.terms.indices, np.uint32).tobytes()
    values = np.array(canary.terms.values, np.float32).tobytes()
    asked = f"{canary.scope}\0{canary.clearance}\0".encode() + dense + indices
    question = hashlib.blake2b(asked, digest_size=16).digest()
    ids = json.dumps(canary.ids, ensure_ascii=False)
    return question, canary.at, canary.scope, canary.clearance, dense, indices + values, ids


def _canary(at: float, scope: str, clearance: str, dense: bytes, terms: bytes, ids: str) -> Canary:
    half = len(terms) // 2
    indices, values = np.frombuffer(terms[:half], np.uint32), np.frombuffer(terms[half:], np.float32)
    sparse = Sparse(tuple(indices.tolist()), tuple(values.tolist()))
    return Canary(
        at, scope, clearance, np.frombuffer(dense, np.float16).astype(np.float32), sparse, tuple(json.loads(ids))
    )
