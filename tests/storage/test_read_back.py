"""A copy counts where it gives back, byte for byte and point for point, what the store holds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from storage import edge_files, read_back, snapshots
from storage.errors import Corrupt
from storage.manifest import Manifest
from storage.memories import BIN, LIVE
from storage.model import point_id
from storage.read_back import Sample, sampled
from storage.records import RECORDS
from storage.snapshots import Draft
from storage.store import COLLECTIONS
from storage.swap import STORE
from storage.synapses import SYNAPSES
from tests.storage.opened import Opened


@pytest.fixture
def opened(fresh: Opened) -> Opened:
    """A store with something in each collection."""
    fresh.stores.settle_fingerprint(fresh.embedder.fingerprint)
    for n in range(40):
        fresh.add(f"note {n} on tea", id=f"n{n}", connect_to=[f"n{n - 1}"] if n else [])
    fresh.update("n7", content="another note on cake")
    fresh.forget(*(f"n{n}" for n in range(30, 40)))
    return fresh


@contextmanager
def copied(opened: Opened) -> Iterator[tuple[Draft, Manifest, Sample]]:
    draft = snapshots.copied(opened.stores, "", opened.now, {"dreamd": "0.1.0"})
    yield draft, snapshots.sealed(draft), sampled(opened.stores, random.Random(1))
    snapshots.dropped(draft.folder)


def check(opened: Opened, draft: Draft, manifest: Manifest, sample: Sample) -> list[tuple[int, int]]:
    """Read it back; what was told meanwhile."""
    told: list[tuple[int, int]] = []
    read_back.check(
        draft.folder / STORE, opened.folder / "scratch", "x", manifest, sample, reserve_mb=1,
        told=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    return told


def test_a_good_copy_passes_and_is_as_it_was(opened) -> None:
    with copied(opened) as (draft, manifest, sample):
        before = {path: path.stat().st_mtime_ns for path in (draft.folder / STORE).rglob("*")}

        told = check(opened, draft, manifest, sample)

        assert {path: path.stat().st_mtime_ns for path in (draft.folder / STORE).rglob("*")} == before
        assert edge_files.contents(draft.folder / STORE) == manifest.files
        assert told == [(n, len(manifest.files)) for n in range(1, len(manifest.files) + 1)]


def test_of_each_collection_some_points_are_drawn_with_all_that_they_have(opened) -> None:
    sample = sampled(opened.stores, random.Random(1))

    assert {name: len(points) for name, points in sample.items()} == {LIVE: 16, BIN: 10, SYNAPSES: 16, RECORDS: 2}
    assert set(sample) == set(COLLECTIONS)
    assert all(len(one.dense) == 64 and one.payload["content"] for one in sample[LIVE].values())
    assert {one.payload["kind"] for one in sample[RECORDS].values()} == {"fingerprint", "version"}
    assert sampled(opened.stores, random.Random(1))[LIVE].keys() == sample[LIVE].keys()
    assert sampled(opened.stores, random.Random(2))[LIVE].keys() != sample[LIVE].keys()


def test_every_point_may_be_drawn(opened) -> None:
    draws = [sampled(opened.stores, random.Random(seed)) for seed in range(40)]

    assert {point for draw in draws for point in draw[LIVE]} == {point_id(f"n{n}") for n in range(30)}
    assert {point for draw in draws for point in draw[SYNAPSES]} == {key for key, _ in opened.stores.synapses.every()}


def test_an_empty_store_can_be_read_back_too(fresh: Opened) -> None:
    with copied(fresh) as (draft, manifest, sample):
        check(fresh, draft, manifest, sample)


@pytest.mark.parametrize("collection", [LIVE, SYNAPSES, RECORDS])
def test_a_copy_that_gives_back_another_payload_is_no_good(opened, collection) -> None:
    """As of a point whose last change did not reach the copy: the counts are the same."""
    with copied(opened) as (draft, manifest, sample):
        point, record = next(iter(sample[collection].items()))
        newer = {
            **sample,
            collection: {**sample[collection], point: record._replace(payload={**record.payload, "seq": 99})},
        }

        with pytest.raises(Corrupt, match=f"a point of {collection} reads otherwise"):
            check(opened, draft, manifest, newer)


@pytest.mark.parametrize("vector", ["dense", "text"])
def test_a_copy_that_gives_back_another_vector_is_no_good(opened, vector) -> None:
    with copied(opened) as (draft, manifest, sample):
        (point, record), (_, other) = list(sample[LIVE].items())[:2]
        assert not np.array_equal(record.dense, other.dense)
        newer = {LIVE: {point: record._replace(**{vector: getattr(other, vector)})}}

        with pytest.raises(Corrupt, match=f"a point of {LIVE} reads otherwise"):
            check(opened, draft, manifest, newer)


def test_a_copy_that_lacks_a_point_is_no_good(opened) -> None:
    with copied(opened) as (draft, manifest, sample):
        record = next(iter(sample[BIN].values()))

        with pytest.raises(Corrupt, match=f"a point of {BIN}"):
            check(opened, draft, manifest, {BIN: {"00000000-0000-0000-0000-00000000000f": record}})


def flip(path: Path) -> None:
    with path.open("r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes([byte[0] ^ 1]))


def test_a_byte_that_turned_on_the_way_to_the_disk_is_seen_and_ends_the_reading(opened) -> None:
    with copied(opened) as (draft, manifest, sample):
        path = next(path for path, content in manifest.files.items() if content.end > 100)
        flip(draft.folder / STORE / path)

        with pytest.raises(Corrupt, match=f"{path} does not hold what it held"):
            check(opened, draft, manifest, sample)


def test_whoever_is_told_can_end_it(opened) -> None:
    class Enough(Exception):
        pass

    def told(done: int, _total: int) -> None:
        if done == 3:
            raise Enough

    scratch = opened.folder / "scratch"
    with copied(opened) as (draft, manifest, sample), pytest.raises(Enough):
        read_back.check(draft.folder / STORE, scratch, "x", manifest, sample, reserve_mb=1, told=told)

    assert len([path for path in scratch.rglob("*") if path.is_file()]) == 3


def test_a_store_that_does_not_say_its_dimension_is_no_good(opened) -> None:
    with copied(opened) as (draft, _, _):
        (draft.folder / STORE / LIVE / "edge_config.json").unlink()

        with pytest.raises(Corrupt, match="does not say"):
            read_back.dimension_of(draft.folder / STORE)
