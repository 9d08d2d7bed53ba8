"""A data folder of anchor-memory, with its own tables and those of Chroma."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from storage.exchange import anchor
from storage.exchange.items import Fault, Item

SCHEMA = """
CREATE TABLE memories (
    memory_id TEXT PRIMARY KEY, text TEXT NOT NULL, timestamp TEXT NOT NULL, usage_count INTEGER DEFAULT 0,
    last_used TEXT, tag TEXT DEFAULT 'general', tier TEXT DEFAULT 'short', pinned INTEGER DEFAULT 0,
    emotion_score REAL DEFAULT 0.5
);
CREATE TABLE edges (
    source_id TEXT NOT NULL, target_id TEXT NOT NULL, weight REAL DEFAULT 1.0, created TEXT NOT NULL,
    last_fired TEXT NOT NULL, PRIMARY KEY (source_id, target_id),
    FOREIGN KEY (source_id) REFERENCES memories(memory_id) ON DELETE CASCADE,
    FOREIGN KEY (target_id) REFERENCES memories(memory_id) ON DELETE CASCADE
);
CREATE INDEX idx_edges_source ON edges(source_id);
CREATE INDEX idx_edges_target ON edges(target_id);
CREATE TABLE comments (
    comment_id TEXT PRIMARY KEY, memory_id TEXT NOT NULL REFERENCES memories(memory_id) ON DELETE CASCADE,
    content TEXT NOT NULL, author TEXT DEFAULT 'ai', reply_to TEXT REFERENCES comments(comment_id),
    read_by_ai INTEGER DEFAULT 0, read_by_human INTEGER DEFAULT 0, created_at TEXT NOT NULL
);
CREATE TABLE annotations (
    annotation_id INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT NOT NULL REFERENCES memories(memory_id) ON DELETE CASCADE,
    text TEXT NOT NULL, created_at TEXT NOT NULL
);
CREATE TABLE events (
    event_id INTEGER PRIMARY KEY AUTOINCREMENT, memory_id TEXT, event_type TEXT NOT NULL, detail TEXT DEFAULT '',
    created_at TEXT NOT NULL
);
ALTER TABLE memories ADD COLUMN context TEXT DEFAULT '';
ALTER TABLE memories ADD COLUMN visual_embedding TEXT DEFAULT '';
"""

CHROMA = """
CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL, dimension INTEGER, database_id TEXT, config_json_str TEXT);
CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT NOT NULL, scope TEXT NOT NULL, collection TEXT REFERENCES collections(id));
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY, segment_id TEXT NOT NULL, embedding_id TEXT NOT NULL, seq_id BLOB NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (segment_id, embedding_id)
);
CREATE TABLE embedding_metadata (
    id INTEGER REFERENCES embeddings(id), key TEXT NOT NULL, string_value TEXT, int_value INTEGER, float_value REAL,
    bool_value INTEGER, PRIMARY KEY (id, key)
);
CREATE TABLE embeddings_queue (
    seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, operation INTEGER NOT NULL,
    topic TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, encoding TEXT, metadata TEXT
);
INSERT INTO collections VALUES ('c-1', 'memories', 384, 'd', '{}'), ('c-2', 'other', 384, 'd', '{}');
INSERT INTO segments VALUES
    ('s-0', 'urn:chroma:segment/vector/hnsw-local-persisted', 'VECTOR', 'c-1'),
    ('s-1', 'urn:chroma:segment/metadata/sqlite', 'METADATA', 'c-1'),
    ('s-2', 'urn:chroma:segment/metadata/sqlite', 'METADATA', 'c-2');
"""
UPSERT, DELETE = 2, 3


class Folder:
    """A data folder of anchor-memory, written as anchor-memory writes it."""

    def __init__(self, path):
        self.path = path
        self.database = path / "memories.db"
        self.chroma = path / "chroma" / "chroma.sqlite3"
        self.chroma.parent.mkdir(parents=True)
        self.run(SCHEMA)
        with closing(sqlite3.connect(self.chroma)) as connection:
            connection.executescript(CHROMA)

    def run(self, script):
        with closing(sqlite3.connect(self.database)) as connection:
            connection.executescript(script)

    def insert(self, table, **values):
        self._insert(self.database, table, values)

    def memory(self, memory_id, text="a text", **values):
        self.insert("memories", memory_id=memory_id, text=text, **{"timestamp": "2026-05-04T09:30:00", **values})

    def edge(self, a, b, weight, created="2026-05-04T09:30:00", fired="2026-05-05T00:00:00"):
        for source, target in {(a, b), (b, a)}:
            values = {"weight": weight, "created": created, "last_fired": fired}
            self.insert("edges", source_id=source, target_id=target, **values)

    def comment(self, comment_id, memory_id, **values):
        given = {"content": "a remark", "created_at": "2026-05-04T09:30:00", **values}
        self.insert("comments", comment_id=comment_id, memory_id=memory_id, **given)

    def vector(self, number, memory_id, segment="s-1", **metadata):
        self._insert(
            self.chroma, "embeddings", {"id": number, "segment_id": segment, "embedding_id": memory_id, "seq_id": 1}
        )
        for key, value in {"memory_id": memory_id, "tag": "general", "chroma:document": "a text", **metadata}.items():
            column = {str: "string_value", bool: "bool_value", int: "int_value", float: "float_value"}[type(value)]
            self._insert(self.chroma, "embedding_metadata", {"id": number, "key": key, column: value})

    def queued(self, operation, memory_id, topic="persistent://default/default/c-1", **metadata):
        values = {"operation": operation, "topic": topic, "id": memory_id, "metadata": json.dumps(metadata)}
        self._insert(self.chroma, "embeddings_queue", values)

    def read(self):
        return list(anchor.read(self.path))

    def items(self, kind):
        return [item.fields for item in self.read() if isinstance(item, Item) and item.kind == kind]

    def faults(self):
        return [entry for entry in self.read() if isinstance(entry, Fault)]

    @staticmethod
    def _insert(database, table, values):
        with closing(sqlite3.connect(database)) as connection, connection:
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))
