"""A real server on real sockets, in a thread of its own, in front of a whole small service; and a bare wire to it."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from daemon.rpc import Caller, Limits, RpcServer, bind_unix
from storage.errors import Conflict, Invalid, NotFound, Unavailable

METHODS = ("echo", "big", "hold", "look", "refuse", "away", "bug", "nan", "count", "count_then_fail")
PATIENCE = 20.0  # seconds until a test gives up waiting for what must happen


class FakeService:
    """Knows a few methods: some answer, some wait for `release`, some fail in each way there is."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any], Caller]] = []
        self.observed: list[tuple[str, str]] = []
        self.held = threading.Event()  # a call of `hold` has begun
        self.release = threading.Event()
        self.left = threading.Event()  # a call of `look` was cancelled
        self.finished: list[str] = []
        self.is_ready = (True, "")

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        caller: Caller,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        self.calls.append((method, params, caller))
        match method:
            case "echo":
                return {"params": params}
            case "big":
                return {"text": "x" * params["bytes"]}
            case "hold":
                self.held.set()
                await asyncio.to_thread(self.release.wait, PATIENCE)
                self.finished.append(method)
                return {"held": True}
            case "look":
                self.held.set()
                try:
                    await asyncio.sleep(PATIENCE)
                except asyncio.CancelledError:
                    self.left.set()
                    raise
                return {"looked": True}
            case "refuse":
                raise Conflict("Someone was faster.", hint="dreamctl get m1", duplicate_of="m1")
            case "away":
                raise Unavailable("The store is away.", hint="dreamctl doctor", retry_after_s=2.5)
            case "bug":
                raise ValueError(f"cannot digest {params['secret']}")
            case "nan":
                return {"score": float("nan")}
            case "count" | "count_then_fail":
                return await asyncio.to_thread(self._count, method, params["to"], progress or (lambda _: None))
        raise NotFound(f"There is no method {method}.", hint="Did you mean echo?")

    def _count(self, method: str, to: int, progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        for done in range(to):
            progress({"done": done})
        if method == "count_then_fail":
            raise Conflict("The count broke off.", hint="dreamctl jobs")
        return {"counted": to}

    def methods(self) -> list[dict[str, Any]]:
        return [{"name": name} for name in METHODS]

    def openapi(self) -> dict[str, Any]:
        return {"openapi": "3.1.0"}

    def streams(self, method: str) -> bool:
        return method.startswith("count") or method in ("hold", "look")

    def leaves(self, method: str) -> bool:
        return method == "look"

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        return b"dreamd_up 1\n", "application/openmetrics-text" if "openmetrics" in accept else "text/plain"

    def ready(self) -> tuple[bool, str]:
        return self.is_ready

    def observe(self, method: str, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.observed.append((method, outcome))


class FakeEvents:
    """Tells the events that are put into it, and knows two types."""

    def __init__(self) -> None:
        self.asked: list[tuple[frozenset[str], str, str]] = []
        self.followers = 0
        self._queues: list[asyncio.Queue[dict[str, Any]]] = []

    def follow(self, types: frozenset[str], scope: str, after: str) -> AsyncIterator[dict[str, Any]]:
        if not types <= {"remembered", "forgotten"}:
            raise Invalid("There is no such type of event.", hint="dreamctl events --help", field="types")
        self.asked.append((types, scope, after))
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._queues.append(queue)
        return self._tell(queue)

    def tell(self, event: dict[str, Any]) -> None:
        for queue in self._queues:
            queue.put_nowait(event)

    async def _tell(self, queue: asyncio.Queue[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        self.followers += 1
        try:
            while True:
                yield await queue.get()
        finally:
            self.followers -= 1


class Running:
    """A server that serves; `stop` may be called once by a test, else the end of the block does."""

    def __init__(self, service: FakeService, server: RpcServer, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.service = service
        self.server = server
        self.path = path
        self.loop = loop
        self.events = FakeEvents()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE)

    def stop(self, grace_seconds: float = 0.0) -> None:
        self.run(self.server.stop(grace_seconds))


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name, which pytest's own may not."""
    folder = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def serving(limits: Limits | None = None, **options: Any) -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    service, events = FakeService(), FakeEvents()
    ids = iter(f"error-{n}" for n in range(1, 1000))
    with short_folder() as folder:
        bound = bind_unix(folder / "s")

        async def start() -> RpcServer:
            server = RpcServer(service, new_id=lambda: next(ids), limits=limits or Limits(), events=events, **options)
            await server.start_unix(bound.socket)
            return server

        running = Running(service, asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE), bound.path, loop)
        running.events = events
        try:
            yield running
        finally:
            service.release.set()
            running.stop()
            running.run(_end_the_rest())
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()


async def _end_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    if rest:
        await asyncio.wait(rest, timeout=PATIENCE)


class Answer:
    """An HTTP answer as it came."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()
        self.closes = response.will_close

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    def is_problem(self, kind: str, status: int) -> bool:
        """Whether it is a whole problem document of this kind."""
        found = self.json
        return (
            self.headers["Content-Type"] == "application/problem+json"
            and (found["kind"], found["status"], self.status) == (kind, status, status)
            and found["type"].endswith(kind)
            and all(found[name] for name in ("title", "detail", "hint"))
            and "Traceback" not in self.body.decode()
        )


class _Incoming(io.RawIOBase):
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.recv_into(buffer)


class _Reader(io.BufferedReader):
    """What one answer leaves unread belongs to the next, so an answer does not close it."""

    def makefile(self, _mode: str) -> _Reader:
        return self

    def close(self) -> None:
        pass


class Wire:
    """One connection, of bytes; it knows of HTTP only how to read an answer."""

    def __init__(self, address: Path | tuple[str, int]) -> None:
        unix = isinstance(address, Path)
        self.socket = socket.socket(socket.AF_UNIX if unix else socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(address) if unix else address)
        self._reader = _Reader(_Incoming(self.socket))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, verb: str = "GET") -> Answer:
        response = http.client.HTTPResponse(self._reader, method=verb)
        response.begin()
        return Answer(response)

    def ask(self, verb: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        given = {"Host": "dreamd", "Content-Length": str(len(body))} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        self.send(f"{verb} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return self.read(verb)

    def post(self, method: str, body: bytes = b"", **headers: str) -> Answer:
        return self.ask("POST", f"/v1/{method}", body, **headers)

    def has_been_answered(self) -> bool:
        """Whether a byte has come, after at most the socket's time-out."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except TimeoutError:
            return False

    def is_closed(self) -> bool:
        """Whether the server ends the connection, without another byte; waits until it does either."""
        try:
            return self._reader.read(1) == b""
        except ConnectionResetError:
            return True


def until(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes to hold."""
    deadline = time.monotonic() + PATIENCE
    wait = threading.Event().wait
    while not condition():
        if time.monotonic() > deadline:
            return False
        wait(0.005)
    return True
