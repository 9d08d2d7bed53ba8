"""The ledger's tables, and the steps from each version of them to the next; a step that was released never changes."""

from __future__ import annotations

from typing import Final

_FIRST: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    id TEXT PRIMARY KEY, job TEXT NOT NULL, parent TEXT, trigger TEXT NOT NULL, dry_run INTEGER NOT NULL,
    started_at REAL NOT NULL, ended_at REAL, seed INTEGER NOT NULL, late_by REAL, outcome TEXT, reason TEXT,
    counts TEXT NOT NULL DEFAULT '{}', examples TEXT NOT NULL DEFAULT '[]', cost_micro_usd INTEGER NOT NULL DEFAULT 0,
    undo_of TEXT, undone_by TEXT
) WITHOUT ROWID;
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_job ON runs (job, started_at);
CREATE TABLE journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, at REAL NOT NULL, op TEXT NOT NULL, key TEXT NOT NULL,
    scope TEXT NOT NULL, undone INTEGER NOT NULL DEFAULT 0, image BLOB NOT NULL
);
CREATE INDEX journal_by_run ON journal (run);
CREATE INDEX journal_by_op ON journal (op, at);
CREATE INDEX journal_by_key ON journal (key);
CREATE TABLE absences (since REAL NOT NULL, until REAL NOT NULL);
CREATE TABLE requests (id TEXT PRIMARY KEY, method TEXT NOT NULL, params TEXT NOT NULL, answer TEXT NOT NULL, at REAL NOT NULL)
    WITHOUT ROWID;
CREATE TABLE spend (
    number INTEGER PRIMARY KEY AUTOINCREMENT, day TEXT NOT NULL, at REAL NOT NULL, run TEXT, job TEXT NOT NULL,
    provider TEXT NOT NULL, model TEXT NOT NULL, state TEXT NOT NULL, micro_usd INTEGER NOT NULL,
    tokens_in INTEGER NOT NULL DEFAULT 0, tokens_out INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX spend_by_day ON spend (day);
"""
_ERASED: Final = """
CREATE TABLE erased (number INTEGER PRIMARY KEY AUTOINCREMENT, point TEXT NOT NULL UNIQUE, at REAL NOT NULL)
"""

_NIGHTS: Final = """
ALTER TABLE runs ADD COLUMN canary TEXT;
ALTER TABLE runs ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET number = began.number
    FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY started_at, id) AS number FROM runs) AS began WHERE began.id = runs.id;
CREATE UNIQUE INDEX runs_by_number ON runs (number);
DROP INDEX runs_by_job;
CREATE INDEX runs_by_job ON runs (job, number);
CREATE TABLE examined (job TEXT NOT NULL, mark INTEGER NOT NULL, PRIMARY KEY (job, mark)) WITHOUT ROWID;
CREATE TABLE proposals (
    a TEXT NOT NULL, b TEXT NOT NULL, scope TEXT NOT NULL, cosine REAL NOT NULL, at REAL NOT NULL, run TEXT NOT NULL,
    PRIMARY KEY (a, b)
) WITHOUT ROWID;
CREATE TABLE canaries (
    question BLOB PRIMARY KEY, at REAL NOT NULL, scope TEXT NOT NULL, clearance TEXT NOT NULL, dense BLOB NOT NULL,
    terms BLOB NOT NULL, ids TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX proposals_by_b ON proposals (b);
CREATE INDEX journal_by_time ON journal (at);
UPDATE meta SET key = 'owed_since' WHERE key = 'born_at'
"""

#: Each takes the schema from one version to the next; the tables of version n are what the first n make.
STEPS: Final = (_FIRST, _ERASED, _NIGHTS)
VERSION: Final = len(STEPS)
