"""What any Qdrant must do for us: the protocol between our stores and the engine that keeps the points.

An engine knows collections, points, two vector names and one kind of filter. It knows nothing of memories. Every call is
made in the lane (`storage.lane`), so an engine needs no locks. Point ids are UUID strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

DENSE = "dense"  # cosine over unit rows, float16
TEXT = "text"  # BM25 term weights; the engine multiplies by IDF

Vector = NDArray[np.float32]
Payload = dict[str, Any]


class Sparse(NamedTuple):
    """A sparse vector: term ids and their weights, of equal length; empty where a text holds stop words alone."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


class Point(NamedTuple):
    """A point as it is written: its payload and, in collections that have them, both vectors."""

    id: str
    payload: Payload
    dense: Vector | None = None  # (dimension,) float32, unit length
    text: Sparse | None = None


class Record(NamedTuple):
    """A point as it is read back; `dense` is None unless vectors were asked for."""

    id: str
    payload: Payload
    dense: Vector | None = None
    text: Sparse | None = None


class Scored(NamedTuple):
    """A point's id and its score in one leg (cosine or BM25)."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunction over the indexed payload fields and the ids; what is None does not restrict.

    `scope` matches a point whose `scopes` list holds that prefix; `tags` must all be there, of `tags_any` one;
    `sensitivities` lists the levels that may be seen; `owner` belongs to the records collection.
    """

    scope: str | None = None
    tags: tuple[str, ...] = ()
    tags_any: tuple[str, ...] = ()
    sensitivities: tuple[str, ...] | None = None
    ids: frozenset[str] | None = None
    owner: str | None = None


class Query(NamedTuple):
    """One leg of a search: the nearest by `dense`, or by `text` with IDF counted over `corpus` alone."""

    vector: Vector | Sparse
    condition: Condition | None
    limit: int
    corpus: Condition | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection to keep: `dimension` 0 = payload-only; `indexes` are the keyword-indexed payload fields."""

    name: str
    dimension: int = 0
    indexes: tuple[str, ...] = ()


class Engine(Protocol):
    """The calls which the stores make. Errors are those of `storage.errors`, whatever the engine raised."""

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Write whole points; durable in the engine's log when it returns. All are checked before any is written."""

    def set_payload(self, collection: str, patches: Mapping[str, Payload]) -> None:
        """Set some payload fields of points that exist, by id; a field set to None is removed."""

    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Delete points; ids that are not there do not matter."""

    def retrieve(
        self, collection: str, ids: Sequence[str], *, fields: Sequence[str] | None = None, vectors: bool = False
    ) -> dict[str, Record]:
        """The points that exist, by id; `fields` limits the payload."""

    def scroll(
        self,
        collection: str,
        *,
        condition: Condition | None = None,
        fields: Sequence[str] | None = None,
        vectors: bool = False,
        batch: int = 500,
    ) -> Iterator[list[Record]]:
        """Every point that meets the condition, in batches, ordered by point id; `fields` limits the payload."""

    def search(self, collection: str, queries: Sequence[Query]) -> list[list[Scored]]:
        """The best points for each query, in the queries' order; an empty sparse query finds nothing."""

    def marks(self) -> dict[str, Any]:
        """How much each collection holds on the disk, as JSON: to be recorded after each flush."""

    def shortfall(self, recorded: Mapping[str, Any]) -> list[str]:
        """What is less now than in the marks recorded before, a sentence a collection; empty = nothing was lost."""

    def count(self, collection: str) -> int:
        """How many points the collection holds, exactly."""

    def flush(self, collection: str | None = None) -> None:
        """Bring the log of one collection, or of all, to the disk."""

    def vacuum(self, collection: str) -> bool:
        """Rewrite the collection without its deleted points; true where something was rewritten."""

    def scrub(self, collection: str) -> None:
        """Leave no byte of deleted points behind, in segments or log."""

    def deleted_share(self, collection: str) -> float:
        """The share of the stored rows that are deleted, 0..1, since the last vacuum of this process."""

    def disk_bytes(self) -> int:
        """Bytes on disk, as allocated."""

    def copy_to(self, target: Path, *collections: str) -> None:
        """Flush, then copy these collections, or all, into the folder `target`, as the embedded engine opens them."""

    def reload(self, folder: Path, collections: Sequence[Collection], moved: AbstractContextManager[None]) -> None:
        """Let go of the files, and serve those which `moved` puts into `folder`; what was there before where that fails."""

    def close(self) -> None:
        """Flush and let go of the files."""
