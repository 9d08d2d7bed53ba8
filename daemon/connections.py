"""Connections with limits: what aiohttp's server lacks, built on its protocol class.

- A request's headers have 10 s from their first byte; a connection without one may idle for 120 s.
- An answer has 30 s to be taken. The transport's buffer counts as not taken, so a client that stops reading holds
  neither memory nor a descriptor for longer, and nobody waits for it but its own request.
- At the cap, newcomers wait in the kernel's queue while the connection longest without a complete request is dropped,
  or the one that takes longest to read its answer. Each is spared for a quarter second, so that a burst of honest
  clients is served and not shot.

Bodies are read in `daemon.rpc`.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from daemon.problem import raw_response
from daemon.sockets import BACKLOG, Peer, peer_of
from storage.errors import DreamdError, Invalid, Unavailable

NDJSON: Final = "application/x-ndjson"

log = structlog.get_logger("daemon.connections")

_PAUSE_SECONDS: Final = 1.0  # before the next try to accept, where the system refuses: no descriptors, no memory


@dataclass(frozen=True, slots=True)
class Limits:
    """What a client may ask of the server, in bytes, seconds and connections."""

    body_bytes: int = 16 * 2**20
    discard_bytes: int = 64 * 2**20  # a body over the limit is read up to here, so that its connection stays usable
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: float = 120.0
    write_seconds: float = 30.0
    connections: int = 256  # a listener
    patience_seconds: float = 0.25
    streams: int = 64  # followers of events, who never leave by themselves


class Connection(web.RequestHandler):
    """One client's connection.

    `waiting_since` is the monotonic second since which we have waited for its client, to send a request or to read an
    answer; None while we work. `complete` says that a whole request is in hand. `lost` is done when the client is gone.
    """

    def __init__(self, server: web.Server, listener: Listener) -> None:
        options: dict[str, Any] = {
            "keepalive_timeout": listener.limits.idle_seconds,
            "lingering_time": 0,
            "auto_decompress": False,
            "tcp_keepalive": False,
            "access_log": None,
            "max_headers": 64,
        }
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, **options)
        self.waiting_since: float | None = time.monotonic()
        self.complete = False
        self.lost: asyncio.Future[None] = loop.create_future()
        self.peer: Peer | None = None
        self._listener = listener
        self._new = True
        self._in_request = False
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Join the listener, and learn from the kernel who is there."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=0)
        connected = transport.get_extra_info("socket")
        if connected.family == socket.AF_UNIX:
            self.peer = peer_of(connected)
        super().connection_made(transport)
        self._listener.connections.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Leave the listener."""
        self._stop_header_timer()
        super().connection_lost(exc)
        self._listener.leave(self)
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Start the clock at the first byte of a request."""
        if data and self._header_timer is None and not self._in_request:
            seconds = self._listener.limits.header_seconds
            self._header_timer = asyncio.get_running_loop().call_later(seconds, self._headers_are_late)
        super().data_received(data)

    def begin_request(self) -> None:
        """The headers are complete."""
        self._in_request = True
        self._stop_header_timer()

    def begin_answer(self) -> None:
        """The body is complete too: now it is we who take time."""
        self.complete = True
        self.waiting_since = None

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send what is left of the answer, within the time-out; the flag says that the client is gone."""
        self.waiting_since = time.monotonic()
        try:
            async with asyncio.timeout(self._listener.limits.write_seconds):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self.abort()
            return resp, True
        finally:
            self._new = self._in_request = self.complete = False
            self.waiting_since = time.monotonic()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what is not HTTP, or what a handler let through, as a problem; aiohttp would log the bytes."""
        del status, message
        if isinstance(exc, ConnectionError) or request.writer.output_size > 0:
            raise ConnectionResetError("nobody is there to read an answer, or it broke off") from exc
        response = self._listener.explain(exc)
        response.force_close()
        return response

    def drop(self, reason: DreamdError) -> None:
        """Close it, and give the reason to a client that may wait for an answer and has got no part of one."""
        transport = self.transport
        if transport is None:
            return
        waits = self._new or self._in_request or self._header_timer is not None
        if waits and not self.complete and not transport.is_closing():
            transport.write(raw_response(reason))
        self.force_close()
        if transport.get_write_buffer_size():
            transport.abort()
        self._listener.leave(self)

    def abort(self) -> None:
        """Close at once, whatever was not sent yet."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()
        self._listener.leave(self)

    def _headers_are_late(self) -> None:
        seconds = self._listener.limits.header_seconds
        hint = "Send the request at once; curl and dreamctl do."
        self.drop(Invalid(f"The headers were not complete within {seconds:g} s.", hint=hint))

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class LineStream:
    """An NDJSON answer; it is opened by its first line, so that an error before it keeps a status of its own."""

    def __init__(self, request: web.BaseRequest, write_seconds: float) -> None:
        self.response = web.StreamResponse(headers={"Content-Type": NDJSON, "Server": "dreamd"})
        self._request = request
        self._write_seconds = write_seconds

    @property
    def is_open(self) -> bool:
        """Whether something was sent."""
        return self.response.prepared

    async def open(self) -> None:
        """Send the headers."""
        await self.response.prepare(self._request)

    async def write(self, line: bytes) -> None:
        """Send one line; a client that does not take it in time is dropped, and ConnectionError says so."""
        try:
            async with asyncio.timeout(self._write_seconds):
                await self.response.prepare(self._request)
                await self.response.write(line + b"\n")
                await self._request.writer.drain()
        except TimeoutError:
            connection_of(self._request).abort()
            raise ConnectionResetError("the client stopped reading") from None


