"""The composition root: builds the whole daemon, starts it in order and takes it down in reverse. Used by main and tests."""

from __future__ import annotations

import asyncio
import os
import socket as sockets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import structlog

from daemon.background import Background, watch
from daemon.canary import Canaries
from daemon.clock import Clock, SteadyClock
from daemon.config import Config
from daemon.embedders import near_of, propose_of
from daemon.events import Events
from daemon.health import Health
from daemon.lock import StateLock
from daemon.logbook import Logbook
from daemon.methods import METHODS
from daemon.metrics import Metrics
from daemon.notify import Notifier
from daemon.opening import Opened, made_by, make_state, open_stores, recall_weights
from daemon.options import Sections
from daemon.parts import LoadEmbedder, Parts
from daemon.retries import Retries
from daemon.rpc import Limits, RpcServer, bind_unix
from daemon.runner import Runner
from daemon.scheduler import Scheduler
from daemon.service import DreamdService
from daemon.texts import JobTexts
from jobs.context import Settings
from jobs.table import NIGHT
from storage.embed import load_embedder
from storage.errors import DreamdError
from storage.fading import Retention
from storage.gate import Gate
from storage.instants import format_instant
from storage.keywords import KeywordEncoder
from storage.lane import Lane
from storage.learn import LearnBuffer
from storage.model import Memory
from storage.redact import Redactor
from storage.tokens import TokenCounter, load_counter

log = structlog.get_logger("daemon.app")

STOP_SECONDS: Final = 5.0  # for requests in flight
JOB_STOP_SECONDS: Final = 10.0  # for the batch of a job
LANE_STOP_SECONDS: Final = 5.0  # for the call that a lane is making
ENGINE: Final = "qdrant-edge"


@dataclass(slots=True)
class App:
    """A daemon, assembled; it runs once `build` returns it."""

    parts: Parts
    service: DreamdService
    background: Background
    scheduler: Scheduler
    canaries: Canaries
    stack: AsyncExitStack  # what is to be taken down
    metrics_port: int | None = None

    def reread(self, config: Config) -> None:
        """Take over what can change while it runs, which is `[recall]`; whatever else differs waits for a restart."""
        self.parts.stores.recaller.weights = recall_weights(config)
        running = self.parts.config
        differing = [name for name in Sections.model_fields if getattr(config, name) != getattr(running, name)]
        log.info("app.config_reread", waiting_for_restart=[name for name in differing if name != "recall"])

    async def stop(self) -> None:
        """Stop accepting, end the job at its checkpoint, finish what is in flight, flush, let go.

        The job is told first: a client that waits for it is in flight too.
        """
        self.parts.runner.ask_to_stop()
        self.service.open = False
        self.parts.embedding.refuse_patient()  # long texts
        self.parts.simulator.stop()
        await self.stack.aclose()


async def build(
    config: Config, *, clock: Clock, embedder: LoadEmbedder = load_embedder, notifier: Notifier | None = None,
    watchdog_seconds: float | None = None, passed: Sequence[sockets.socket] = (), limits: Limits | None = None,
) -> App:  # fmt: skip
    """Build and start a daemon: it answers when this returns. What was begun is taken down again if a step fails."""
    notifier, steady = notifier or Notifier(""), SteadyClock(clock)
    tokens = await asyncio.to_thread(load_counter, config.context.tokenizer)
    async with AsyncExitStack() as stack:
        os.umask(0o077)
        make_state(config)
        since = format_instant(steady.now()) or ""
        stack.callback(StateLock(config.state_dir, pid=os.getpid(), since=since, socket=config.socket).release)
        # Bound before the store is open: who connects from now on waits for it.
        listening = passed or [_bind(config, stack)]
        lane, embedding = Lane("store"), Lane("embedding")
        for one in (embedding, lane):
            stack.push_async_callback(asyncio.to_thread, one.close, LANE_STOP_SECONDS)
        health = Health()
        opened = await open_stores(config, lane, embedding, embedder, health, stack, steady)
        app = _assemble(config, steady, opened, lane, embedding, health, tokens, stack)
        tasks: list[asyncio.Task[None]] = []
        stack.push_async_callback(_end, tasks, app)
        await app.canaries.settle()
        await _serve(app, listening, limits or Limits(), stack)
        app.scheduler.start()
        stack.callback(app.scheduler.stop)
        tasks += app.background.start()
        if watchdog_seconds is not None:
            tasks.append(asyncio.create_task(watch(notifier, watchdog_seconds, lambda: app.service.open)))
        memories, edges = len(opened.stores.catalogue), len(opened.stores.synapses)
        notifier.send(ready=1, status=f"{memories} memories")
        stack.callback(lambda: notifier.send(stopping=1))
        log.info(
            "app.ready", memories=memories, edges=edges, degraded=sorted(health.reasons), socket=str(config.socket),
            state_dir=str(config.state_dir),
        )  # fmt: skip
        app.stack = stack.pop_all()
        return app


