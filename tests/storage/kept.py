"""A small store whose snapshots are taken, damaged and restored."""

from __future__ import annotations

import os
from pathlib import Path

from storage import edge_files, snapshots
from storage.memories import LIVE
from storage.snapshots import SNAPSHOTS, Coming, Snapshot
from storage.swap import MANIFEST, STORE
from tests.storage.opened import Opened

MADE_BY = {"dreamd": "0.1.0", "qdrant-edge-py": "0.9.0"}


def filled(fresh: Opened) -> Opened:
    """Three memories, one of them in the bin, an edge and a former version."""
    fresh.stores.settle_fingerprint(fresh.embedder.fingerprint)
    fresh.add("Ada likes tea", id="tea")
    fresh.add("Ada bakes cake", id="cake", connect_to=["tea"])
    fresh.add("gone", id="gone")
    fresh.update("tea", content="Ada likes green tea 🍵")
    fresh.forget("gone")
    return fresh


def take(opened: Opened, label: str = "") -> Snapshot:
    return snapshots.finished(snapshots.copied(opened.stores, label, opened.now, MADE_BY))


def unpack(opened: Opened, name: str, reserve_mb: int = 1) -> Coming:
    return snapshots.unpacked(opened.folder, name, snapshots.find(opened.folder, name), reserve_mb=reserve_mb)


def restore(opened: Opened, name: str) -> str | None:
    coming = unpack(opened, name)
    return snapshots.exchange(opened.stores, coming, snapshots.BEFORE_RESTORE, opened.now, MADE_BY)


def everything(opened: Opened) -> dict[str, object]:
    stores = opened.stores
    ids = sorted(row.id for row in stores.catalogue.every())
    return {
        "memories": stores.memories.read(ids),
        "edges": dict(stores.synapses.every()),
        "versions": {memory: stores.records.versions(memory) for memory in ids},
        "counts": opened.engine.counts(),
    }


def manifest_path(opened: Opened, name: str) -> Path:
    return opened.folder / SNAPSHOTS / name / MANIFEST


def tracker(snapshot: Path) -> Path:
    (segment,) = edge_files.segments(snapshot / STORE / LIVE).values()
    return segment / "mutable_id_tracker.mappings"


def cut(snapshot: Path) -> None:
    os.truncate(tracker(snapshot), tracker(snapshot).stat().st_size // 2)