def connection_of(request: web.BaseRequest) -> Connection:
    """The connection that a request came by."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    return connection


class Listener:
    """One listening socket and its connections, never more than `limits.connections` of them.

    `handle` answers a request; `explain` turns whatever went wrong outside of it into an answer.
    """

    def __init__(
        self,
        sock: socket.socket,
        handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        explain: Callable[[BaseException | None], web.Response],
        limits: Limits,
    ) -> None:
        self.connections: set[Connection] = set()
        self.explain = explain
        self.limits = limits
        self._socket = sock
        self._server = web.Server(handle, request_factory=_begin_request)
        self._left = asyncio.Event()
        self._accepting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Accept connections from now on."""
        self._socket.setblocking(False)
        self._socket.listen(BACKLOG)
        self._accepting = asyncio.create_task(self._accept(), name="rpc-accept")

    def leave(self, connection: Connection) -> None:
        """Forget a connection that is closed or closing."""
        self.connections.discard(connection)
        self._left.set()

    async def close(self) -> None:
        """Accept nobody any more, and drop whoever has no complete request; the others end with their answer."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        self._socket.close()
        for connection in tuple(self.connections):
            if connection.complete:
                connection.close()
            else:
                connection.drop(_stopping())

    async def drain(self, seconds: float) -> None:
        """Wait until the last connection is gone, and abort those that are still there after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self.connections:
                    self._left.clear()
                    await self._left.wait()
        except TimeoutError:
            for connection in tuple(self.connections):
                connection.abort()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                connected, _ = self._socket.accept()
            except BlockingIOError:
                await self._somebody_connects()
                continue
            except OSError as error:
                if error.errno != errno.ECONNABORTED:
                    log.warning("connection.accept_failed", errno=error.errno)
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue
            try:
                await loop.connect_accepted_socket(lambda: Connection(self._server, self), connected)
            except Exception as error:  # noqa: BLE001  # one connection that cannot be opened must not end them all
                connected.close()
                log.warning("connection.open_failed", error_type=type(error).__name__)

    async def _somebody_connects(self) -> None:
        """Wait for it without accepting: what is accepted by a wait that is then cancelled would be lost."""
        loop = asyncio.get_running_loop()
        connects = asyncio.Event()
        loop.add_reader(self._socket, connects.set)
        try:
            await connects.wait()
        finally:
            loop.remove_reader(self._socket)

    async def _make_room(self) -> None:
        while len(self.connections) >= self.limits.connections:
            oldest = self._longest_waiting()
            if oldest is not None:
                oldest.drop(_too_many(self.limits.connections))
                return
            self._left.clear()
            try:
                async with asyncio.timeout(self.limits.patience_seconds):
                    await self._left.wait()
            except TimeoutError:
                continue

    def _longest_waiting(self) -> Connection | None:
        latest = time.monotonic() - self.limits.patience_seconds
        waiting = [(c.waiting_since, id(c), c) for c in self.connections if c.waiting_since is not None]
        since, _, oldest = min(waiting, default=(latest, 0, None))
        return oldest if since <= latest else None


def _begin_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    assert isinstance(protocol, Connection)
    protocol.begin_request()
    return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())


def _too_many(limit: int) -> Unavailable:
    return Unavailable(
        f"There are more than {limit} connections, and this one waited longest without a complete request.",
        hint="Close connections that are not in use, then repeat the call.",
        retry_after_s=1.0,
    )


def _stopping() -> Unavailable:
    return Unavailable(
        "The daemon is stopping.",
        hint="Repeat the call once it is back: systemctl --user status dreamd",
        retry_after_s=1.0,
    )
