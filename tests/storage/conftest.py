"""Fixtures for tests on whole stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.opened import Opened


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[Opened]:
    """Stores for all tests and examples of a module."""
    opened = Opened(tmp_path_factory.mktemp("shared"))
    yield opened
    opened.close()


@pytest.fixture
def opened(shared) -> Opened:
    """The module's stores, emptied: their folder takes five times as long to make."""
    shared.empty()
    return shared


@pytest.fixture
def fresh(tmp_path) -> Iterator[Opened]:
    """Stores in a folder of their own, where nothing was ever deleted: the engine's IDF counts what was, until a restart."""
    opened = Opened(tmp_path)
    yield opened
    opened.close()
