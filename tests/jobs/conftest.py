"""One daemon for the tests of a file, emptied before each: opening a store costs more than most of them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.dream import CURSOR
from storage.model import DAY
from tests.harness import Daemon

#: Nothing happens by itself: no night by schedule, no fold but by a test.
BY_HAND = {"DREAMD_SCHEDULE__NIGHT": "off", "DREAMD_LEARN__FLUSH_SECONDS": "86400"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
    daemon = Daemon(folder, options=BY_HAND)
    yield daemon.start()
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


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
