"""Fixtures for tests on whole stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.storage.opened import Opened


@pytest.fixture
def opened(tmp_path) -> Iterator[Opened]:
    """Empty stores, closed after the test."""
    opened = Opened(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[Opened]:
    """Stores for all tests and examples of a module, which keep apart by scope."""
    opened = Opened(tmp_path_factory.mktemp("shared"))
    yield opened
    opened.close()
