"""The composition root: builds the whole daemon, starts it in order and takes it down in reverse. Used by main and tests."""

from __future__ import annotations

import asyncio
import os
import socket as sockets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import structlog

from daemon.background import Background, note_heartbeat, watch
from daemon.clock import Clock
from daemon.config import Config
from daemon.lock import StateLock
from daemon.methods import METHODS
from daemon.metrics import Metrics
from daemon.notify import Notifier
from daemon.parts import Counts, Health, Parts
from daemon.rpc import Limits, RpcServer, bind_unix
from daemon.runner import Runner
from daemon.scheduler import BORN, Scheduler
from daemon.service import DreamdService
from daemon.wire import format_instant
from jobs.context import Settings
from storage.edge import EdgeEngine
from storage.embed import Embedder, load_embedder
from storage.errors import DreamdError, Unavailable
from storage.fading import Retention
from storage.gate import Gate
from storage.keywords import KeywordEncoder
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.ledger import Ledger
from storage.memories import LIVE
from storage.rank import Weights
from storage.redact import Redactor
from storage.store import Stores, collections

log = structlog.get_logger("daemon.app")

STOP_SECONDS: Final = 5.0  # for requests in flight
JOB_STOP_SECONDS: Final = 10.0  # for the batch of a job
#: From which cosine a dream links two memories, by embedder: measured on pairs that say nearly the same.
NEAR: Final = {"use": 0.6, "wordllama": 0.75}
ENGINE: Final = "qdrant-edge"

LoadEmbedder = Callable[[str, str], Embedder]


class App:
    """A daemon that runs."""

    def __init__(
        self, parts: Parts, service: DreamdService, background: Background, scheduler: Scheduler, stack: AsyncExitStack
    ) -> None:
        self.parts = parts
        self.service = service
        self.background = background
        self.scheduler = scheduler
        self.metrics_port: int | None = None
        self._stack = stack

    async def stop(self) -> None:
        """Stop accepting, finish what is in flight, end the job at its checkpoint, flush, let go."""
        self.service.open = False
        await self._stack.aclose()


async def build(
    config: Config, *, clock: Clock, embedder: LoadEmbedder = load_embedder, notifier: Notifier | None = None,
    watchdog_seconds: float | None = None, passed: Sequence[sockets.socket] = (), limits: Limits | None = None,
) -> App:  # fmt: skip
    """Build and start a daemon: it answers when this returns. What was begun is taken down again if a step fails."""
    notifier = notifier or Notifier("")
    async with AsyncExitStack() as stack:
        os.umask(0o077)
        _make_state(config.state_dir)
        lock = StateLock(
            config.state_dir, pid=os.getpid(), since=format_instant(clock.now()) or "", socket=config.socket
        )
        stack.callback(lock.release)
        health = Health()
        lane, embedding = Lane("store"), Lane("embedding")
        stack.callback(embedding.close)
        stack.callback(lane.close)
        stores, current = await _open_stores(config, lane, embedding, embedder, health, stack, clock)
        app = _assemble(config, clock, stores, lane, embedding, current, health, stack)
        tasks: list[asyncio.Task[None]] = []
        stack.push_async_callback(_end, tasks, app)
        await _serve(app, passed, limits or Limits(), stack)
        app.scheduler.start()
        stack.callback(app.scheduler.stop)
        tasks += app.background.start()
        if watchdog_seconds is not None:
            tasks.append(asyncio.create_task(watch(notifier, watchdog_seconds, lambda: app.service.open)))
        notifier.send(ready=1, status=f"{len(stores.catalogue)} memories")
        stack.callback(lambda: notifier.send(stopping=1))
        log.info(
            "app.ready", memories=len(stores.catalogue), edges=len(stores.synapses), degraded=sorted(health.reasons)
        )
        app._stack = stack.pop_all()  # noqa: SLF001 - it is this function's own
        return app


