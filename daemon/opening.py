"""Opening what is kept: state folder, ledger, engine, stores, and the embedder that the stored vectors came from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

from daemon.background import note_heartbeat
from daemon.config import Config
from daemon.parts import Health
from daemon.scheduler import BORN
from storage.edge import EdgeEngine
from storage.edge_files import require_room
from storage.embed import Embedder, Fingerprint
from storage.engine import Engine
from storage.errors import DreamdError, Unavailable
from storage.lane import Lane
from storage.ledger import Ledger
from storage.memories import LIVE
from storage.rank import Weights
from storage.store import Stores, collections

LoadEmbedder = Callable[[str, str], Embedder]

_MIB: Final = 1 << 20


class Opened(NamedTuple):
    """The stores, and the embedder that serves them, if any can."""

    stores: Stores
    embedder: Embedder | None

    @property
    def provider(self) -> str:
        """The embedder's name."""
        return self.embedder.fingerprint.provider if self.embedder else "none"


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
    config: Config, lane: Lane, embedding: Lane, load: LoadEmbedder, health: Health, stack: AsyncExitStack, now: float
) -> Opened:
    """Open ledger, engine and stores, and push on `stack` what closes them.

    The embedder is the one that the store was made with, whatever the configuration says; a new store takes that one.
    """
    ledger = Ledger(config.state_dir / "state.db", power_safe=config.storage.durability == "power")
    stack.callback(ledger.close)
    folder = config.state_dir / "store"
    dimension = EdgeEngine.stored_dimension(folder, LIVE)
    embedder: Embedder | None = None
    if dimension is None:
        embedder = await embedding.run(load, config.embedding.provider, config.embedding.model)
        dimension = embedder.fingerprint.dimension
    kept = collections(dimension)
    engine = await lane.run(lambda: EdgeEngine.open(folder, kept, reserve_mb=config.storage.reserve_mb))
    stack.push_async_callback(lane.run, engine.close)
    stores = await lane.run(_stores, config, engine, ledger, now)
    if stores.damage:
        health.degrade("store", f"It is read-only: {'; '.join(stores.damage)}.", "dreamctl restore_snapshot NAME")
    stored = await lane.run(stores.settle_fingerprint, None)
    wanted = (config.embedding.provider, config.embedding.model)
    try:
        if embedder is None:
            embedder = await embedding.run(load, *((stored.provider, stored.model) if stored else wanted))
        fingerprint = embedder.fingerprint
        if stored is None and fingerprint.dimension == dimension and not stores.damage:
            stored = await lane.run(stores.settle_fingerprint, fingerprint)
        _check_fit(fingerprint, stored, dimension)
    except DreamdError as error:
        health.degrade("embedder", f"{error.detail} Recall goes on by keyword; nothing can be remembered.", error.hint)
        return Opened(stores, None)
    if wanted[0] != fingerprint.provider or wanted[1] not in ("", fingerprint.model):
        detail = f"The configuration names {' '.join(wanted).strip()}; {fingerprint.provider}, which made the store, serves on."
        health.degrade("embedder", detail, "dreamctl reindex")
    return Opened(stores, embedder)


def _check_fit(fingerprint: Fingerprint, stored: Fingerprint | None, dimension: int) -> None:
    """Raise Unavailable unless new vectors can be compared with the stored ones."""
    if fingerprint.dimension == dimension and stored in (None, fingerprint):
        return
    origin = "another embedder" if stored is None else f"{stored.provider} {stored.model}"
    raise Unavailable(
        f"The stored vectors came from {origin}, as it was then; what loads now makes others.", hint="dreamctl reindex"
    )


def _stores(config: Config, engine: Engine, ledger: Ledger, now: float) -> Stores:
    """The stores, loaded; what a crash left open is closed. Called in the lane."""
    if ledger.fact(BORN) is None:
        ledger.set_fact(BORN, now)
    ledger.cut_off_runs(now)
    stores = Stores(engine, ledger, weights=recall_weights(config), default_sensitivity=config.sensitivity.default)
    note_heartbeat(stores, now)
    stores.load()
    return stores


def recall_weights(config: Config) -> Weights:
    """The weights of recall that can be configured."""
    options = config.recall
    return Weights(
        recency=options.recency_weight, recency_halflife_days=options.recency_halflife_days, citation=options.citation_weight,
        citation_cap=options.citation_cap, emotion=options.emotion_weight, importance=options.importance_weight,
    )  # fmt: skip
