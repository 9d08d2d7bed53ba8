"""Daemons whose embedder a test can watch and break, and one a file for the tests that leave it as it was."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.methods.asking import WatchedEmbedder
from tests.harness import Daemon


@pytest.fixture
def embedder() -> WatchedEmbedder:
    return WatchedEmbedder()


@pytest.fixture
def watched(daemons: Callable[..., Daemon], embedder: WatchedEmbedder) -> Daemon:
    """A started daemon with that embedder."""
    return daemons(embedder=embedder.load).start()


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    """A started daemon for the tests of a file that change nothing in it, or use a scope of their own."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
    daemon = Daemon(folder).start()
    yield daemon
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)