def _make_state(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Unavailable(
            f"The state folder {folder} cannot be written: {error.strerror}.",
            hint="Choose another with dreamd --state-dir DIR, or: ls -ld " + str(folder),
        ) from None


async def _open_stores(
    config: Config, lane: Lane, embedding: Lane, load: LoadEmbedder, health: Health, stack: AsyncExitStack, clock: Clock
) -> tuple[Stores, Embedder | None]:
    """Open ledger, engine and stores in the lane; the embedder is the stored one, whatever the configuration says."""
    ledger = Ledger(config.state_dir / "state.db", power_safe=config.storage.durability == "power")
    stack.callback(ledger.close)
    folder = config.state_dir / "store"
    dimension = EdgeEngine.stored_dimension(folder, LIVE)
    wanted = (config.embedding.provider, config.embedding.model)
    current: Embedder | None = None
    if dimension is None:
        current = await embedding.run(load, *wanted)
        dimension = current.fingerprint.dimension
    kept = collections(dimension)
    engine = await lane.run(lambda: EdgeEngine.open(folder, kept, reserve_mb=config.storage.reserve_mb))
    stack.push_async_callback(lane.run, engine.close)
    now = clock.now()

    def open_() -> Stores:
        if ledger.fact(BORN) is None:
            ledger.set_fact(BORN, now)
        ledger.cut_off_runs(now)
        stores = Stores(engine, ledger, weights=_weights(config), default_sensitivity=config.sensitivity.default)
        note_heartbeat(stores, now)
        stores.load()
        return stores

    stores = await lane.run(open_)
    if stores.damage:
        health.degrade("store", "; ".join(stores.damage), "dreamctl restore_snapshot NAME")
    return stores, await _settle_embedder(wanted, stores, lane, embedding, load, current, health)


async def _settle_embedder(
    wanted: tuple[str, str],
    stores: Stores,
    lane: Lane,
    embedding: Lane,
    load: LoadEmbedder,
    current: Embedder | None,
    health: Health,
) -> Embedder | None:
    """The embedder that the stored vectors came from; another one in the configuration waits for `reindex`."""
    stored = await lane.run(stores.settle_fingerprint, current.fingerprint if current else None)
    try:
        if current is None and stored is not None:
            current = await embedding.run(load, stored.provider, stored.model)
        elif current is None:
            current = await embedding.run(load, *wanted)
            stored = await lane.run(stores.settle_fingerprint, current.fingerprint)
    except DreamdError as error:
        health.degrade("embedder", f"{error.detail} Recall goes on by keyword; nothing can be remembered.", error.hint)
        return None
    if stored is not None and current.fingerprint != stored:
        detail = f"The stored vectors came from {stored.provider} {stored.model}, which is not what loads now."
        health.degrade("embedder", detail, "dreamctl reindex")
        return None
    if wanted[0] != current.fingerprint.provider or (wanted[1] and wanted[1] != current.fingerprint.model):
        health.degrade(
            "embedder", f"The configuration names {' '.join(wanted).strip()}, but the store was made with {current.fingerprint.provider}, which serves on.",
            "dreamctl reindex",
        )  # fmt: skip
    return current


def _assemble(
    config: Config,
    clock: Clock,
    stores: Stores,
    lane: Lane,
    embedding: Lane,
    embedder: Embedder | None,
    health: Health,
    stack: AsyncExitStack,
) -> App:
    """Put the parts together; nothing runs yet."""
    provider = embedder.fingerprint.provider if embedder else "none"
    learn = LearnBuffer()
    retention = _retention(config)
    metrics = Metrics(METHODS, engine=ENGINE, embedder=provider)
    runner = Runner(stores, lane, learn, clock, _settings(config, retention, provider), metrics.observe_run)
    scheduler = Scheduler(config.schedule, runner, stores, clock, metrics.observe_missed)
    gate = Gate(
        Redactor(config.redact.patterns),
        embedder,
        KeywordEncoder(),
        levels=config.sensitivity.patterns,
        default=config.sensitivity.default,
    )
    parts = Parts(
        config=config, clock=clock, stores=stores, lane=lane, gate=gate, embedding=embedding, learn=learn, runner=runner,
        retention=retention, health=health, counts=Counts(), engine_name=ENGINE, embedder_name=provider,
        started_at=clock.monotonic(), next_runs=scheduler.next_runs,
    )  # fmt: skip
    service = DreamdService(parts, metrics)
    background = Background(config, stores, lane, learn, runner, clock, health, lambda: service.last_call_at)
    return App(parts, service, background, scheduler, stack)


async def _serve(app: App, passed: Sequence[sockets.socket], limits: Limits, stack: AsyncExitStack) -> None:
    """Open the socket and, where it is free, the port of the metrics."""
    config = app.parts.config
    server = RpcServer(
        app.service,
        new_id=app.parts.clock.new_id,
        allow_uids=frozenset(config.rpc.allow_uids),
        allow_group=config.rpc.allow_group,
        limits=limits,
    )
    stack.push_async_callback(server.stop, STOP_SECONDS)
    if passed:
        for sock in passed:
            await server.start_unix(sock)
    else:
        bound = bind_unix(config.socket)
        stack.callback(bound.remove)
        if bound.warning:
            log.warning("app.socket_folder", detail=bound.warning)
        await server.start_unix(bound.socket)
    if config.metrics.address is not None:
        host, port = config.metrics.address
        try:
            app.metrics_port = await server.start_tcp(host, port)
        except OSError as error:
            detail = f"The metrics port {config.metrics.listen} is taken ({error.strerror}); metrics are on the socket alone."
            app.parts.health.degrade("metrics", detail, 'Set [metrics] listen = "127.0.0.1:PORT" and restart.')
            log.warning("app.metrics_port", detail=detail)


async def _end(tasks: list[asyncio.Task[None]], app: App) -> None:
    """End the beats and the job, then fold and flush what is left."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await app.parts.runner.stop(JOB_STOP_SECONDS)
    try:
        await app.background.heartbeat()
        await app.background.fold()
        await app.background.flush()
    except DreamdError as error:
        log.warning("app.last_flush", kind=error.kind, detail=error.detail)


def _weights(config: Config) -> Weights:
    options = config.recall
    return Weights(
        recency=options.recency_weight, recency_halflife_days=options.recency_halflife_days, citation=options.citation_weight,
        citation_cap=options.citation_cap, emotion=options.emotion_weight, importance=options.importance_weight,
    )  # fmt: skip


def _retention(config: Config) -> Retention:
    options = config.decay
    return Retention(
        options.policy,
        options.base_strength_days,
        options.reinforcement_days,
        options.half_life_days,
        options.threshold,
    )


def _settings(config: Config, retention: Retention, provider: str) -> Settings:
    return Settings(
        retention=retention, bin_days=config.decay.bin_days, ceiling=config.decay.ceiling, sweep_days=config.dream.sweep_days,
        undo_days=config.night.undo_days, history_days=config.night.history_days, near=NEAR.get(provider, 0.7),
    )  # fmt: skip
