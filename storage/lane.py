"""A lane: one thread that makes every call to something that must not be called from two at once.

The store has one lane (single writer = no lost update, and the embedded engine is not faster with more), the embedder
another. Urgent calls (requests) go before the others (jobs); every `PATIENCE`-th turn goes to a waiting job, so that a
stream of requests slows a night and never starves it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from storage.errors import Unavailable

T = TypeVar("T")

PATIENCE: Final = 8  # urgent calls in a row while a job waits


class _Call(NamedTuple):
    future: Future[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Lane:
    """One worker thread with two queues."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._urgent: deque[_Call] = deque()
        self._patient: deque[_Call] = deque()
        self._streak = 0
        self._closed = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., T], *arguments: Any, urgent: bool = True) -> Future[T]:
        """Queue a call; its result or exception comes through the future."""
        call = _Call(Future(), function, arguments)
        with self._wake:
            if self._closed:
                raise Unavailable(f"The {self._name} lane is closed: the daemon is stopping.", hint="dreamctl health")
            (self._urgent if urgent else self._patient).append(call)
            self._wake.notify()
        return call.future

    async def run(self, function: Callable[..., T], *arguments: Any, urgent: bool = True) -> T:
        """Await a call from the event loop."""
        return await asyncio.wrap_future(self.submit(function, *arguments, urgent=urgent))

    def call(self, function: Callable[..., T], *arguments: Any, urgent: bool = False) -> T:
        """Make a call from another thread and wait for it; never from the event loop or from the lane itself."""
        return self.submit(function, *arguments, urgent=urgent).result()

    @property
    def waiting(self) -> int:
        """How many calls wait their turn."""
        return len(self._urgent) + len(self._patient)

    def close(self) -> None:
        """Finish what was queued, then end the thread. Later calls are refused."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join()

    def _next(self) -> _Call | None:
        with self._wake:
            while not self._urgent and not self._patient:
                if self._closed:
                    return None
                self._wake.wait()
            job_waits = bool(self._patient)
            if self._urgent and not (job_waits and self._streak >= PATIENCE):
                self._streak = self._streak + 1 if job_waits else 0
                return self._urgent.popleft()
            self._streak = 0
            return self._patient.popleft()

    def _work(self) -> None:
        while (call := self._next()) is not None:
            if not call.future.set_running_or_notify_cancel():
                continue
            try:
                result = call.function(*call.arguments)
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller, whatever it is
                call.future.set_exception(error)
            else:
                call.future.set_result(result)
            del call
