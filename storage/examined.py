"""What a job has looked at already, in the ledger, so that a night works on what is new or changed alone.

A mark is a hash of all that the job's judgement of a memory depends on: it holds no text, and a memory that was edited,
imported or brought back has another one, or none, whatever its times say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

from storage.database import Database


def mark(*parts: str) -> int:
    """The mark of something by what it depends on: a whole number of 64 bits, with a sign as SQLite keeps it."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


class Examined:
    """The marks of each job."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def of(self, job: str) -> set[int]:
        """All marks of a job."""
        return {row[0] for row in self._db.all("SELECT mark FROM examined WHERE job = ?", job)}

    def add(self, job: str, marks: Iterable[int]) -> None:
        """Note that these were looked at."""
        with self._db.transaction():
            self._db.many("INSERT OR IGNORE INTO examined VALUES (?, ?)", [(job, one) for one in marks])

    def drop(self, job: str, marks: Collection[int]) -> None:
        """Let go of marks, of what is there no more or is to be looked at again."""
        with self._db.transaction():
            self._db.many("DELETE FROM examined WHERE job = ? AND mark = ?", [(job, one) for one in marks])
