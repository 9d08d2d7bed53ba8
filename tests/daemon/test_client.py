from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daemon.client import CallError, Client, NotRunning, socket_path
from daemon.rpc import Limits
from tests.daemon.serving import PATIENCE, Running, serving, short_folder, until
from tests.requirements import require

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def client(running: Running) -> Iterator[Client]:
    with Client(running.path) as client:
        yield client


def test_a_call_gives_the_result(client: Client) -> None:
    params = {"text": "今天 \ud800", "list": [1, None, 2.5], "method": "a param may have this name"}

    assert client.call("echo", **params) == {"params": params}


def test_many_calls_share_one_connection(client: Client, running: Running) -> None:
    for n in range(20):
        client.call("echo", n=n)

    assert running.server.connections == 1
    assert len(running.service.calls) == 20


def test_a_request_id_goes_out_as_the_idempotency_key(client: Client, running: Running) -> None:
    client.call("echo", a=1, request_id="once")

    assert running.service.calls[0][1] == {"a": 1}
    assert running.service.calls[0][2].request_id == "once"


def test_a_problem_is_raised_with_all_that_it_says(client: Client) -> None:
    with pytest.raises(CallError) as caught:
        client.call("refuse")

    error = caught.value
    assert (error.kind, error.detail, error.hint, error.status) == (
        "conflict",
        "Someone was faster.",
        "dreamctl get m1",
        409,
    )
    assert error.body["duplicate_of"] == "m1"
    assert str(error) == "Someone was faster."
    assert client.call("echo") == {"params": {}}


def test_a_get_gives_the_bytes_and_raises_what_is_no_200(client: Client) -> None:
    assert client.get("/metrics") == b"dreamd_up 1\n"
    with pytest.raises(CallError) as caught:
        client.get("/nothing")

    assert caught.value.kind == "not_found"


def test_a_large_answer_and_a_large_request_pass(client: Client) -> None:
    assert len(client.call("big", bytes=5_000_000)["text"]) == 5_000_000
    assert len(client.call("echo", text="x" * 5_000_000)["params"]["text"]) == 5_000_000


@pytest.mark.parametrize("mebibytes", [17, 70])
def test_a_request_over_the_limit_is_told_so_even_where_the_daemon_stopped_reading(
    client: Client, mebibytes: int
) -> None:
    with pytest.raises(CallError) as caught:
        client.call("echo", text="x" * mebibytes * 2**20)

    assert caught.value.kind == "too_large"
    assert client.call("echo") == {"params": {}}


def test_a_call_that_takes_too_long_is_given_up_and_its_answer_never_taken_for_anothers() -> None:
    with serving() as running, Client(running.path, timeout=0.1) as client:
        with pytest.raises(CallError, match=r"No answer within 0\.1 s") as caught:
            client.call("hold")
        running.service.release.set()

        assert caught.value.kind == "unavailable"
        assert client.call("echo") == {"params": {}}


def test_a_stream_gives_progress_and_then_the_result(client: Client) -> None:
    assert list(client.stream("count", to=3)) == [{"progress": {"done": n}} for n in range(3)] + [{"counted": 3}]


def test_a_stream_of_a_short_method_gives_the_result_alone(client: Client) -> None:
    assert list(client.stream("echo")) == [{"params": {}}]


@pytest.mark.parametrize("to", [0, 2])
def test_a_stream_raises_the_problem_it_ends_with(client: Client, to: int) -> None:
    items = []
    with pytest.raises(CallError) as caught:
        items.extend(client.stream("count_then_fail", to=to))

    assert (caught.value.kind, caught.value.hint) == ("conflict", "dreamctl jobs")


def test_a_stream_waits_longer_than_the_time_out_of_a_call() -> None:
    with serving() as running, Client(running.path, timeout=0.1) as client:

        def release_after_another_timed_out() -> None:
            running.service.held.wait(PATIENCE)
            with Client(running.path, timeout=0.2) as other, pytest.raises(CallError):
                other.call("hold")
            running.service.release.set()

        thread = threading.Thread(target=release_after_another_timed_out)
        thread.start()

        assert list(client.stream("hold")) == [{"held": True}]
        thread.join()


def test_a_stream_that_is_left_leaves_no_connection_and_other_calls_alone() -> None:
    with serving() as running, Client(running.path) as client:
        stream = client.stream("count", to=100)
        next(stream)
        assert client.call("echo") == {"params": {}}
        stream.close()

        assert until(lambda: running.server.connections == 1)


