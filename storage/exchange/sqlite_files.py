"""SQLite files of other systems: opened read-only, never written, and refused as a whole where they are damaged."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from storage.errors import Invalid

#: How long to wait for the program that writes the file just now (seconds).
PATIENCE: Final = 2.0

_MAGIC: Final = b"SQLite format 3\0"
_JOURNAL_MODE: Final = slice(18, 19)  # of the header
_WAL: Final = b"\2"

Connection = sqlite3.Connection
Row = dict[str, Any]


def is_sqlite(path: Path) -> bool:
    """Whether the file begins as every SQLite file does."""
    return path.is_file() and _header(path).startswith(_MAGIC)


@contextmanager
def opened(path: Path) -> Iterator[Connection]:
    """A connection that only reads. Raises Invalid where the file is locked, cut or damaged, whenever that shows."""
    try:
        with closing(_connection(path)) as connection:
            yield connection
    except (sqlite3.Error, OSError) as error:
        raise _unreadable(path, error) from error


def columns(connection: Connection, table: str) -> list[str]:
    """The columns of a table; none where there is no such table."""
    return [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]


def read_through(connection: Connection, tables: Sequence[str]) -> None:
    """Read every row once, so that a file which is damaged anywhere is refused before the first item leaves it."""
    for table in tables:
        if columns(connection, table):
            for _ in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608 - the names are ours
                pass


def rows(connection: Connection, table: str, order: str = "rowid") -> Iterator[tuple[str, Row]]:
    """Every row with the place where it stands, without the columns that hold nothing; none where there is no table."""
    names = columns(connection, table)
    if names:
        query = f"SELECT rowid, * FROM {table} ORDER BY {order}"  # noqa: S608 - the names are ours
        for number, *values in connection.execute(query):
            row = dict(zip(names, values, strict=True))
            yield (
                f"row {number} of {table}",
                {name: value for name, value in row.items() if value not in (None, "", b"")},
            )


def _connection(path: Path) -> Connection:
    # A file in WAL mode without its log is in nobody's hands. To open it as such would make the log and its index anew,
    # beside it, which a folder that cannot be written does not allow.
    alone = _header(path)[_JOURNAL_MODE] == _WAL and not path.with_name(path.name + "-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, check_same_thread=False)
    connection.text_factory = _text
    return connection


def _text(stored: bytes) -> str | bytes:
    """A text, or the bytes as they are where they are none: one such value must not end the reading."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)


def _unreadable(path: Path, error: Exception) -> Invalid:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return Invalid(
            f"{path} is locked by the program that uses it.", hint="stop that program, or import a copy", field="path"
        )
    return Invalid(
        f"{path} cannot be read as SQLite: {error}.",
        hint=f"import another copy, or see what is left of it: sqlite3 {shlex.quote(str(path))} .recover",
        field="path",
    )
