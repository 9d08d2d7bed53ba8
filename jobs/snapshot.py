"""Snapshot: a night begins with a copy of the whole store, to which everything that it does can be taken back.

A copy counts only once it was read back: each of its files, and what the engine finds in them. Then the nights' older ones
go that are none of those which stay (`storage.rotation`); those that a person took stay, and damaged ones. Where the new one
fails, or a kill comes, the older ones are all there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Final

from jobs.context import EXAMPLES, Context, Report
from storage import edge_files as files
from storage import read_back, snapshots
from storage.errors import Corrupt, Unavailable
from storage.lane import Stopping
from storage.manifest import Manifest
from storage.read_back import Sample
from storage.rotation import rotated
from storage.snapshots import NIGHTLY, Draft, Snapshot

COPIES: Final = 2  # for which there must be room: the snapshot, and what it is opened as to be read back
OUTLIVED: Final = "not the newest of a day, a week or a month for which one stays"
_MIB: Final = 1 << 20


def plan(found: Sequence[Snapshot], new: str, now: float, zone: tzinfo) -> list[str]:
    """The names of those that go once the one named `new`, of `now`, is there; oldest first."""
    own = {one.name: one.manifest.taken_at for one in found if one.rotates and one.manifest is not None}
    return rotated(own | {new: now}, now, zone)


def run(ctx: Context) -> Report:
    """Take a snapshot, then let go of those that need not stay. Raises Unavailable or Corrupt where none could be taken."""
    state, zone = ctx.stores.folder, ctx.settings.zone
    found = snapshots.every(state)
    need = COPIES * ctx.read(ctx.stores.engine.disk_bytes) + ctx.settings.reserve_mb * _MIB
    if ctx.dry_run:
        free = files.free_bytes(state)
        room = f"{-(-need // _MIB)} MiB must be free, and {free // _MIB} MiB are"
        return _report("", plan(found, "", ctx.now, zone), {}, room) if need <= free else Report({}, reason=room)
    files.require_room(state, need)
    taken = _taken(ctx, found)
    gone, stuck = _let_go(state, [*snapshots.leaving(state), *plan(found, taken.name, ctx.now, zone)])
    return _report(taken.name, gone, stuck)


def _taken(ctx: Context, found: Iterable[Snapshot]) -> Snapshot:
    """The new snapshot; what it has alike with the last one of a night it shares with it."""
    draft, sample = ctx.read(_copied, ctx)
    former = next((one for one in found if one.rotates and one.manifest and one.manifest.taken_at <= ctx.now), None)

    def told(done: int, total: int) -> None:
        ctx.progress(done, total)
        if ctx.must_stop():
            raise Stopping

    def check(store: Path, scratch: Path, manifest: Manifest) -> None:
        read_back.check(store, scratch, draft.name, manifest, sample, reserve_mb=ctx.settings.reserve_mb, told=told)

    try:
        return snapshots.finished(draft, former, check)
    except Corrupt as error:
        detail = f"The new snapshot could not be read back, and was let go: {error.detail}"
        raise Corrupt(detail, hint="dreamctl health, then dreamctl run snapshot") from error


def _copied(ctx: Context) -> tuple[Draft, Sample]:
    """The copy and some of what is in it, of one moment. Called in the lane."""
    draft = snapshots.copied(ctx.stores, NIGHTLY, ctx.now, ctx.settings.made_by)
    try:
        return draft, read_back.sampled(ctx.stores, ctx.rng)
    except BaseException:
        snapshots.dropped(draft.folder)
        raise


def _report(taken: str, gone: Sequence[str], stuck: Mapping[str, str], reason: str | None = None) -> Report:
    examples = [{"snapshot": taken, "reason": "taken, and read back"}] if taken else []
    examples += [{"snapshot": name, "reason": OUTLIVED} for name in gone]
    examples += [{"snapshot": name, "reason": f"not let go: {why}"} for name, why in stuck.items()]
    counts = {"taken": 1, "rotated": len(gone), "failed": len(stuck)}
    return Report(counts, examples[:EXAMPLES], changed=1, reason=reason)


def _let_go(state: Path, names: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Those that went, and why others did not."""
    gone: list[str] = []
    stuck: dict[str, str] = {}
    for name in names:
        try:
            snapshots.let_go(state, name)
            gone.append(name)
        except Unavailable as error:
            stuck[name] = error.detail
    return gone, stuck
