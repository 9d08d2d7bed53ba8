"""The Python client: a blocking one, over the socket, from the standard library alone.

    with Client(socket_path(os.environ)) as dreamd:
        dreamd.call("remember", content="Ada is allergic to nuts")

One `Client` keeps one connection and belongs to one thread. Where the connection breaks, as after an idle time or a
restart of the daemon, the call is repeated, once, on a new one, but only if that cannot do its work twice: the daemon did
not read the request to its end, or the request is a GET or carries a `request_id`. Otherwise the error says that the
outcome is unknown.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

_SYSTEM_SOCKET = "/run/dreamd.sock"
_NDJSON = "application/x-ndjson"


class CallError(Exception):
    """A call that was refused or failed: the problem's `kind`, `detail`, `hint`, `status` (0 = none) and `body`."""

    def __init__(self, kind: str, detail: str, hint: str, status: int = 0, body: dict[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.hint = hint
        self.status = status
        self.body = body or {}


class NotRunning(CallError):  # it is a state of the daemon, and dreamctl's exit code 3
    """Nobody listens on the socket."""

    def __init__(self, path: Path) -> None:
        detail = f"dreamd is not running: nobody listens on {path}."
        super().__init__("not_running", detail, "Start it in another terminal: dreamd")


def socket_path(
    environ: Mapping[str, str], explicit: str | None = None, *, exists: Callable[[str], bool] = os.path.exists
) -> Path:
    """Where the daemon listens: as named by `--socket` or $DREAMD_SOCKET, else the first usual place that has a socket.

    Where none has, the first usual place, so that an error names what the daemon would open.
    """
    if named := explicit or environ.get("DREAMD_SOCKET"):
        return Path(named)
    places = []
    if runtime := environ.get("RUNTIME_DIRECTORY"):
        places.append(f"{runtime.split(':')[0]}/dreamd.sock")
    if session := environ.get("XDG_RUNTIME_DIR"):
        places.append(f"{session}/dreamd/dreamd.sock")
    places += [f"{_state_folder(environ)}/dreamd.sock", _SYSTEM_SOCKET]
    return Path(next(filter(exists, places), places[0]))


class Client:
    """Calls the daemon's methods; `timeout` bounds each wait for an answer, in seconds, None waits for ever."""

    def __init__(self, socket_path: Path | str, timeout: float | None = 60.0) -> None:
        self.path = Path(socket_path)
        self.timeout = timeout
        self._connection: _UnixConnection | None = None

    def call(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The method's result; `request_id` goes out as Idempotency-Key. Errors: CallError, NotRunning among them."""
        headers, body, repeatable = _prepare(params)
        response, answer = self._exchange("POST", f"/v1/{method}", body, headers, repeatable=repeatable)
        return _object(response, answer)

    def stream(self, method: str, /, **params: Any) -> Iterator[dict[str, Any]]:
        """`{"progress": ...}` objects of a long call as they come, then its result, however long the call takes."""
        headers, body, _ = _prepare(params)
        return self._lines("POST", f"/v1/{method}", body, headers | {"Accept": _NDJSON}, endless=False)

    def events(self, types: str = "", scope: str = "", after: str = "") -> Iterator[dict[str, Any]]:
        """The daemon's events, for ever; `types` is a list with commas, `after` the id of the last one seen."""
        query = urlencode({name: value for name, value in (("types", types), ("scope", scope)) if value})
        headers = {"Last-Event-ID": after} if after else {}
        return self._lines("GET", f"/v1/events?{query}", None, headers, endless=True)

    def get(self, path: str) -> bytes:
        """The body at a path such as `/metrics` or `/v1/openapi.json`."""
        response, answer = self._exchange("GET", path, None, {}, repeatable=True)
        if response.status != http.client.OK:
            raise _error(response.status, answer)
        return answer

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _exchange(
        self, verb: str, path: str, body: bytes | None, headers: dict[str, str], *, repeatable: bool
    ) -> tuple[http.client.HTTPResponse, bytes]:
        try:
            return self._try(verb, path, body, headers)
        except _Broken as broken:
            if not (broken.unread or repeatable):
                raise _unknown_outcome() from broken
        try:
            return self._try(verb, path, body, headers)
        except _Broken as broken:
            raise _unknown_outcome() from broken

    def _try(
        self, verb: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = _connect(self.path, self.timeout)
        try:
            response = _ask(self._connection, verb, path, body, headers)
            answer = response.read()
        except TimeoutError:
            self.close()
            raise _too_slow(self.timeout) from None
        except http.client.HTTPException as error:
            self.close()
            raise _Broken(unread=False) from error
        except BaseException:
            self.close()
            raise
        if response.will_close:
            self.close()
        return response, answer

    def _lines(
        self, verb: str, path: str, body: bytes | None, headers: dict[str, str], *, endless: bool
    ) -> Iterator[dict[str, Any]]:
        connection = _connect(self.path, self.timeout)
        try:
            connection.set_timeout(None)
            response = _ask(connection, verb, path, body, headers)
            if response.headers.get_content_type() != _NDJSON:
                yield _object(response, response.read())
                return
            ended = False
            for line in response:
                item = _object(response, line)
                ended = not endless and item.keys() != {"progress"}
                yield item
        except (_Broken, http.client.HTTPException, ConnectionError) as error:
            raise _unknown_outcome() from error
        finally:
            connection.close()
        if not (ended or endless):
            raise _unknown_outcome()


class _Broken(Exception):  # it never leaves this file
    """The connection broke before an answer; `unread` says that the daemon cannot have acted on the request."""

    def __init__(self, *, unread: bool) -> None:
        super().__init__()
        self.unread = unread


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("dreamd", timeout=timeout)
        self._path = path
        self.connect()

    def connect(self) -> None:
        """Connect to the socket's path instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.set_timeout(self.timeout)
            self.sock.connect(os.fspath(self._path))
        except BaseException:
            self.close()
            raise

    def set_timeout(self, seconds: float | None) -> None:
        """Bound every wait from now on."""
        self.sock.settimeout(seconds)


def _connect(path: Path, timeout: float | None) -> _UnixConnection:
    try:
        return _UnixConnection(path, timeout)
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        raise NotRunning(path) from None
    except PermissionError:
        hint = "Run it as the daemon's user, or join the group that [rpc] allow_group names."
        raise CallError("unauthorized", f"You may not use the socket {path}.", hint) from None
    except TimeoutError:
        raise _too_slow(timeout) from None
    except OSError as error:
        hint = "Name the daemon's socket with --socket or $DREAMD_SOCKET."
        raise CallError("invalid", f"Cannot connect to {path}: {error.strerror or error}.", hint) from None


def _ask(
    connection: _UnixConnection, verb: str, path: str, body: bytes | None, headers: dict[str, str]
) -> http.client.HTTPResponse:
    """Send a request and read the answer's head; an answer that came before the request was sent whole counts too."""
    sent = False
    try:
        connection.request(verb, path, body, headers)
        sent = True
    except ConnectionError:
        pass  # it may have refused the request without reading it: then the answer is there
    try:
        return connection.getresponse()
    except http.client.RemoteDisconnected as error:
        raise _Broken(unread=not sent) from error
    except ConnectionResetError as error:
        raise _Broken(unread=True) from error  # a Unix socket says so where part of the request was left unread
    except ConnectionError as error:
        raise _Broken(unread=not sent) from error


def _prepare(params: dict[str, Any]) -> tuple[dict[str, str], bytes, bool]:
    given = dict(params)
    request_id = given.pop("request_id", None)
    text = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    headers = {} if request_id is None else {"Idempotency-Key": str(request_id)}
    return headers, text.encode("utf-8", "backslashreplace"), request_id is not None


def _object(response: http.client.HTTPResponse, answer: bytes) -> dict[str, Any]:
    """The object that was answered; a problem, as an answer or as the last line of a stream, is raised."""
    if response.status != http.client.OK:
        raise _error(response.status, answer)
    try:
        value = json.loads(answer)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _error(response.status, answer)
    if str(value.get("type", "")).startswith("urn:dreamd:problem:"):
        raise _error(int(value["status"]), answer)
    return value


def _error(status: int, answer: bytes) -> CallError:
    try:
        body = json.loads(answer)
        return CallError(body["kind"], body["detail"], body["hint"], status, body)
    except (ValueError, KeyError, TypeError):
        detail = f"The answer (status {status}) is not one of dreamd's."
        return CallError("internal", detail, "Check what listens on the socket: dreamctl doctor", status)


def _unknown_outcome() -> CallError:
    return CallError(
        "unavailable",
        "The daemon closed the connection before it answered; whether it did the work is unknown.",
        "See whether it runs with dreamctl health, then look before you repeat; with a request_id a repeat is safe.",
    )


def _too_slow(timeout: float | None) -> CallError:
    return CallError(
        "unavailable",
        f"No answer within {timeout or 0:g} s; the daemon may still be at work.",
        "Wait longer with a larger time-out, or see what it does with dreamctl jobs.",
    )


def _state_folder(environ: Mapping[str, str]) -> str:
    if named := environ.get("DREAMD_STATE_DIR") or environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return named
    return f"{environ.get('HOME', '')}/.local/state/dreamd"
