"""One server a test file, for the tests that leave it as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.daemon.serving import Running, Wire, serving


@pytest.fixture(scope="module")
def _shared() -> Iterator[Running]:
    with serving() as running:
        yield running


@pytest.fixture
def running(_shared: Running) -> Running:
    """A server that serves, and has been asked nothing yet."""
    _shared.service.calls.clear()
    _shared.service.observed.clear()
    return _shared


@pytest.fixture
def wire(running: Running) -> Iterator[Wire]:
    """A connection to it."""
    with Wire(running.path) as wire:
        yield wire
