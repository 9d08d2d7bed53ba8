"""`dreamd --restore-snapshot NAME`: the restore for a store on which no daemon starts."""

from __future__ import annotations

import os
from contextlib import closing

from daemon.config import Config
from daemon.lock import StateLock
from daemon.opening import is_doubtful, made_by, make_state
from storage import snapshots, swap
from storage.edge import EdgeEngine
from storage.errors import Corrupt, Invalid
from storage.instants import format_instant
from storage.ledger import Ledger
from storage.manifest import Manifest
from storage.memories import LIVE
from storage.records import Records
from storage.store import COLLECTIONS, MARKS, collections


def restore(config: Config, name: str, now: float) -> str:
    """Restore a snapshot while nobody else is at the state folder; returns what to tell the person who asked.

    Raises what `restore_snapshot` raises, and StateLocked where a daemon runs.
    """
    os.umask(0o077)
    make_state(config)
    state = config.state_dir
    since = format_instant(now) or ""
    with (
        StateLock(state, pid=os.getpid(), since=since, socket=config.socket),
        closing(Ledger(state / "state.db")) as ledger,
    ):
        swap.settle(state, ledger)
        manifest = snapshots.find(state, name)
        coming = snapshots.unpacked(state, name, manifest, reserve_mb=config.storage.reserve_mb)
        former, moved = snapshots.departure(state, ledger, coming, _leaving(config, ledger, now), now)
        with moved:
            pass
    kept = f" What was there before is kept as {former}." if former else ""
    return f"Restored {name}: {manifest.points(LIVE)} memories.{kept} Start the daemon again: dreamd"


def _leaving(config: Config, ledger: Ledger, now: float) -> Manifest | None:
    """The manifest of the store that is there; None where it is damaged, which must not be opened, or cannot be."""
    folder, marks = config.state_dir / swap.STORE, ledger.fact(MARKS) or {}
    if is_doubtful(folder, marks) or not all((folder / name).is_dir() for name in COLLECTIONS):
        return None
    try:
        dimension = EdgeEngine.stored_dimension(folder, LIVE) or 0
        engine = EdgeEngine.open(folder, collections(dimension), reserve_mb=config.storage.reserve_mb)
    except (Corrupt, Invalid):
        return None
    with closing(engine):
        if engine.shortfall(marks):
            return None
        engine.flush()
        embedder, erasures = Records(engine).fingerprint(), ledger.last_erasure()
        return Manifest(now, snapshots.BEFORE_RESTORE, made_by(), embedder, engine.marks(), erasures)
