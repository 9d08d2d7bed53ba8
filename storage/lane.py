"""A lane: one thread that makes every call to something that must not be called from two at once.

The store has one lane (single writer = no lost update, and the embedded engine is not faster with more), the embedder
another. Urgent calls (requests) go before the others (jobs, long texts); after `PATIENCE` of them one that waits gets its
turn, so that a stream of requests slows a night and never starves it.

A call cannot be interrupted. Work that may be long is therefore a generator, and each of its turns a call of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from storage.errors import Unavailable

T = TypeVar("T")

PATIENCE: Final = 8  # urgent calls in a row while a job waits


class Stopping(Unavailable):
    """The lane takes no such call any more."""

    def __init__(self) -> None:
        super().__init__("The daemon is stopping.", hint="dreamctl health")


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
        self.urgent_calls = (
            0  # so many were queued since it began; who works beside the requests looks whether it moves
        )
        self.first: Callable[[], object] = _nothing  # made in the lane before each call; what it raises the call raises
        self._ending = False
        self._closed = False
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., T], *arguments: Any, urgent: bool = True) -> Future[T]:
        """Queue a call; its result or exception comes through the future."""
        call = _Call(Future(), function, arguments)
        with self._wake:
            if self._closed or (self._ending and not urgent):
                raise Stopping
            (self._urgent if urgent else self._patient).append(call)
            self.urgent_calls += urgent
            self._wake.notify()
        return call.future

    async def run(self, function: Callable[..., T], *arguments: Any, urgent: bool = True) -> T:
        """Await a call from the event loop."""
        return await asyncio.wrap_future(self.submit(function, *arguments, urgent=urgent))

    async def run_in_turns(self, work: Generator[None, None, T]) -> T:
        """Await the result of a generator, which works on where nothing more urgent is due."""
        ended: list[T] = []
        while not ended:
            ended = await self.run(_turn, work, urgent=False)
        return ended[0]

    def call(self, function: Callable[..., T], *arguments: Any, urgent: bool = False) -> T:
        """Make a call from another thread and wait for it; never from the event loop or from the lane itself."""
        return self.submit(function, *arguments, urgent=urgent).result()

    def call_in_turns(self, work: Generator[None, None, T]) -> T:
        """Wait in another thread for the result of a generator, which works on where nothing more urgent is due."""
        ended: list[T] = []
        while not ended:
            ended = self.call(_turn, work)
        return ended[0]

    @property
    def waiting(self) -> int:
        """How many calls wait their turn."""
        return len(self._urgent) + len(self._patient)

    def refuse_patient(self) -> None:
        """Refuse the calls that are not urgent, those that wait and those to come: `Stopping`."""
        with self._wake:
            self._ending = True
            waiting = list(self._patient)
            self._patient.clear()
        for call in waiting:
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(Stopping())

    def close(self, seconds: float | None = None) -> None:
        """Refuse later calls, make those that were queued, then end the thread; wait for that, but no longer than so long."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(seconds)

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
                self.first()
                result = call.function(*call.arguments)
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller, whatever it is
                call.future.set_exception(error)
            else:
                call.future.set_result(result)
            del call


def _nothing() -> None:
    """Nothing comes first."""


def _turn(work: Generator[None, None, T]) -> list[T]:
    """Let a generator work up to its next pause; its result where it came to its end, else nothing."""
    try:
        next(work)
    except StopIteration as end:
        return [end.value]
    return []
