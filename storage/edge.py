"""The embedded engine: Qdrant Edge in this process, one shard a collection under one folder.

What the engine leaves to its caller is done here: points are checked before a batch is written, room on the disk before
anything is (a full disk ends the process with SIGBUS), a damaged shard is refused before a load can discard it, and
whatever the engine raises, panics included, becomes an error of `storage.errors`. The index is none: every search is
exact. Nothing is rewritten unless `vacuum` or `scrub` is called. No call holds a lock: the lane makes them one by one.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import qdrant_edge as edge

from storage import edge_files as files
from storage import edge_filter as forms
from storage import point_check, sharing
from storage.edge_errors import RESTORE, translated
from storage.engine import Collection, Condition, Payload, Point, Query, Record, Scored
from storage.errors import Corrupt, DreamdError, Invalid, Unavailable

P = ParamSpec("P")
R = TypeVar("R")

_MIB: Final = 1 << 20
_FILLER: Final = 15 * _MIB  # two fill a file of the log (32 MiB)
_LOG_ROOM: Final = 160 * _MIB  # what replacing the log takes before its old files go
_NOBODY: Final = str(uuid.UUID(int=0))


class EdgeEngine:
    """Qdrant Edge behind the `Engine` protocol; make one with `open`."""

    def __init__(
        self, folder: Path, collections: Sequence[Collection], reserve: int, free_bytes: Callable[[Path], int]
    ) -> None:
        self._folder = folder
        self._collections = {collection.name: collection for collection in collections}
        self._reserve = reserve  # bytes
        self._free_bytes = free_bytes
        self._shards: dict[str, edge.EdgeShard] = {}
        self._found: dict[str, int] = {}  # tracker bytes before the load, which may append to them
        self._closed = False

    @classmethod
    def open(
        cls,
        folder: Path,
        collections: Sequence[Collection],
        *,
        reserve_mb: int,
        free_bytes: Callable[[Path], int] = files.free_bytes,
    ) -> EdgeEngine:
        """Load every collection's shard under `folder`, making those whose folder is not there.

        Raises `Corrupt` where a shard cannot be loaded whole (nothing is moved or replaced), `Conflict` where another
        process has it open, `Invalid` where its vectors have another dimension, `Unavailable` without room on the disk.
        """
        folder.mkdir(parents=True, exist_ok=True)
        engine = cls(folder, collections, reserve_mb * _MIB, free_bytes)
        try:
            engine._load_all(make=True)
        except BaseException:
            with suppress(DreamdError):
                engine.close()
            raise
        return engine

    @staticmethod
    def stored_dimension(folder: Path, collection: str) -> int | None:
        """The dimension of the vectors that a collection under `folder` was made for; None where there is none yet."""
        return _dimension(folder / collection)

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write whole points; all are checked first, so that a bad one leaves the store as it was."""
        shard = self._shard(collection)
        size = point_check.check_points(self._collections[collection], points)
        if not points:
            return
        self._require_room(2 * size)  # once in the log, once in the segment
        self._update(collection, shard, lambda: edge.UpdateOperation.upsert_points([forms.point_of(p) for p in points]))

    def set_payload(self, collection: str, patches: Mapping[str, Payload]) -> None:
        """Set some payload fields of points that exist; a field set to None is removed, equal patches go together."""
        shard = self._shard(collection)
        kept = self._collections[collection]
        size = sum(point_check.check_patch(kept, point_id, patch) for point_id, patch in patches.items())
        groups: dict[str, tuple[set[str], Payload]] = {}
        for point_id, patch in patches.items():
            if patch:
                groups.setdefault(json.dumps(patch, sort_keys=True), (set(), patch))[0].add(point_id)
        if groups:
            self._require_room(2 * size)
        for ids, patch in groups.values():
            # By filter, for by ids a missing one raises after others were changed.
            self._update(collection, shard, partial(forms.patch_of, ids, patch))

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Delete points; ids that are not there do not matter."""
        shard = self._shard(collection)
        if ids:
            self._require_room(64 * len(ids))
            self._update(collection, shard, lambda: edge.UpdateOperation.delete_points(list(ids)))

    def retrieve(
        self, collection: str, ids: Sequence[str], *, fields: Sequence[str] | None = None, vectors: bool = False
    ) -> dict[str, Record]:
        """The points that exist, by id; `fields` limits the payload."""
        shard = self._shard(collection)
        if not ids:
            return {}
        payload = True if fields is None else forms.fields_of(list(fields))
        found = self._run(collection, "retrieve", shard.retrieve, list(ids), payload, vectors)
        return {record.id: record for record in map(forms.record_of, found)}

    def scroll(
        self,
        collection: str,
        *,
        condition: Condition | None = None,
        fields: Sequence[str] | None = None,
        vectors: bool = False,
        batch: int = 500,
    ) -> Iterator[list[Record]]:
        """Every point that meets the condition, in batches, ordered by point id; other calls may come between them."""
        if forms.never(condition):
            return
        offset: edge.PointId | None = None
        payload = True if fields is None else forms.fields_of(list(fields))
        while True:
            shard = self._shard(collection)
            request = forms.page_of(condition, offset, batch, payload, vectors=vectors)
            found, offset = self._run(collection, "scroll", shard.scroll, request)
            if found:
                yield [forms.record_of(record) for record in found]
            if offset is None:
                return

    def search(self, collection: str, queries: Sequence[Query]) -> list[list[Scored]]:
        """The best points for each query, in the queries' order, asked in one call."""
        shard = self._shard(collection)
        for query in queries:
            point_check.check_query(self._collections[collection], query.vector)
        results: list[list[Scored]] = [[] for _ in queries]
        asked = [position for position, query in enumerate(queries) if forms.can_match(query)]
        if asked:
            legs = [queries[position] for position in asked]
            answers = self._run(collection, "search", lambda: shard.query_batch(forms.batch_of(legs)))
            for position, points in zip(asked, answers, strict=True):
                results[position] = [Scored(str(point.id), point.score) for point in points]
        return results

    def marks(self) -> dict[str, Any]:
        """Each collection's exact count and the bytes of its id trackers as of the last flush: what `shortfall` takes."""
        return {name: [self.count(name), self.tracker_bytes(name)] for name in self._collections}

    def shortfall(self, recorded: Mapping[str, Any]) -> list[str]:
        """What the load lost without a word, a sentence a collection; `recorded` are the marks after the last flush.

        Fewer points alone may be deletes, which lengthen the trackers; shorter trackers alone, a rewrite. Both is loss.
        """
        lost = []
        for name, (count, tracked) in recorded.items():
            if name in self._collections and self._found[name] < tracked and (held := self.count(name)) < count:
                lost.append(f"{name} holds {held} of the {count} points that it held at the last flush")
        return lost

    def count(self, collection: str) -> int:
        """How many points the collection holds, exactly."""
        shard = self._shard(collection)
        info = self._run(collection, "info", shard.info)
        if info.segments_count == 1:
            return info.points_count
        # Counts a point once that a rewrite cut short left in two segments: 15 ms at 100,000.
        return self._run(collection, "count", shard.count, edge.CountRequest(exact=True))

    def counts(self) -> dict[str, int]:
        """How many points each collection holds, exactly."""
        return {name: self.count(name) for name in self._collections}

    def flush(self, collection: str | None = None) -> None:
        """Bring the log and the segments of one collection, or of all, to the disk."""
        for name in self._collections if collection is None else (collection,):
            self._run(name, "flush", self._shard(name).flush)

    def vacuum(self, collection: str) -> bool:
        """Rewrite the collection without its deleted points; true where something was rewritten.

        Holds the interpreter's lock throughout: 11 s at 100,000 points of 256 numbers. The id trackers get shorter.
        """
        # A rewrite cut short by a kill leaves a second segment behind; only merging brings it back into the first.
        return self._rewrite(collection, merge=len(files.segments(self._path(collection))) > 1)

    def scrub(self, collection: str) -> None:
        """Leave no byte of deleted or overwritten points behind, in segments or log (about 2 s and 100 MiB written).

        The log is replaced by writing past it, never removed: its numbers would start again at 0, and the engine drops
        every write to a point that was last written under a higher number.
        """
        self._require_room(files.allocated_bytes(self._path(collection)) + _LOG_ROOM)
        before = set(files.segments(self._path(collection)))
        self._rewrite(collection, merge=True)
        if before & set(files.segments(self._path(collection))):
            raise self._unscrubbed(collection, "the engine kept a segment as it was")
        self._replace_log(collection)

    def deleted_share(self, collection: str) -> float:
        """The share of the stored rows that are deleted, 0..1; rows are counted as of the last flush."""
        live = self.count(collection)
        rows = files.rows(self._path(collection))
        return max(0.0, 1.0 - live / rows) if rows else 0.0

    def disk_bytes(self) -> int:
        """Bytes on disk, as allocated."""
        return files.allocated_bytes(self._folder)

    def tracker_bytes(self, collection: str) -> int:
        """Bytes of the collection's id trackers as of the last flush: only damage or a rewrite lessens them."""
        return files.tracker_bytes(self._path(collection))

    def copy_to(self, target: Path, *collections: str) -> None:
        """Flush, then copy these shards, or all, into the folder `target`, holes as holes; they open like the originals.

        The copy is in the page cache when this returns; `durable.sync_tree` brings it to the disk.
        """
        copied = collections or tuple(self._collections)
        for name in copied:
            self.flush(name)
        try:
            target.mkdir(parents=True, exist_ok=True)
            self._require_room(sum(files.allocated_bytes(self._path(name)) for name in copied), target)
            for name in copied:
                files.copy_sparse(self._path(name), target / name)
        except OSError as error:
            detail = f"The copy to {target} failed: {error.strerror}."
            raise Unavailable(detail, hint=f"ls -l {target}, then dreamctl snapshot") from None

    def reload(self, folder: Path, collections: Sequence[Collection], moved: AbstractContextManager[None]) -> None:
        """Let go of the files, and serve those which `moved` puts into `folder`; what was there before where that fails."""
        former = self._folder, self._collections
        self._require_room(path=folder.parent)
        try:
            with suppress(Corrupt) if not self._folder.exists() else nullcontext():  # nothing there to flush
                self._release()
            with moved:
                self._folder, self._collections = folder, {one.name: one for one in collections}
                self._load_all()
        except BaseException:
            with suppress(DreamdError):
                self._release()
            self._folder, self._collections = former
            self._load_all()
            raise

    def close(self) -> None:
        """Flush and let go of the files; a second call does nothing."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        failures = []
        while self._shards:
            name, shard = self._shards.popitem()
            try:
                self._run(name, "flush", shard.flush)
                self._run(name, "close", shard.close)
            except DreamdError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _path(self, name: str) -> Path:
        return self._folder / name

    def _shard(self, name: str) -> edge.EdgeShard:
        if self._closed:
            raise Unavailable(f"The store in {self._folder} is closed.", hint="dreamctl health")
        if name not in self._shards and name in self._collections:
            raise Unavailable(f"{self._path(name)} was not loaded again after a rewrite.", hint="restart dreamd")
        return self._shards[name]

    def _load_all(self, *, make: bool = False) -> None:
        for name in self._collections:
            if make and not self._path(name).exists():
                self._create(name)
            self._found[name] = files.tracker_bytes(self._path(name))
            self._load(name)

    def _create(self, name: str) -> None:
        """Make an empty shard beside its place and rename it in: a kill in between leaves no half shard to refuse."""
        self._require_room()
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self._folder) as scratch:
            self._make(name, Path(scratch, name))
            Path(scratch, name).rename(self._path(name))

    def _make(self, name: str, path: Path) -> None:
        shard = self._run(name, "create", edge.EdgeShard.create, str(path), forms.config_of(self._collections[name]))
        self._index(name, shard)
        self._run(name, "close", shard.close)

    def _load(self, name: str) -> None:
        path, collection = self._path(name), self._collections[name]
        self._require_room()
        if fault := files.fault(path):
            raise Corrupt(f"{path} is damaged: {fault}. Nothing was moved or replaced.", hint=RESTORE)
        dimension = _dimension(path)
        if dimension not in (None, collection.dimension):
            detail = f"{path} holds vectors of {dimension} numbers, not of {collection.dimension}."
            raise Invalid(detail, hint="dreamctl reindex", field="embedding")
        self._run(name, "unshare", sharing.unshare, path)  # of a snapshot that somebody put here by hand
        shard = self._run(name, "load", edge.EdgeShard.load, str(path), forms.config_of(collection))
        self._shards[name] = shard
        self._run(name, "clear_scratch", files.clear_scratch, path)
        self._index(name, shard)

    def _index(self, name: str, shard: edge.EdgeShard) -> None:
        known = self._run(name, "info", shard.info).payload_schema
        for field in self._collections[name].indexes:
            if field not in known:
                keyword = edge.PayloadSchemaType.Keyword
                self._update(name, shard, partial(edge.UpdateOperation.create_field_index, field, keyword))

    def _rewrite(self, name: str, *, merge: bool) -> bool:
        """Run the engine's optimizers; with `merge` every segment is rewritten, into one."""
        path = self._path(name)
        self._shard(name)
        self._require_room(files.allocated_bytes(path))
        before = set(files.segments(path))
        if merge:
            # The engine merges where it finds more than two segments, so it is given empty ones.
            for _ in range(3 - min(len(before), 2)):
                self._add_segment(name)
            self._run(name, "close", self._shards.pop(name).close)
            self._load(name)
        shard = self._shard(name)
        self._run(name, "optimize", shard.optimize)
        self._run(name, "flush", shard.flush)  # until then the old segments are still there
        return set(files.segments(path)) != before

    def _add_segment(self, name: str) -> None:
        with tempfile.TemporaryDirectory(prefix=".new-", dir=self._folder) as scratch:
            self._make(name, Path(scratch, name))
            for segment in files.segments(Path(scratch, name)).values():
                segment.rename(self._path(name) / "segments" / segment.name)

    def _replace_log(self, name: str) -> None:
        """Write what changes nothing until the engine has removed every file that its log has now."""
        filler = {"filler": "0" * _FILLER}
        with ExitStack() as stack:
            log = [stack.enter_context(path.open("rb")) for path in self._path(name).glob("wal/[co]*-*")]
            for _ in range(12):  # three files of the log take seven
                if not any(os.fstat(file.fileno()).st_nlink for file in log):
                    return
                self._update(name, self._shard(name), partial(forms.patch_of, {_NOBODY}, filler))
                self.flush(name)
        raise self._unscrubbed(name, "the engine kept its log")

    def _unscrubbed(self, name: str, why: str) -> Unavailable:
        detail = f"{name} was not scrubbed: {why}. Deleted text may still be in {self._path(name)}."
        return Unavailable(detail, hint="dreamctl doctor")

    def _require_room(self, size: int = 0, path: Path | None = None) -> None:
        """Raise `Unavailable` unless `size` bytes fit on the disk and leave the reserve."""
        try:
            files.require_room(path or self._folder, self._reserve + size, self._free_bytes)
        except FileNotFoundError:
            raise Corrupt(f"{self._folder} is gone; what was read of it is served on.", hint=RESTORE) from None

    def _update(self, name: str, shard: edge.EdgeShard, operation: Callable[[], edge.UpdateOperation]) -> None:
        self._run(name, "update", lambda: shard.update(operation()))

    def _run(self, name: str, action: str, call: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        """Make a call of the engine; whatever it raises becomes an error of ours, without the engine's words.

        A panic is a BaseException, and its message may quote what is stored.
        """
        try:
            return call(*arguments, **options)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001
            raise translated(error, action, self._path(name)) from None


def _dimension(path: Path) -> int | None:
    try:
        return files.dimension(path)
    except (ValueError, AttributeError, TypeError, OSError):
        detail = f"{path}/edge_config.json cannot be read. Nothing was moved or replaced."
        raise Corrupt(detail, hint=RESTORE) from None
