"""A whole daemon in this process, built by the same `build` as the real one, with fakes at its edges."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from daemon.app import App, build
from daemon.config import Config, load
from daemon.rpc import Caller
from jobs.table import NIGHT
from storage.embed import Embedder
from tests.fakes import HashEmbedder, SettableClock


def hashing(provider: str, _model: str) -> Embedder:
    """A hashing embedder that passes for the one which the configuration names."""
    embedder = HashEmbedder()
    embedder.fingerprint = replace(embedder.fingerprint, provider=provider)
    return embedder


class Daemon:
    """Starts, answers, stops; `clock` outlives a restart, as the world does."""

    def __init__(
        self, folder: Path, *, clock: SettableClock | None = None, embedder: Callable[[str, str], Embedder] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.clock = clock or SettableClock()
        self._embedder = embedder or hashing
        self._options = {"DREAMD_METRICS__LISTEN": "", "DREAMD_STORAGE__RESERVE_MB": "16", **(options or {})}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.app: App | None = None

    @property
    def config(self) -> Config:
        environ = {"HOME": str(self.folder), "TZ": "UTC", **self._options}
        return load(environ, state_dir=str(self.folder / "state"), socket=str(self.folder / "s"))

    @property
    def parts(self) -> Any:
        assert self.app is not None
        return self.app.parts

    @property
    def stores(self) -> Any:
        return self.parts.stores

    def start(self) -> Self:
        self.app = self.run(build(self.config, clock=self.clock, embedder=self._embedder))
        return self

    def stop(self) -> None:
        """Stop the daemon, and end its event loop: thousands of them would slow each other."""
        if self.app is not None:
            self.run(self.app.stop())
            self.app = None
        if self._loop is not None and self._thread is not None:
            self.run(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def call(self, method: str, /, *, request_id: str = "", **params: Any) -> dict[str, Any]:
        """One call as the socket's owner makes it; errors are DreamdErrors."""
        assert self.app is not None
        caller = Caller(0, 0, request_id)
        return self.run(self.app.service.call(method, params, caller))

    def in_lane(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A look into the stores, in the only thread that may."""
        return self.parts.lane.call(function, *arguments)

    def remember(self, content: str, **params: Any) -> str:
        """Remember and return the id."""
        return str(self.call("remember", content=content, **params)["id"])

    def beat(self, days: float) -> None:
        """Let time pass awake: a heartbeat every half hour."""
        for _ in range(round(days * 48)):
            self.clock.advance(1800)
            assert self.app is not None
            self.run(self.app.background.heartbeat())

    def dream(self) -> dict[str, str]:
        """The jobs of a night in their order, each by hand, but for the snapshot, which is slow; what each came to."""
        return {name: self.call("run_job", name=name)["outcome"] for name in NIGHT if name != "snapshot"}

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Do something in the daemon's event loop, which begins with the first call."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=100)


#: Nothing happens by itself: no night by schedule, no fold but by a test.
BY_HAND = {"DREAMD_SCHEDULE__NIGHT": "off", "DREAMD_LEARN__FLUSH_SECONDS": "86400"}


@contextmanager
def started(**options: Any) -> Iterator[Daemon]:
    """A daemon on a folder of its own, for the tests of one module to share."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
    daemon = Daemon(folder, **options)
    try:
        yield daemon.start()
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)
