"""A daemon whose embedder a test can watch and break."""

from __future__ import annotations

from collections.abc import Callable

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