def test_events_are_followed() -> None:
    with serving() as running, Client(running.path) as client:
        events = client.events(types="remembered", scope="a/b", after="7")
        received: list[dict[str, object]] = []
        reader = threading.Thread(target=lambda: received.append(next(events)))
        reader.start()
        assert until(lambda: running.events.followers == 1)
        running.loop.call_soon_threadsafe(running.events.tell, {"id": "8"})
        reader.join()
        events.close()

        assert received == [{"id": "8"}]
        assert running.events.asked == [(frozenset({"remembered"}), "a/b", "7")]
        assert until(lambda: running.events.followers == 0)


@pytest.mark.parametrize("place", ["missing", "missing/folder/s", "file", "dead"])
def test_where_nobody_listens_the_error_says_how_to_start_it(place: str) -> None:
    with short_folder() as folder:
        (folder / "file").write_text("")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(folder / "dead"))
        with pytest.raises(NotRunning) as caught:
            Client(folder / place).call("echo")

    assert str(folder / place) in caught.value.detail
    assert "Start it in another terminal: dreamd" in caught.value.hint


def test_a_path_that_is_too_long_is_an_error_of_ours() -> None:
    with pytest.raises(CallError) as caught:
        Client("/tmp/" + "s" * 200).call("echo")

    assert caught.value.kind == "invalid"


AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[2])
from daemon.client import CallError, Client
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    Client(sys.argv[1]).call("echo")
except CallError as error:
    print(error.kind)
