"""Whether a copy of a store can be used: told by reading all of it back.

Each file is copied once more and compared with its checksum. The engine opens that second copy, since to open a store is to
change it. The points are counted; and some, drawn by lot when the copy was made, are read whole and compared with the store.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from storage import edge_files as files
from storage.edge import EdgeEngine
from storage.engine import Record
from storage.errors import Corrupt
from storage.manifest import Manifest, broken
from storage.memories import BIN, LIVE
from storage.records import RECORDS
from storage.store import Stores, collections
from storage.synapses import SYNAPSES

T = TypeVar("T")

SAMPLED: Final = 16  # points of each collection

Sample = Mapping[str, Mapping[str, Record]]  # by collection and point id


def sampled(stores: Stores, dice: random.Random) -> Sample:
    """Some points of each collection, drawn by lot. Called in the lane, where the copy is made."""
    catalogue, first = stores.catalogue, next(stores.engine.scroll(RECORDS, fields=[]), [])
    keys: dict[str, Iterable[str]] = {
        LIVE: (catalogue.point(row.id) for row in _some(dice, catalogue.rows(), len(catalogue))),
        BIN: (catalogue.point(row.id) for row in _some(dice, catalogue.gone(), catalogue.gone_count)),
        SYNAPSES: (key for key, _ in _some(dice, stores.synapses.every(), len(stores.synapses))),
        # No list of all keys lies in RAM: these are drawn from the first.
        RECORDS: (record.id for record in _some(dice, first, len(first))),
    }
    return {name: stores.engine.retrieve(name, list(points), vectors=True) for name, points in keys.items()}


def copied(source: Path, target: Path, name: str, manifest: Manifest) -> Iterator[int]:
    """Copy the files of a snapshot's store, telling after each how many were. Raises Corrupt where one holds something else."""
    for number, (path, content) in enumerate(manifest.files.items(), 1):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        if not files.copy_known(source / path, target / path, content):
            raise broken(name, f"{path} does not hold what it held")
        yield number


@contextmanager
def opened(store: Path, name: str, manifest: Manifest, reserve_mb: int) -> Iterator[EdgeEngine]:
    """The engine on a second copy, while it holds as many points as the manifest says. Raises Corrupt."""
    try:
        engine = EdgeEngine.open(store, collections(dimension_of(store)), reserve_mb=reserve_mb)
    except Corrupt as error:
        made_by = ", ".join(f"{what} {version}" for what, version in manifest.made_by.items())
        raise broken(name, f"the engine cannot open it (made by {made_by})") from error
    try:
        for collection, (points, _) in manifest.marks.items():
            if (held := engine.count(collection)) != points:
                raise broken(name, f"{collection} holds {held} of {points} points")
        yield engine
    finally:
        engine.close()


def check(
    source: Path, scratch: Path, name: str, manifest: Manifest, sample: Sample, *, reserve_mb: int,
    told: Callable[[int, int], None],
) -> None:  # fmt: skip
    """Read a copy back by way of `scratch`, a folder that is not there yet. Raises Corrupt.

    `told` hears after each file how many of how many were read; what it raises ends the check.
    """
    for done in copied(source, scratch, name, manifest):
        told(done, len(manifest.files))
    with opened(scratch, name, manifest, reserve_mb) as engine:
        for collection, records in sample.items():
            read = engine.retrieve(collection, list(records), vectors=True)
            if not all(point in read and _same(read[point], record) for point, record in records.items()):
                raise broken(name, f"a point of {collection} reads otherwise than in the store")


def dimension_of(store: Path) -> int:
    """The dimension of the vectors in a store's files. Raises Corrupt where they do not say."""
    dimension = EdgeEngine.stored_dimension(store, LIVE)
    if dimension is None:
        raise Corrupt(f"{store / LIVE} does not say what it was made for.", hint="dreamctl snapshots")
    return dimension


def _some(dice: random.Random, population: Iterable[T], size: int) -> Iterator[T]:
    """Some of so many, drawn by their places; the others are passed over."""
    rest, here = iter(population), 0
    for place in sorted(dice.sample(range(size), min(size, SAMPLED))):
        yield next(islice(rest, place - here, None))
        here = place + 1


def _same(one: Record, other: Record) -> bool:
    return (one.payload, one.text) == (other.payload, other.text) and np.array_equal(one.dense, other.dense)  # type: ignore[arg-type]
