"""Asking a daemon in tests: for its refusals, for several things at once, with an embedder that can be watched or broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from daemon.rpc import Caller
from storage.errors import DreamdError
from tests.fakes import HashEmbedder
from tests.harness import Daemon


def ask(daemon: Daemon, method: str, params: dict[str, Any], key: str = "") -> dict[str, Any]:
    """The result of a call with exactly these params, `request_id` among them; `key` is the Idempotency-Key."""
    assert daemon.app is not None
    result: dict[str, Any] = daemon.run(daemon.app.service.call(method, params, Caller(0, 0, key)))
    return result


def refused(daemon: Daemon, kind: str, method: str, /, **params: Any) -> DreamdError:
    """The error of a call that must fail with this kind; every error tells what happened and what to do next."""
    with pytest.raises(DreamdError) as caught:
        ask(daemon, method, params)
    error = caught.value
    assert error.kind == kind, (error.kind, error.detail)
    assert error.detail
    assert error.hint
    return error


def at_once(daemon: Daemon, *calls: tuple[str, dict[str, Any]], key: str = "") -> list[Any]:
    """The results, or errors, of calls that are made in the same turn of the loop, all with one Idempotency-Key."""
    assert daemon.app is not None
    service = daemon.app.service

    async def all_of_them() -> list[Any]:
        waiting = [service.call(method, params, Caller(0, 0, key)) for method, params in calls]
        return await asyncio.gather(*waiting, return_exceptions=True)

    return daemon.run(all_of_them())


class WatchedEmbedder(HashEmbedder):
    """Notes every text, and fails while `broken` or where a text holds `poison`; `meanwhile` is done once as it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.fingerprint = replace(self.fingerprint, provider="use")
        self.texts: list[str] = []
        self.broken = False
        self.poison = ""
        self.meanwhile: Callable[[], None] | None = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        if self.broken or (self.poison and any(self.poison in text for text in texts)):
            raise RuntimeError("the model is broken")
        return super().embed(texts)

    def load(self, _provider: str, _model: str) -> WatchedEmbedder:
        return self