"""


def test_a_socket_of_another_user_is_unauthorized(running: Running) -> None:
    require(os.geteuid() == 0, "needs root to speak as another user")

    told = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, running.path, ROOT], capture_output=True, check=True, text=True
    )

    assert told.stdout == "unauthorized\n"


def test_a_connection_that_the_daemon_closed_while_idle_is_replaced_unseen() -> None:
    with serving(Limits(idle_seconds=0.05)) as running, Client(running.path) as client:
        client.call("echo", n=1)
        assert until(lambda: running.server.connections == 0)
        client.call("echo", n=2)

        assert [params["n"] for _, params, _ in running.service.calls] == [1, 2]


class Scripted:
    """A daemon that does one thing a connection, in order; it keeps the heads of the requests that it read."""

    def __init__(self, path: Path, *acts: Callable[[Scripted, socket.socket], None]) -> None:
        self.heads: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._listener.settimeout(PATIENCE)
        self._acts = acts
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        for act in self._acts:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                act(self, connection)
        self._listener.close()

    def read_request(self, connection: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(65536)
        head, _, body = received.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
        )
        while len(body) < length:
            body += connection.recv(65536)
        self.heads.append(head)

    def answer(self, connection: socket.socket) -> None:
        self.read_request(connection)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}')

    def answer_for_the_last_time(self, connection: socket.socket) -> None:
        self.read_request(connection)
        connection.sendall(b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 11\r\n\r\n{"ok":true}')

    def read_and_die(self, connection: socket.socket) -> None:
        self.read_request(connection)

    def die_before_reading(self, connection: socket.socket) -> None:
        connection.recv(1)

    def die_in_the_answer(self, connection: socket.socket) -> None:
        self.read_request(connection)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok"')

    def die_in_the_stream(self, connection: socket.socket) -> None:
        self.read_request(connection)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b'10\r\n{"progress":{}}\n\r\n')

    def answer_a_page(self, connection: socket.socket) -> None:
        self.read_request(connection)
        connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>")

    def answer_nonsense(self, connection: socket.socket) -> None:
        self.read_request(connection)
        connection.sendall(b"220 mail.example ESMTP\r\n")


@contextmanager
def scripted(*acts: Callable[[Scripted, socket.socket], None]) -> Iterator[tuple[Client, Scripted]]:
    with short_folder() as folder:
        daemon = Scripted(folder / "s", *acts)
        with Client(folder / "s") as client:
            yield client, daemon
            client.close()
            daemon.thread.join(PATIENCE)
            assert not daemon.thread.is_alive(), "fewer connections than scripted"


def test_a_call_the_daemon_may_have_done_is_not_repeated() -> None:
    with scripted(Scripted.read_and_die) as (client, daemon):
        with pytest.raises(CallError, match="whether it did the work is unknown") as caught:
            client.call("remember", content="x")

        assert caught.value.kind == "unavailable"
    assert len(daemon.heads) == 1


def test_row68_a_call_with_a_request_id_is_repeated_once_with_the_same_one() -> None:
    with scripted(Scripted.read_and_die, Scripted.answer) as (client, daemon):
        assert client.call("remember", content="x", request_id="once") == {"ok": True}

    assert [b"Idempotency-Key: once" in head for head in daemon.heads] == [True, True]


def test_a_call_with_a_request_id_is_not_repeated_for_ever() -> None:
    with (
        scripted(Scripted.read_and_die, Scripted.read_and_die) as (client, daemon),
        pytest.raises(CallError, match="unknown"),
    ):
        client.call("remember", content="x", request_id="once")

    assert len(daemon.heads) == 2


def test_a_get_is_repeated_once() -> None:
    with scripted(Scripted.read_and_die, Scripted.answer) as (client, daemon):
        assert client.get("/metrics") == b'{"ok":true}'

    assert len(daemon.heads) == 2


def test_a_call_that_the_daemon_never_read_to_its_end_is_repeated() -> None:
    with scripted(Scripted.die_before_reading, Scripted.answer) as (client, daemon):
        assert client.call("remember", content="x" * 1_000_000) == {"ok": True}

    assert len(daemon.heads) == 1


def test_a_daemon_that_ends_the_connection_with_its_answer_and_leaves_is_not_running() -> None:
    with scripted(Scripted.answer_for_the_last_time) as (client, daemon):
        assert client.call("health") == {"ok": True}
        daemon.thread.join(PATIENCE)
        with pytest.raises(NotRunning):
            client.call("health")


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_an_answer_that_breaks_off_is_an_error(size: int) -> None:
    with scripted(Scripted.die_in_the_answer) as (client, _), pytest.raises(CallError, match="unknown"):
        client.call("remember", content="x" * size)


def test_a_stream_that_breaks_off_is_an_error_and_no_result() -> None:
    items = []
    with scripted(Scripted.die_in_the_stream) as (client, _), pytest.raises(CallError, match="unknown"):
        items.extend(client.stream("run_job", name="night"))

    assert items == [] or items == [{"progress": {}}]


@pytest.mark.parametrize("act", [Scripted.answer_a_page, Scripted.answer_nonsense])
def test_somebody_else_on_the_socket_is_told_from_a_daemon(act: Callable[[Scripted, socket.socket], None]) -> None:
    with scripted(act) as (client, _), pytest.raises(CallError) as caught:
        client.call("health")

    assert caught.value.kind in ("internal", "unavailable")
    assert caught.value.hint


FULL = {
    "DREAMD_SOCKET": "/named",
    "RUNTIME_DIRECTORY": "/run/one:/run/two",
    "XDG_RUNTIME_DIR": "/run/user/7",
    "DREAMD_STATE_DIR": "/state",
    "STATE_DIRECTORY": "/var/lib/dreamd:/other",
    "HOME": "/people/ada",
}


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in FULL.items() if name not in names}


@pytest.mark.parametrize(
    ("environ", "explicit", "expected"),
    [
        (FULL, "/flag", "/flag"),
        (FULL, None, "/named"),
        (without("DREAMD_SOCKET"), None, "/run/one/dreamd.sock"),
        (without("DREAMD_SOCKET", "RUNTIME_DIRECTORY"), None, "/run/user/7/dreamd/dreamd.sock"),
        ({"DREAMD_STATE_DIR": "/state", "STATE_DIRECTORY": "/s", "HOME": "/h"}, None, "/state/dreamd.sock"),
        ({"STATE_DIRECTORY": "/var/lib/dreamd:/o", "HOME": "/h"}, None, "/var/lib/dreamd/dreamd.sock"),
        ({"HOME": "/people/ada"}, None, "/people/ada/.local/state/dreamd/dreamd.sock"),
    ],
)
def test_the_socket_is_sought_in_the_order_of_the_daemon(
    environ: dict[str, str], explicit: str | None, expected: str
) -> None:
    assert socket_path(environ, explicit, exists=lambda _: False) == Path(expected)
    assert socket_path(environ, explicit, exists=lambda _: True) == Path(expected)


def test_the_first_place_that_has_a_socket_wins_and_the_system_one_is_the_last() -> None:
    environ = without("DREAMD_SOCKET")

    assert socket_path(environ, exists={"/state/dreamd.sock"}.__contains__) == Path("/state/dreamd.sock")
    assert socket_path(environ, exists={"/run/dreamd.sock"}.__contains__) == Path("/run/dreamd.sock")


def test_a_named_socket_is_taken_whether_it_is_there_or_not() -> None:
    assert socket_path(FULL, exists={"/run/dreamd.sock"}.__contains__) == Path("/named")


def test_importing_the_client_loads_nothing_heavy() -> None:
    script = "import sys; import daemon.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True, text=True)

    assert not {"numpy", "pydantic", "aiohttp", "asyncio", "structlog", "storage"} & set(loaded.stdout.split())
