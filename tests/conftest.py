"""Fixtures for every test: a clean environment, and daemons that are taken down whatever happens."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Daemon


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> None:
    for name in [name for name in os.environ if name.startswith("DREAMD_")]:
        del os.environ[name]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a socket's may not be longer than 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="dreamd-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def daemons(folder: Path) -> Iterator[Callable[..., Daemon]]:
    """Makes daemons on one state folder: the real one, with a settable clock and a hashing embedder unless told otherwise."""
    made: list[Daemon] = []

    def make(**options: Any) -> Daemon:
        made.append(Daemon(folder, **options))
        return made[-1]

    yield make
    for daemon in reversed(made):
        daemon.stop()


@pytest.fixture
def daemon(daemons: Callable[..., Daemon]) -> Daemon:
    """One started daemon."""
    return daemons().start()