def _bind(config: Config, stack: AsyncExitStack) -> sockets.socket:
    bound = bind_unix(config.socket)
    stack.callback(bound.remove)
    stack.callback(bound.socket.close)
    if bound.warning:
        log.warning("app.socket_folder", detail=bound.warning)
    return bound.socket


def _assemble(
    config: Config, clock: SteadyClock, opened: Opened, lane: Lane, embedding: Lane, health: Health, tokens: TokenCounter,
    stack: AsyncExitStack,
) -> App:  # fmt: skip
    """Put the parts together; nothing runs yet."""
    stores, provider = opened.stores, opened.provider
    learn, retention = LearnBuffer(), _retention(config)
    metrics = Metrics(METHODS, engine=ENGINE, embedder=provider)
    metrics.note_write(max(map(_written_at, stores.catalogue.every()), default=0.0))
    options = config.sensitivity
    gate = Gate(
        Redactor(config.redact.patterns),
        opened.embedder,
        KeywordEncoder(),
        levels=options.patterns,
        default=options.default,
    )
    texts = JobTexts(gate, embedding)
    events = Events(clock.now, boot=clock.new_id()[-12:])
    settings = _settings(config, retention, provider)
    canaries = Canaries(stores, lane, events, health, config.canary)
    book = Logbook(stores, events)
    runner = Runner(stores, lane, learn, clock, settings, texts, book, canaries, health, metrics.observe_run)
    scheduler = Scheduler(config.schedule, runner, stores, lane, clock, metrics.observe_missed)
    parts = Parts(
        config=config, clock=clock, stores=stores, lane=lane, gate=gate, embedding=embedding, learn=learn, runner=runner,
        retries=Retries(stores.ledger), retention=retention, health=health, meter=metrics, events=events, canaries=canaries,
        tokens=tokens,
        engine_name=ENGINE, load_embedder=opened.load, started_at=clock.monotonic(), next_runs=scheduler.next_runs,
    )  # fmt: skip
    service = DreamdService(parts, metrics)
    background = Background(config, stores, lane, learn, runner, clock, health, canaries, lambda: service.last_used_at)
    return App(parts, service, background, scheduler, canaries, stack)


async def _serve(app: App, listening: Sequence[sockets.socket], limits: Limits, stack: AsyncExitStack) -> None:
    """Answer on the sockets and, where it is free, on the port of the metrics."""
    config = app.parts.config
    server = RpcServer(
        app.service,
        new_id=app.parts.clock.new_id,
        allow_uids=frozenset(config.rpc.allow_uids),
        allow_group=config.rpc.allow_group,
        limits=limits,
        events=app.parts.events,
    )
    stack.push_async_callback(server.stop, STOP_SECONDS)
    for sock in listening:
        await server.start_unix(sock)
    if config.metrics.address is not None:
        try:
            app.metrics_port = await server.start_tcp(*config.metrics.address)
        except OSError as error:
            detail = f"Metrics are on the socket alone: {config.metrics.listen} cannot be used ({error.strerror})."
            app.parts.health.degrade("metrics", detail, 'Set [metrics] listen = "127.0.0.1:PORT" and restart dreamd.')
            log.warning("app.metrics_port", detail=detail)


async def _end(tasks: list[asyncio.Task[None]], app: App) -> None:
    """End the beats and the job, then beat once more: fold and flush what is left."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await app.parts.runner.stop(JOB_STOP_SECONDS)
    for beat in (app.background.heartbeat, app.background.fold, app.background.flush):
        try:
            await beat()
        except DreamdError as error:
            log.warning("app.last_beat", beat=beat.__name__, kind=error.kind, detail=error.detail)


def _written_at(row: Memory) -> float:
    """When a memory was last made, edited or taken away."""
    return max(row.updated_at, row.invalid_at or 0.0, row.forgotten_at or 0.0)


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
        undo_days=config.night.undo_days, history_days=config.night.history_days, near=near_of(provider),
        propose=propose_of(provider),
        left_out=frozenset(name for name in NIGHT if getattr(config.schedule, name) == "off"),
        zone=config.schedule.zone, made_by=made_by(), reserve_mb=config.storage.reserve_mb,
    )  # fmt: skip
