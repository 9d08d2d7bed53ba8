"""What a Chroma folder says of its records, read from its SQLite file alone: no vectors, and no Chroma."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from storage.exchange.sqlite_files import Connection, columns, is_sqlite, opened

DOCUMENT: Final = "chroma:document"  # under this key the text itself
#: The number of that operation in the queue.
DELETE: Final = 3

Found = defaultdict[str, dict[str, Any]]


def metadata_of(database: Path, collection: str) -> dict[str, dict[str, Any]]:
    """The metadata of each record of a collection by its id, without the text; empty where there is no such file.

    Raises Invalid where the file is locked or damaged.
    """
    found: Found = defaultdict(dict)
    if is_sqlite(database):
        with opened(database) as connection:
            if columns(connection, "embedding_metadata"):
                _from_table(connection, collection, found)
            if columns(connection, "embeddings_queue"):
                _from_queue(connection, collection, found)
    return found


def _from_table(connection: Connection, collection: str, found: Found) -> None:
    values = [name for name in columns(connection, "embedding_metadata") if name.endswith("_value")]
    query = f"""
        SELECT embeddings.embedding_id, key, coalesce({", ".join(values)}) FROM embedding_metadata
        JOIN embeddings ON embeddings.id = embedding_metadata.id
        JOIN segments ON segments.id = embeddings.segment_id
        JOIN collections ON collections.id = segments.collection
        WHERE collections.name = ? AND key <> ?
    """  # noqa: S608 - the names are Chroma's
    for own, key, value in connection.execute(query, (collection, DOCUMENT)):
        found[own][key] = value


def _from_queue(connection: Connection, collection: str, found: Found) -> None:
    """What was written last may still wait in the queue; what already left it comes out the same once more."""
    query = """
        SELECT operation, embeddings_queue.id, embeddings_queue.metadata FROM embeddings_queue
        JOIN collections ON topic LIKE '%/' || collections.id WHERE collections.name = ? ORDER BY seq_id
    """
    for operation, own, metadata in connection.execute(query, (collection,)):
        if operation == DELETE:
            found.pop(own, None)
        else:
            found[own] |= {
                key: value for key, value in _members(metadata).items() if key != DOCUMENT and value is not None
            }


def _members(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
