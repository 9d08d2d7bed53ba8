"""The wire: HTTP/1.1 on the Unix socket, and metrics and health on loopback TCP.

`POST /v1/<method>` takes one JSON object and answers one; everything else is a GET. This file finds the route, reads
bodies within their limits and turns results and errors into answers. It knows no method: the `Service` does.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import MultiMapping

from daemon import problem
from daemon.admission import Peers, check_headers, request_id
from daemon.body import encode, parse_params
from daemon.calls import UNKNOWN, Caller, Calls, ProgressLines, Service
from daemon.connections import NDJSON, Limits, LineStream, Listener, connection_of
from daemon.sockets import BACKLOG, BoundSocket, bind_unix
from storage.errors import DreamdError, Invalid, NotFound, TooLarge, Unauthorized, Unavailable, command

__all__ = ["BoundSocket", "Caller", "EventSource", "Limits", "RpcServer", "Service", "bind_unix"]

_PREFIX: Final = "/v1/"
_SERVER: Final = {"Server": "dreamd"}
_LIST: Final = "GET /v1 lists the methods."

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class EventSource(Protocol):
    """Where events come from."""

    def follow(self, types: frozenset[str], scope: str, after: str) -> AsyncIterator[dict[str, Any]]:
        """Events as they happen, after the one with the id `after`; wrong arguments raise at once, not at the first."""


class RpcServer:
    """Serves one `Service` on any number of sockets.

    Allowed are the daemon's own uid, root, `allow_uids` and the members of `allow_group`. `new_id` makes the error ids.
    """

    def __init__(
        self,
        service: Service,
        *,
        new_id: Callable[[], str],
        allow_uids: frozenset[int] = frozenset(),
        allow_group: str = "",
        limits: Limits = Limits(),  # noqa: B008  # frozen
        events: EventSource | None = None,
    ) -> None:
        self._service = service
        self._calls = Calls(service, new_id)
        self._peers = Peers(allow_uids, allow_group)
        self._limits = limits
        self._events = events
        self._listeners: list[Listener] = []
        self._followers: set[asyncio.Task[None]] = set()
        self._stopping = False
        health: dict[str, _Handler] = {"/metrics": self._metrics, "/healthz": self._healthz, "/readyz": self._readyz}
        self._tcp_routes: Mapping[str, _Handler] = health
        self._unix_routes: Mapping[str, _Handler] = health | {
            "/v1": self._list_methods,
            "/v1/openapi.json": self._openapi,
            "/v1/events": self._follow_events,
        }

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return sum(len(listener.connections) for listener in self._listeners)

    async def start_unix(self, sock: socket.socket) -> None:
        """Serve everything on a bound Unix socket, ours or systemd's."""
        if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
            raise Invalid(
                "The socket passed to the daemon is not a Unix stream socket.",
                hint="Write ListenStream=/run/dreamd.sock in the socket unit.",
            )
        self._listen(sock, self._route_unix)

    async def start_tcp(self, host: str, port: int) -> int:
        """Serve metrics and health on TCP, and nothing else; the port in use comes back. A taken one is an OSError."""
        address = host.strip("[]")
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        own_host = f"[{address}]" if ":" in address else address
        sock = socket.create_server((address, port), family=family, backlog=BACKLOG)

        async def route(request: web.BaseRequest) -> web.StreamResponse:
            check_headers(request.headers, own_host)
            return await self._get(request, self._tcp_routes)

        self._listen(sock, route)
        chosen: int = sock.getsockname()[1]
        return chosen

    async def stop(self, grace_seconds: float) -> None:
        """Accept nobody any more, finish the requests in flight within the grace, then close every connection.

        A call that takes longer goes on without its client, until the loop ends.
        """
        self._stopping = True
        deadline = time.monotonic() + grace_seconds
        for follower in self._followers:
            follower.cancel()
        for listener in self._listeners:
            await listener.close()
        await self._calls.drain(grace_seconds)
        for listener in self._listeners:
            await listener.drain(max(0.0, deadline - time.monotonic()))
        self._listeners.clear()

    def _listen(self, sock: socket.socket, route: _Handler) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            return await self._answer(request, route)

        listener = Listener(sock, handle, self._explain, self._limits)
        listener.start()
        self._listeners.append(listener)

    async def _answer(self, request: web.BaseRequest, route: _Handler) -> web.StreamResponse:
        """Every answer passes here, so that whatever went wrong becomes a problem."""
        started = time.monotonic()
        try:
            response = await route(request)
        except ConnectionError:
            raise  # nobody is there to read an answer
        except Exception as error:  # noqa: BLE001  # a bug in one request must not end the others
            response = self._refuse(error, UNKNOWN, started)
            if request.writer.output_size > 0:
                raise ConnectionResetError("the answer broke off") from None
        if self._stopping or response.status == Unauthorized.status or not request.content.is_eof():
            response.force_close()
        return response

    def _explain(self, error: BaseException | None) -> web.Response:
        """The answer to what was not HTTP, or to a fault of the server's own."""
        if error is None or isinstance(error, HttpProcessingError):
            error = Invalid(
                "The request is not HTTP/1.1 as the daemon understands it.",
                hint="Use dreamctl, or curl --unix-socket PATH http://dreamd/v1; by hand, send Host: dreamd.",
            )
        return self._refuse(error, UNKNOWN, time.monotonic())

    def _refuse(self, error: BaseException, method: str, started: float) -> web.Response:
        known = self._calls.known(error, method)
        self._calls.count(method, known, time.monotonic() - started)
        return _problem(known)

    async def _route_unix(self, request: web.BaseRequest) -> web.StreamResponse:
        check_headers(request.headers)
        peer = connection_of(request).peer
        assert peer is not None
        await self._peers.check(peer)
        method = request.path.removeprefix(_PREFIX)
        if request.method != "POST" or method == request.path or "/" in method or request.path in self._unix_routes:
            return await self._get(request, self._unix_routes)
        started = time.monotonic()
        try:
            caller = Caller(peer.uid, peer.pid, request_id(request.headers))
            params = await self._read_params(request)
        except DreamdError as error:
            return self._refuse(error, method, started)
        connection_of(request).begin_answer()
        if NDJSON in request.headers.get("Accept", "").lower() and self._service.streams(method):
            return await self._stream(request, method, params, caller)
        outcome = await asyncio.shield(self._begin(request, method, params, caller))
        return _problem(outcome) if isinstance(outcome, DreamdError) else _json(outcome)

    def _begin(
        self, request: web.BaseRequest, method: str, params: dict[str, Any], caller: Caller,
        progress: ProgressLines | None = None,
    ) -> asyncio.Task[bytes | DreamdError]:  # fmt: skip
        """Start a call; one that is worth nothing without its client ends with the connection, every other is finished."""
        call = self._calls.begin(method, params, caller, progress)
        if self._service.leaves(method):
            connection_of(request).lost.add_done_callback(lambda _: call.cancel())
        return call

    async def _get(self, request: web.BaseRequest, routes: Mapping[str, _Handler]) -> web.StreamResponse:
        connection_of(request).begin_answer()
        verb, path = request.method[:16], request.path[:100]
        handler = routes.get(path)
        method = path.removeprefix(_PREFIX)
        if handler is None and routes is self._unix_routes and method in self._calls.names:
            how = f"{command(method, help=True)}, or curl --unix-socket PATH http://dreamd/v1/{method} -d '{{}}'"
            raise Invalid(f"{method} is a method: it takes POST, not {verb}.", hint=how)
        if handler is None:
            raise NotFound(f"There is nothing at {path}.", hint=_LIST)
        if verb not in ("GET", "HEAD"):
            raise Invalid(f"{path} takes GET, not {verb}.", hint=_LIST)
        return await handler(request)

    async def _read_params(self, request: web.BaseRequest) -> dict[str, Any]:
        if request.query_string:
            raise Invalid("Params do not belong in the query string.", hint="Send them as one JSON object in the body.")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Invalid("The body is compressed.", hint="Send it as it is: the socket is local.")
        seconds = self._limits.body_seconds
        try:
            async with asyncio.timeout(seconds):
                body = await self._read_body(request)
        except TimeoutError:
            raise Invalid(f"The body was not complete within {seconds:g} s.", hint="Send it at once.") from None
        except (HttpProcessingError, web.RequestPayloadError):
            raise Invalid("The body is not framed as its headers say.", hint="Send Content-Length.") from None
        return parse_params(body)

    async def _read_body(self, request: web.BaseRequest) -> bytes:
        limits = self._limits
        if (request.content_length or 0) > limits.discard_bytes:
            raise _too_large(limits)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # it is no part of the answer
        chunks: list[bytes] = []
        size = 0
        while size <= limits.discard_bytes and (chunk := await request.content.readany()):
            size += len(chunk)
            if size <= limits.body_bytes:
                chunks.append(chunk)
            else:
                chunks.clear()
        if size > limits.body_bytes:
            raise _too_large(limits)
        return b"".join(chunks)

    async def _stream(
        self, request: web.BaseRequest, method: str, params: dict[str, Any], caller: Caller
    ) -> web.StreamResponse:
        """Progress lines, then the result or the problem; an error before the first line keeps its status."""
        progress = ProgressLines()
        call = self._begin(request, method, params, caller, progress)
        call.add_done_callback(lambda _: progress.end())
        stream = LineStream(request, self._limits.write_seconds)
        async for line in progress:
            await stream.write(line)
        outcome = await asyncio.shield(call)
        if isinstance(outcome, DreamdError):
            if not stream.is_open:
                return _problem(outcome)
            outcome = encode(problem.document(outcome))
        await stream.write(outcome)
        return stream.response

    async def _follow_events(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._events is None:
            raise NotFound("This daemon tells no events.", hint=_LIST)
        if len(self._followers) >= self._limits.streams:
            many = f"{self._limits.streams} clients follow events already."
            raise Unavailable(many, hint="End one of them, then repeat.", retry_after_s=30.0)
        types, scope = _wanted_events(request.query)
        events = self._events.follow(types, scope, request.headers.get("Last-Event-ID", ""))
        stream = LineStream(request, self._limits.write_seconds)
        await stream.open()
        if request.method == "HEAD":
            return stream.response
        follower = asyncio.create_task(self._send_events(stream, events), name="rpc-events")
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        connection_of(request).lost.add_done_callback(lambda _: follower.cancel())
        await asyncio.wait({follower})
        return stream.response

    async def _send_events(self, stream: LineStream, events: AsyncIterator[dict[str, Any]]) -> None:
        try:
            async for event in events:
                await stream.write(encode(event))
        except ConnectionError:
            return
        except Exception as error:  # noqa: BLE001  # the stream is open: its last line tells
            await stream.write(encode(problem.document(self._calls.known(error))))

    async def _list_methods(self, _: web.BaseRequest) -> web.StreamResponse:
        return _json(encode({"methods": self._service.methods()}))

    async def _openapi(self, _: web.BaseRequest) -> web.StreamResponse:
        return _json(encode(self._service.openapi()))

    async def _metrics(self, request: web.BaseRequest) -> web.StreamResponse:
        body, content_type = await self._service.metrics(request.headers.get("Accept", ""))
        return web.Response(body=body, headers=_SERVER | {"Content-Type": content_type})

    async def _healthz(self, _: web.BaseRequest) -> web.StreamResponse:
        return _json(encode({"status": "ok"}))

    async def _readyz(self, _: web.BaseRequest) -> web.StreamResponse:
        is_ready, reason = self._service.ready()
        if not is_ready:
            raise Unavailable(f"The daemon is not ready: {reason}.", hint="dreamctl doctor")
        return _json(encode({"status": "ready"}))


def _wanted_events(query: MultiMapping[str]) -> tuple[frozenset[str], str]:
    """The types and the scope that a query names. Raises Invalid for a name it does not know."""
    for name in query:
        if name not in ("types", "scope"):
            hint = "It takes types=TYPE,TYPE and scope=SCOPE; the id to go on from is sent as Last-Event-ID."
            raise Invalid(f"Unknown param {name[:100]!r}.", hint=hint, field=name[:100])
    types = ",".join(query.getall("types", [])).split(",")
    return frozenset(word.strip() for word in types) - {""}, query.get("scope", "")


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, headers=_SERVER | {"Content-Type": "application/json"})


def _problem(error: DreamdError) -> web.Response:
    headers = _SERVER | {"Content-Type": problem.CONTENT_TYPE} | problem.headers(error)
    return web.Response(body=encode(problem.document(error)), status=error.status, headers=headers)


def _too_large(limits: Limits) -> TooLarge:
    return TooLarge(
        f"The body has more than {limits.body_bytes // 2**20} MiB.",
        hint="Send less in one call, such as fewer items of remember_many; dreamctl import reads files of any size.",
        limit_bytes=limits.body_bytes,
    )
