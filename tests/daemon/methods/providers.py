"""Two embedders that differ as real ones do: in their directions, and by default in their dimension."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from storage.embed import Embedder
from storage.errors import Unavailable
from tests.fakes import HashEmbedder, Rows

USE = {"DREAMD_EMBEDDING__PROVIDER": "use"}
WORDLLAMA = {"DREAMD_EMBEDDING__PROVIDER": "wordllama"}


class Named(HashEmbedder):
    """Passes for a provider's model; another provider's directions are others."""

    def __init__(self, provider: str, dimension: int) -> None:
        super().__init__(dimension)
        self.fingerprint = replace(self.fingerprint, provider=provider)

    def _direction(self, word: str) -> NDArray[np.float64]:
        return super()._direction(f"{self.fingerprint.provider} {word}")


class Providers:
    """Loads `Named` embedders; one that is `away` cannot be loaded."""

    def __init__(self, **dimensions: int) -> None:
        self._dimensions = {"use": 64, "wordllama": 32} | dimensions
        self.away: set[str] = set()
        self.loaded: list[str] = []

    def load(self, provider: str, _model: str) -> Embedder:
        self.loaded.append(provider)
        if provider in self.away:
            raise Unavailable(f"{provider} is away.", hint=f"pip install {provider}")
        return Named(provider, self._dimensions[provider])


class Waiting(Named):
    """Waits before each call, once `hold` was called, until `go` is; `reached` says that it waits."""

    def __init__(self, provider: str, dimension: int, after: int) -> None:
        super().__init__(provider, dimension)
        self._left = after
        self.reached = threading.Event()
        self.go = threading.Event()
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> Rows:
        self._left -= 1
        if self._left < 0:
            self.reached.set()
            assert self.go.wait(60)
        self.seen += texts
        return super().embed(texts)
