"""How `dreamctl` tells a person what an export and an import did."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.output import render
from daemon.terminal import Screen
from daemon.transfers import NAMES
from storage.exchange.items import KINDS
from storage.snapshots import CORRUPT
from tests.daemon.scripted import ROOT, dreamctl
from tests.harness import BY_HAND, Daemon, started

EXPORTED = {
    "path": "/tmp/a.jsonl", "format": "jsonl", "scope": "*", "memories": 1_204, "bytes": 2_345_678,
    "counts": {"memory": 1_204, "version": 1, "edge": 3_000, "comment": 0},
}  # fmt: skip
IMPORTED = {
    "run_id": "r1", "format": "jsonl", "dry_run": False, "imported": 2, "skipped": 1, "conflicts": [], "conflicts_total": 0,
    "failed": [], "failed_total": 0, "counts": {"memory": 2, "fact": 1}, "kept": {"memory": 1, "edge": 2}, "unknown": {},
    "redactions": {}, "scopes": {"ada/coach": 2},
}  # fmt: skip


def shown(method: str, result: dict[str, Any]) -> list[str]:
    return list(render(method, result, Screen(None, colour=False, now=0.0)))


def test_every_kind_has_a_name_for_people():
    assert NAMES.keys() == set(KINDS)


def test_an_export_tells_how_much_went_where():
    assert shown("export", EXPORTED) == [
        "Exported 1,204 memories to /tmp/a.jsonl (2.35 MB).",
        "with them  1 former version, 3,000 edges",
        "scope      every scope",
        "format     jsonl",
    ]


def test_a_table_is_told_to_hold_the_memories_alone():
    told = shown(
        "export", EXPORTED | {"format": "csv", "counts": {"memory": 1}, "memories": 1, "bytes": 999, "scope": "a/b"}
    )

    assert told[0] == "Exported 1 memory to /tmp/a.jsonl (999 bytes)."
    assert told[1:] == [
        "scope   a/b",
        "format  csv",
        "A table holds the memories alone; --format jsonl holds all that hangs on them.",
    ]


def test_an_import_tells_what_came_what_was_here_and_how_it_is_taken_back():
    assert shown("import", IMPORTED) == [
        "Imported 2 memories.",
        "into          ada/coach (2)",
        "with them     1 fact",
        "here already  1 memory, 2 edges",
        "format        jsonl",
        "Take it back: dreamctl undo r1",
    ]


def test_an_import_tells_what_did_not_come_and_why():
    told = shown("import", IMPORTED | {
        "conflicts": [{"id": "m1", "place": "line 3"}], "conflicts_total": 3,
        "failed": [{"place": "line 4", "detail": "it is blank"}], "failed_total": 1,
        "unknown": {"photo": 2}, "redactions": {"jwt": 1},
    })  # fmt: skip

    assert told[4:7] == ["conflicts     3; ours are kept", "no place for  photo (2)", "redacted      jwt (1)"]
    assert told[8:11] == ["  conflict m1 (line 3), ours is kept", "  and 2 more", "  not stored line 4: it is blank"]


def test_a_dry_run_says_would_and_offers_no_way_back():
    told = shown("import", IMPORTED | {"dry_run": True})

    assert told[0] == "Would import 2 memories."
    assert not [line for line in told if "undo" in line]
    assert not [line for line in shown("import", IMPORTED | {"counts": {}, "imported": 0}) if "undo" in line]


def test_a_snapshot_tells_its_name_and_size_and_the_way_back():
    kept = {"name": "s1", "memories": 5, "bin": 1, "edges": 2, "bytes": 1_500}

    assert shown("snapshot", kept) == [
        "Kept s1: 5 memories, 1 in the bin (1.5 kB).", "Back to it: dreamctl restore_snapshot s1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("replaced", "lines"),
    [
        ("s2", ["What was there is kept as s2: dreamctl restore_snapshot s2"]),
        (f"{CORRUPT}s2", [f"What was there is damaged; it is kept in the folder {CORRUPT}s2."]),
        (None, []),
    ],
)
def test_a_restored_snapshot_tells_where_the_former_store_is(replaced, lines):
    restored = {"name": "s1", "memories": 1, "bin": 0, "edges": 2, "replaced": replaced}

    assert shown("restore_snapshot", restored) == ["Restored s1: 1 memory, 0 in the bin.", *lines]


def test_a_backup_tells_what_went_where():
    assert shown("backup", {"path": "/tmp/a.zip", "bytes": 2_000_000, "memories": 2}) == [
        "Backed up 2 memories to /tmp/a.zip (2 MB)."
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, "Reindexed 3 memories with use."),
        ({"outcome": "unchanged", "memories": 0}, "Nothing to do: the vectors are those of use already."),
        ({"outcome": "failed", "reason": "No room."}, "failed: the vectors are as they were. No room."),
    ],
)
def test_new_vectors_are_told_by_their_embedder(change, line):
    done = {"run_id": "r", "outcome": "changed", "reason": None, "memories": 3, "embedder": "use"}

    assert shown("reindex", done | change) == [line]


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        daemon.remember("Ada keeps bees", id="bees")
        yield daemon


def test_a_path_is_made_absolute_and_the_way_there_and_back_works(daemon, tmp_path):
    relative = os.path.relpath(tmp_path / "my bees.jsonl", ROOT)  # where `dreamctl` is started
    there = dreamctl(daemon.config.socket, "export", relative)
    back = dreamctl(daemon.config.socket, "import", relative, "--dry-run", "--json")

    assert (there.code, back.code) == (0, 0), (there, back)
    assert there.out.startswith("Exported 1 memory to /")
    assert (tmp_path / "my bees.jsonl").exists()
    assert (back.json["skipped"], back.json["dry_run"]) == (1, True)
    again = dreamctl(daemon.config.socket, "export", relative)
    assert again.code == 1
    assert "exists already" in again.err


def test_a_file_of_which_something_failed_ends_with_an_error_code(daemon, tmp_path):
    path = Path(tmp_path, "a")
    path.write_text(json.dumps({"content": "x", "id": "x"}) + "\noops\n")
    done = dreamctl(daemon.config.socket, "import", str(path))

    assert done.code == 1
    assert "Imported 1 memory." in done.out
    assert "not stored line 2: it is no JSON" in done.out
