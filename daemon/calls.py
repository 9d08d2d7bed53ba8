"""A call of the service, from its params to what goes on the wire, with its outcome counted and its bugs logged.

A call runs in a task of its own. Whatever becomes of the client's connection, a write that was begun is finished; only a
long look that nobody waits for any more is left.
"""

from __future__ import annotations

import asyncio
import collections
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from daemon.body import encode
from storage.errors import DreamdError

log = structlog.get_logger("daemon.rpc")

UNKNOWN: Final = "unknown"  # stands for whatever is no method, so that a label's values are a closed set

_KEPT: Final = 256  # progress lines that wait for a slow reader; the older ones go

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks; `request_id` is the Idempotency-Key header, or empty."""

    uid: int
    pid: int
    request_id: str


class Service(Protocol):
    """What answers: the daemon behind its wire."""

    async def call(
        self, method: str, params: dict[str, Any], caller: Caller, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The method's result; errors are DreamdErrors. `progress` may be called from any thread."""

    def methods(self) -> list[dict[str, Any]]:
        """Every method, each with its `name`."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""

    def streams(self, method: str) -> bool:
        """Whether it is a long call that tells its progress."""

    def leaves(self, method: str) -> bool:
        """Whether a call of it is cancelled when its client is gone."""

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """The metrics' text and its content type."""

    def ready(self) -> tuple[bool, str]:
        """Whether it can serve, and what it waits for where it cannot."""

    def observe(self, method: str, outcome: str, seconds: float) -> None:
        """Count a request: the method's name or `unknown`, and `ok` or the error's kind."""


class Calls:
    """Runs calls, knows which are in flight, and is the one place where an unexpected exception becomes an answer."""

    def __init__(self, service: Service, new_id: Callable[[], str]) -> None:
        self.names = frozenset(str(entry["name"]) for entry in service.methods())
        self._service = service
        self._new_id = new_id
        self._running: set[asyncio.Task[bytes | DreamdError]] = set()

    def begin(
        self, method: str, params: dict[str, Any], caller: Caller, progress: Progress | None = None
    ) -> asyncio.Task[bytes | DreamdError]:
        """Start a call; its task gives the encoded result or the error, and raises nothing."""
        call = asyncio.create_task(self._perform(method, params, caller, progress), name=f"rpc-{self._label(method)}")
        self._running.add(call)
        call.add_done_callback(self._running.discard)
        return call

    async def drain(self, seconds: float) -> None:
        """Wait for the calls in flight, no longer than that."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    def count(self, method: str, error: DreamdError, seconds: float) -> None:
        """Count a request that never became a call."""
        self._service.observe(self._label(method), error.kind, seconds)

    def known(self, error: BaseException, method: str = UNKNOWN) -> DreamdError:
        """The error as it may be answered.

        A bug is logged without any text that came from outside, and answered by the id under which it is in the log.
        """
        if isinstance(error, DreamdError) and error.kind != "internal":
            return error
        error_id = self._new_id()
        told = {"error_type": _name(error), "traceback": frames(error)}
        log.error("rpc.internal_error", method=self._label(method), error_id=error_id, **told)
        return DreamdError(
            "The daemon met a bug; its log tells more.",
            hint=f"journalctl --user -u dreamd --grep {error_id}",
            error_id=error_id,
        )

    async def _perform(
        self, method: str, params: dict[str, Any], caller: Caller, progress: Progress | None
    ) -> bytes | DreamdError:
        loop = asyncio.get_running_loop()
        started = loop.time()
        outcome: bytes | DreamdError
        try:
            outcome = encode(await self._service.call(method, params, caller, progress))
        except Exception as error:  # noqa: BLE001  # whatever it is, the caller gets an answer
            outcome = self.known(error, method)
        kind = outcome.kind if isinstance(outcome, DreamdError) else "ok"
        self._service.observe(self._label(method), kind, loop.time() - started)
        return outcome

    def _label(self, method: str) -> str:
        return method if method in self.names else UNKNOWN


class ProgressLines:
    """The progress of one call, from whatever thread it runs in, as encoded lines in the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: collections.deque[bytes] = collections.deque(maxlen=_KEPT)
        self._news = asyncio.Event()
        self._waking = False  # the loop was told of news and has not looked yet
        self._ended = False

    def __call__(self, progress: dict[str, Any]) -> None:
        """Add a line; the call may outlive the loop."""
        self._lines.append(encode({"progress": progress}))
        if not self._waking:
            self._waking = True
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """No line follows."""
        self._ended = True
        self._news.set()

    def __aiter__(self) -> ProgressLines:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._lines.popleft()

    def _wake(self) -> None:
        self._waking = False
        self._news.set()


def _name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def frames(error: BaseException) -> str:
    """The tracebacks of an exception and of those behind it: types and places, no messages, for these may quote."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 8:
        parts.append("".join(traceback.format_tb(cause.__traceback__)) + _name(cause))
        cause = cause.__cause__ or cause.__context__
    return "\nbecause of\n".join(parts)
