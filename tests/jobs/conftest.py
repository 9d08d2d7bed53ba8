"""One daemon for the tests of a file, emptied before each: opening a store costs more than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.dream import CURSOR
from storage.model import DAY
from tests.harness import BY_HAND, Daemon, started


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    """A daemon without memories, two days after whatever it did before."""

    def empty() -> None:
        stores = shared.stores
        stores.changer.erase([row.id for row in stores.catalogue.every()])
        stores.ledger.set_fact(CURSOR, None)

    shared.in_lane(empty)
    shared.parts.learn.take()
    shared.clock.advance(2 * DAY)
    shared.run(shared.app.background.heartbeat())
    return shared
