"""Methods on whole copies of the store: taking one, restoring one, a backup for elsewhere, and new vectors for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, NotRequired

import structlog
from pydantic import Field
from typing_extensions import TypedDict

from daemon import backup as backups
from daemon.embedders import adopt, check_fit
from daemon.opening import made_by
from daemon.parts import Parts
from daemon.wire import Empty, Method, Params
from jobs import reindex as reindexing
from jobs.table import Job
from storage import snapshots as kept
from storage.embed import Embedder
from storage.errors import DreamdError, Invalid
from storage.instants import format_instant
from storage.memories import BIN, LIVE
from storage.model import EVERY_SCOPE
from storage.snapshots import Coming, Draft, Snapshot
from storage.synapses import SYNAPSES

log = structlog.get_logger("daemon.methods.snapshots")

BEFORE_REINDEX: Final = "before-reindex"
REINDEX_DEADLINE: Final = 86_400.0  # seconds; what is not done then is done at the next call

Progress = Callable[[dict[str, Any]], None]


class SnapshotParams(Params):
    """A new snapshot."""

    label: str = Field(default="", max_length=200, description="Goes into its name, as a-z, 0-9 and dashes.")


class RestoreParams(Params):
    """Which snapshot to restore."""

    name: str = Field(min_length=1, max_length=200, description="As `snapshots` shows it.")


class BackupParams(Params):
    """Where the backup goes."""

    path: str = Field(
        min_length=1, max_length=4096, description="A new file on the daemon's host.",
        json_schema_extra={"format": "path"},
    )  # fmt: skip


class SnapshotShape(TypedDict):
    """A snapshot; of one whose manifest cannot be read, only name and bytes are known. `fault` says why it is damaged.

    `bytes` is what it takes on the disk, of files that it shares with others its part. One that `rotates` was taken by the
    job `snapshot`, and goes when newer ones hold its day, its week and its month.
    """

    name: str
    label: str
    created_at: str | None
    memories: int
    bin: int
    edges: int
    bytes: int
    rotates: bool
    damaged: bool
    fault: NotRequired[str]


class Snapshots(TypedDict):
    """Every snapshot, newest first."""

    snapshots: list[SnapshotShape]


class Restored(TypedDict):
    """What the store holds now; `replaced` is what the former one is called: a snapshot, or a folder where it was damaged."""

    name: str
    memories: int
    bin: int
    edges: int
    replaced: str | None


class BackedUp(TypedDict):
    """The file that was written."""

    path: str
    bytes: int
    memories: int


class Reindexed(TypedDict):
    """What became of the vectors, and which embedder serves."""

    run_id: str
    outcome: str | None
    reason: str | None
    memories: int
    embedder: str


# -- snapshots


async def snapshot(parts: Parts, params: SnapshotParams) -> SnapshotShape:
    """Keep a copy of the store as it is now."""
    label = kept.clean_label(params.label)
    if label == kept.NIGHTLY:
        raise Invalid(
            f"The label {label!r} belongs to the job `snapshot`, whose snapshots rotate: what you take stays.",
            hint="dreamctl run snapshot, or give another label", field="label",
        )  # fmt: skip
    draft = await parts.lane.run(_copied, parts, label)
    return _shape(await asyncio.to_thread(kept.finished, draft))


def _copied(parts: Parts, label: str) -> Draft:
    """The copy, of this instant. Called in the lane."""
    return kept.copied(parts.stores, label, parts.clock.now(), made_by())


async def snapshots(parts: Parts, params: Empty) -> Snapshots:
    """The snapshots that there are."""
    del params
    found = await asyncio.to_thread(kept.every, parts.config.state_dir)
    return {"snapshots": [_shape(one) for one in found]}


def _shape(one: Snapshot) -> SnapshotShape:
    manifest = one.manifest
    shape: SnapshotShape = {
        "name": one.name, "label": manifest.label if manifest else "",
        "created_at": format_instant(manifest.taken_at) if manifest else None,
        "memories": manifest.points(LIVE) if manifest else 0, "bin": manifest.points(BIN) if manifest else 0,
        "edges": manifest.points(SYNAPSES) if manifest else 0, "bytes": one.bytes, "rotates": one.rotates, "damaged": one.damaged,
    }  # fmt: skip
    return {**shape, "fault": one.fault} if one.fault else shape


# -- restoring


async def restore_snapshot(parts: Parts, params: RestoreParams) -> Restored:
    """Put the store back as a snapshot has it, while no job runs; what was there becomes a snapshot itself."""
    state, name = parts.config.state_dir, params.name
    async with parts.runner.undisturbed():
        manifest = await asyncio.to_thread(kept.find, state, name)
        unpack = partial(kept.unpacked, state, name, manifest, reserve_mb=parts.config.storage.reserve_mb)
        coming = await asyncio.to_thread(unpack)
        embedder, missing = await _embedder_for(parts, coming)
        loop = asyncio.get_running_loop()
        restored = await parts.lane.run(_restore, parts, loop, name, coming, embedder, missing)
        await parts.canaries.reconsider()
    log.info("snapshot.restored", snapshot=name, replaced=restored["replaced"], memories=restored["memories"])
    return restored


async def _embedder_for(parts: Parts, coming: Coming) -> tuple[Embedder | None, DreamdError | None]:
    """The embedder that the coming vectors came from, or why there is none."""
    serving = parts.gate.embedder
    wanted = coming.embedder
    try:
        if wanted is None or (serving is not None and serving.fingerprint == wanted):
            embedder = serving
        else:
            embedder = await asyncio.to_thread(parts.load_embedder, wanted.provider, wanted.model)
        if embedder is not None:
            check_fit(embedder.fingerprint, wanted, coming.dimension)
    except DreamdError as error:
        return None, error
    return embedder, None


def _restore(
    parts: Parts, loop: asyncio.AbstractEventLoop, name: str, coming: Coming, embedder: Embedder | None,
    missing: DreamdError | None,
) -> Restored:  # fmt: skip
    """Exchange the stores; what there is now. Called in the lane."""
    parts.learn.take()  # it was learned from memories that are not there any more
    replaced = _exchange(parts, loop, coming, kept.BEFORE_RESTORE, embedder, missing)
    stores = parts.stores
    # Of every scope, and without ids: whoever follows has to look anew.
    parts.events.emit("restored", EVERY_SCOPE, counts={"memories": len(stores.catalogue)})
    return {
        "name": name, "memories": len(stores.catalogue), "bin": stores.catalogue.gone_count,
        "edges": len(stores.synapses), "replaced": replaced,
    }  # fmt: skip


def _exchange(
    parts: Parts, loop: asyncio.AbstractEventLoop, coming: Coming, label: str, embedder: Embedder | None,
    missing: DreamdError | None = None,
) -> str | None:  # fmt: skip
    """Let `store.next` serve, with the embedder of its vectors: no text gets another's from here on. Called in the lane."""
    try:
        replaced = kept.exchange(parts.stores, coming, label, parts.clock.now(), made_by())
        parts.gate.use(embedder)
        if embedder is not None:
            parts.stores.settle_fingerprint(embedder.fingerprint)
        loop.call_soon_threadsafe(adopt, parts, embedder, missing)
    finally:
        loop.call_soon_threadsafe(_note_damage, parts)
    return replaced


