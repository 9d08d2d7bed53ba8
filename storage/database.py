"""`state.db` as SQLite sees it: one connection behind one lock, transactions, migrations, and its faults as errors of ours."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from storage.errors import Corrupt, Unavailable
from storage.schema import STEPS, VERSION


class Database:
    """Statements in, rows out. Raises Unavailable where it cannot be used now, Corrupt where it cannot be read."""

    def __init__(self, path: Path, *, power_safe: bool = False) -> None:
        self.path = path
        self._lock = threading.RLock()
        with ExitStack() as undone, self._guard():
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=5.0)
            undone.callback(self._db.close)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {'FULL' if power_safe else 'NORMAL'}")
            self._db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten with zeros
            self._migrate()
            undone.pop_all()

    def copy_to(self, path: Path) -> None:
        """Copy it whole into the new file `path`, as it is at this moment."""
        with self._lock, self._guard(), closing(sqlite3.connect(path)) as copy:
            self._db.backup(copy)

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing; nested use joins the outer transaction."""
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            self.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                self._db.rollback()  # no fault where the failure has rolled it back already
                raise

    def execute(self, sql: str, *values: Any) -> int:
        """Carry out one statement; how many rows it changed."""
        with self._lock, self._guard():
            return self._db.execute(sql, values).rowcount

    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out one statement for each row of values."""
        with self._lock, self._guard():
            self._db.executemany(sql, rows)

    def one(self, sql: str, *values: Any) -> Any:
        """The first row, or None."""
        with self._lock, self._guard():
            return self._db.execute(sql, values).fetchone()

    def all(self, sql: str, *values: Any) -> list[Any]:
        """Every row."""
        with self._lock, self._guard():
            return self._db.execute(sql, values).fetchall()

    def empty_log(self) -> None:
        """Fold the log into the file and cut it, so that it keeps no byte of what was overwritten."""
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _migrate(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise Corrupt(
                f"{self.path} was written by a newer dreamd (schema {version}, this one knows {VERSION}).",
                hint="Install that version again.",
            )
        if version < VERSION:
            with self.transaction():
                for statement in ";".join(STEPS[version:]).split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise Unavailable(
                f"The ledger {self.path} cannot be used now: {error}.", hint="Free disk space, then: dreamctl health"
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: sqlite3.Error) -> Corrupt:
        return Corrupt(
            f"The ledger {self.path} cannot be read: {error}. The memories are not in it; runs, undo and spend are.",
            hint=f"Take one out of a backup, or begin a new one: mv {self.path} {self.path}.damaged, then start dreamd",
        )
