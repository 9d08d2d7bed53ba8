"""Opening what is kept: state folder, ledger, engine, stores, and the embedder that the stored vectors came from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any, Final, NamedTuple

from daemon import __version__, embedders
from daemon.clock import SteadyClock
from daemon.config import Config
from daemon.health import Health
from daemon.parts import NO_EMBEDDER, LoadEmbedder
from daemon.presence import HEARTBEAT, Presence, note_heartbeat
from jobs import unfinished
from storage import snapshots, swap
from storage.edge import EdgeEngine
from storage.edge_errors import RESTORE
from storage.edge_files import allocated_bytes, copy_sparse, empty, require_room, tracker_bytes
from storage.embed import Embedder, Fingerprint
from storage.engine import Engine
from storage.errors import Corrupt, DreamdError, Unavailable
from storage.lane import Lane
from storage.ledger import Ledger
from storage.memories import LIVE
from storage.rank import Weights
from storage.snapshots import SNAPSHOTS
from storage.store import MARKS, Stores, collections

_MIB: Final = 1 << 20


class Opened(NamedTuple):
    """The stores, the embedder that serves them, if any can, and what loads another."""

    stores: Stores
    embedder: Embedder | None
    load: LoadEmbedder

    @property
    def provider(self) -> str:
        """The embedder's name."""
        return self.embedder.fingerprint.provider if self.embedder else NO_EMBEDDER


def make_state(config: Config) -> None:
    """Make the state folder. Raises Unavailable where it cannot be written or its disk is full."""
    folder = config.state_dir
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Unavailable(
            f"The state folder {folder} cannot be written: {error.strerror}.",
            hint=f"Choose another with dreamd --state-dir DIR, or: ls -ld {folder}",
        ) from None
    require_room(folder, config.storage.reserve_mb * _MIB)


async def open_stores(
    config: Config, lane: Lane, embedding: Lane, load: LoadEmbedder, health: Health, stack: AsyncExitStack,
    clock: SteadyClock,
) -> Opened:  # fmt: skip
    """Open ledger, engine and stores, and push on `stack` what closes them.

    The embedder is the one that the store was made with, whatever the configuration says; a new store takes that one.
    """
    ledger = Ledger(config.state_dir / "state.db", power_safe=config.storage.durability == "power")
    stack.callback(ledger.close)
    clock.go_on_from(ledger.fact(HEARTBEAT) or 0.0)
    swap.settle(config.state_dir, ledger)
    snapshots.clear_scrap(config.state_dir)
    with _beyond_dreamctl(config.state_dir):
        return await _open_stores(config, lane, embedding, load, health, stack, clock, ledger)


async def _open_stores(
    config: Config, lane: Lane, embedding: Lane, load: LoadEmbedder, health: Health, stack: AsyncExitStack,
    clock: SteadyClock, ledger: Ledger,
) -> Opened:  # fmt: skip
    dimension = EdgeEngine.stored_dimension(config.state_dir / "store", LIVE)
    # The embedder loads beside the store, each in its own lane: either takes about a second.
    early = embedding.submit(load, config.embedding.provider, config.embedding.model)
    embedder: Embedder | None = None
    if dimension is None:
        embedder = await asyncio.wrap_future(early)
        dimension = embedder.fingerprint.dimension
    engine = await _open_engine(config, lane, dimension, ledger, stack)
    stores = await lane.run(_stores, config, engine, ledger, clock.now())
    lane.first = Presence(stores, clock).look
    if stores.damage:
        detail = f"{config.state_dir / 'store'} is damaged and read-only: {'; '.join(stores.damage)}."
        health.degrade("store", detail, "dreamctl restore_snapshot NAME")
    try:
        stored = await lane.run(stores.settle_fingerprint, None)
        if embedder is None:
            embedder = await _fitting(early, stored, embedding, load)
        if stored is None and embedder.fingerprint.dimension == dimension and not stores.damage:
            stored = await lane.run(stores.settle_fingerprint, embedder.fingerprint)
        embedders.check_fit(embedder.fingerprint, stored, dimension)
    except DreamdError as error:
        embedders.miss(health, error)
        return Opened(stores, None, load)
    embedders.compare(config, embedder.fingerprint, health)
    return Opened(stores, embedder, load)