def _note_damage(parts: Parts) -> None:
    if parts.stores.damage:
        parts.health.degrade("store", f"{'; '.join(parts.stores.damage)}.", "dreamctl restore_snapshot NAME")
    else:
        parts.health.mend("store")


# -- a backup


async def backup(parts: Parts, params: BackupParams, progress: Progress | None = None) -> BackedUp:
    """Write all that is kept into one zip."""
    target = Path(params.path)
    await asyncio.to_thread(backups.check_target, target)
    draft = await parts.lane.run(copied_whole, parts, "backup")
    try:
        return await asyncio.to_thread(_write_backup, parts, target, draft, progress)
    finally:
        await asyncio.to_thread(kept.dropped, draft.folder)


def copied_whole(parts: Parts, label: str) -> Draft:
    """A copy of the store, and in the same folder one of the ledger, of one instant. Called in the lane."""
    draft = _copied(parts, label)
    try:
        parts.stores.ledger.copy_to(draft.folder / backups.LEDGER)
    except BaseException:
        kept.dropped(draft.folder)
        raise
    return draft


def _write_backup(parts: Parts, target: Path, draft: Draft, progress: Progress | None) -> BackedUp:
    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress({"job": "backup", "done": done, "total": total})

    with kept.as_unavailable(target):
        size = backups.write(target, draft, parts.config, tell)
    return {"path": str(target), "bytes": size, "memories": draft.manifest.points(LIVE)}


# -- new vectors


async def reindex(parts: Parts, params: Empty, progress: Progress | None = None) -> Reindexed:
    """Give every memory new vectors by the configured embedder; the old ones serve meanwhile."""
    del params
    embedder = await _configured(parts)
    loop = asyncio.get_running_loop()
    tools = reindexing.Tools(
        embedder.fingerprint, parts.gate.beside(embedder).vectors,
        lambda coming: _exchange(parts, loop, coming, BEFORE_REINDEX, embedder), parts.config.storage.reserve_mb,
    )  # fmt: skip
    job = Job("reindex", partial(reindexing.run, tools=tools), REINDEX_DEADLINE, "new vectors for every memory")
    run = await parts.runner.perform(job, listener=progress)
    if run.outcome == "unchanged" and not parts.has_embedder:
        adopt(parts, embedder)  # it could not be loaded at the start
    return {
        "run_id": run.id, "outcome": run.outcome, "reason": run.reason, "memories": run.counts.get("memories", 0),
        "embedder": parts.embedder_name,
    }  # fmt: skip


async def _configured(parts: Parts) -> Embedder:
    """The embedder that the configuration names; the one that serves, if that is it."""
    wanted, serving = parts.config.embedding, parts.gate.embedder
    if serving is not None:
        made = serving.fingerprint
        if wanted.provider == made.provider and wanted.model in ("", made.model):
            return serving
    return await asyncio.to_thread(parts.load_embedder, wanted.provider, wanted.model)


METHODS: Final = (
    Method("snapshot", "care", SnapshotParams, SnapshotShape, snapshot, True, "Keep a copy of the store.", ("label",)),
    Method("snapshots", "care", Empty, Snapshots, snapshots, False, "Show the snapshots, newest first."),
    Method(
        "restore_snapshot", "care", RestoreParams, Restored, restore_snapshot, True,
        "Put the store back as a snapshot has it.", ("name",), mends=True,
    ),
    Method(
        "backup", "care", BackupParams, BackedUp, backup, True, "Write all that is kept into one zip.", ("path",),
        streams=True,
    ),
    Method(
        "reindex", "care", Empty, Reindexed, reindex, True,
        "Make all vectors anew for another embedder.", streams=True,
    ),
)  # fmt: skip