@contextmanager
def _beyond_dreamctl(state: Path) -> Iterator[None]:
    """Name the command that mends a store on which no daemon starts: `dreamctl` would have nobody to talk to."""
    try:
        yield
    except Corrupt as error:
        if error.hint != RESTORE:  # it is not the store that is damaged
            raise
        raise Corrupt(error.detail, hint=f"ls {state / SNAPSHOTS}, then: dreamd --restore-snapshot NAME") from None


async def _fitting(
    early: Future[Embedder], stored: Fingerprint | None, embedding: Lane, load: LoadEmbedder
) -> Embedder:  # fmt: skip
    """The embedder of the configuration, if the stored vectors are its own; else the one that they came from."""
    try:
        embedder = await asyncio.wrap_future(early)
    except DreamdError:
        if stored is None:
            raise
    else:
        if stored is None or embedder.fingerprint == stored:
            return embedder
    return await embedding.run(load, stored.provider, stored.model)


async def _open_engine(config: Config, lane: Lane, dimension: int, ledger: Ledger, stack: AsyncExitStack) -> EdgeEngine:
    """The engine on the store, or on a copy of it where it is damaged."""
    folder, copy = config.state_dir / "store", config.state_dir / ".checked"
    marks = ledger.fact(MARKS) or {}
    opening = partial(EdgeEngine.open, collections=collections(dimension), reserve_mb=config.storage.reserve_mb)
    empty(copy)  # a kill may have left it
    stack.callback(empty, copy)
    if is_doubtful(folder, marks):
        engine = await lane.run(_open_checked, opening, folder, copy, marks)
    else:
        engine = await lane.run(opening, folder)
    stack.push_async_callback(lane.run, engine.close)
    return engine


def is_doubtful(folder: Path, marks: Mapping[str, Any]) -> bool:
    """Whether an id tracker is shorter than it was at the last flush: it was cut off, or rewritten just before a kill."""
    return any(tracker_bytes(folder / name) < tracked for name, (_, tracked) in marks.items())


def _open_checked(
    opening: Callable[[Path], EdgeEngine], folder: Path, copy: Path, marks: Mapping[str, Any]
) -> EdgeEngine:
    """Try a doubtful store on a copy; if it is damaged the copy serves. Called in the lane.

    To load a damaged shard is to change it: the engine drops the payloads of the points that it no longer knows.
    """
    copy.mkdir(exist_ok=True)
    require_room(copy, allocated_bytes(folder))
    for name in marks:
        if (folder / name).exists():
            copy_sparse(folder / name, copy / name)
    try:
        engine = opening(copy)
    except Corrupt as error:
        raise Corrupt(error.detail.replace(str(copy), str(folder)), hint=error.hint) from None
    if engine.shortfall(marks):
        return engine
    engine.close()
    empty(copy)
    return opening(folder)


def _stores(config: Config, engine: Engine, ledger: Ledger, now: float) -> Stores:
    """The stores, loaded; what a crash left open is closed. Called in the lane."""
    ledger.cut_off_runs(now)
    stores = Stores(engine, ledger, weights=recall_weights(config), default_sensitivity=config.sensitivity.default)
    note_heartbeat(stores, now)
    stores.load()
    if not stores.damage:
        swap.erase_again(stores)
        unfinished.settle(stores, now)
    return stores


def made_by() -> dict[str, str]:
    """The versions that a snapshot names as its makers."""
    return {"dreamd": __version__, "qdrant-edge-py": installed("qdrant-edge-py")}


def recall_weights(config: Config) -> Weights:
    """The weights of recall that can be configured."""
    options = config.recall
    return Weights(
        recency=options.recency_weight, recency_halflife_days=options.recency_halflife_days, citation=options.citation_weight,
        citation_cap=options.citation_cap, emotion=options.emotion_weight, importance=options.importance_weight,
    )  # fmt: skip
