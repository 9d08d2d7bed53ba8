from __future__ import annotations

import asyncio
import grp
import os
import socket
import subprocess
import sys

import pytest

from daemon.rpc import RpcServer
from storage.errors import Invalid
from tests.daemon.serving import FakeService, Running, Wire, serving
from tests.requirements import require


@pytest.mark.parametrize("host", ["dreamd", "localhost", "LOCALHOST", "127.0.0.1", "[::1]", "localhost:80", "[::1]:80"])
def test_local_hosts_are_accepted(wire: Wire, host: str) -> None:
    assert wire.post("echo", Host=host).status == 200


@pytest.mark.parametrize("head", [b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n"])
def test_no_host_is_accepted_too(wire: Wire, head: bytes) -> None:
    wire.send(head)

    assert wire.read().status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "dreamd@evil.example"},
        {"Origin": "http://localhost"},
        {"Origin": "null"},
        {"Referer": "http://localhost/"},
    ],
)
@pytest.mark.parametrize("path", ["/v1/echo", "/metrics"])
def test_what_a_browser_sends_is_refused_and_counted(running: Running, headers: dict[str, str], path: str) -> None:
    with Wire(running.path) as wire:
        assert wire.ask("POST" if "v1" in path else "GET", path, **headers).is_problem("unauthorized", 403)
        assert wire.is_closed()
    assert running.service.calls == []
    assert running.service.observed == [("unknown", "unauthorized")]


AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(b'POST /v1/echo HTTP/1.1\\r\\nHost: dreamd\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\n{}')
while part := s.recv(65536): sys.stdout.buffer.write(part)
"""


def ask_as_nobody(running: Running) -> bytes:
    require(os.geteuid() == 0, "needs root to speak as another user")
    running.path.parent.chmod(0o755)
    running.path.chmod(0o666)
    return subprocess.run([sys.executable, "-c", AS_NOBODY, running.path], capture_output=True, check=True).stdout


def test_row60_another_uid_is_refused_and_counted_even_where_the_files_let_it_in() -> None:
    with serving() as running:
        answer = ask_as_nobody(running)

        assert answer.startswith(b"HTTP/1.1 403")
        assert b'"kind":"unauthorized"' in answer
        assert running.service.calls == []
        assert running.service.observed == [("unknown", "unauthorized")]


def test_row60_an_allowed_uid_is_served() -> None:
    with serving(allow_uids=frozenset({65534})) as running:
        assert ask_as_nobody(running).startswith(b"HTTP/1.1 200")
        assert running.service.calls[0][2].uid == 65534


def test_row60_a_member_of_the_allowed_group_is_served() -> None:
    with serving(allow_group=grp.getgrgid(65534).gr_name) as running:
        assert ask_as_nobody(running).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("group", ["root", "no-such-group"])
def test_row60_another_group_lets_nobody_in(group: str) -> None:
    with serving(allow_group=group) as running:
        assert ask_as_nobody(running).startswith(b"HTTP/1.1 403")


def test_tcp_serves_metrics_and_health_and_nothing_else(running: Running) -> None:
    port = running.run(running.server.start_tcp("127.0.0.1", 0))
    with Wire(("127.0.0.1", port)) as wire:
        assert wire.ask("GET", "/metrics", Host=f"127.0.0.1:{port}").body == b"dreamd_up 1\n"
        assert wire.ask("GET", "/healthz").status == 200
        assert wire.ask("GET", "/readyz").status == 200
        assert wire.ask("GET", "/v1").is_problem("not_found", 404)
        assert wire.post("echo").is_problem("not_found", 404)
        assert wire.ask("GET", "/metrics", Host="rebound.example").is_problem("unauthorized", 403)
    assert running.service.calls == []


def test_tcp_accepts_the_host_it_was_configured_with(running: Running) -> None:
    port = running.run(running.server.start_tcp("127.0.0.2", 0))
    with Wire(("127.0.0.2", port)) as wire:
        assert wire.ask("GET", "/healthz", Host=f"127.0.0.2:{port}").status == 200


def test_a_taken_port_is_an_os_error_and_the_socket_goes_on(running: Running) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        running.run(running.server.start_tcp("127.0.0.1", taken.getsockname()[1]))
    with Wire(running.path) as wire:
        assert wire.post("echo").status == 200


def test_a_socket_of_another_kind_is_refused() -> None:
    async def start() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wrong:
            await RpcServer(FakeService(), new_id=str).start_unix(wrong)

    with pytest.raises(Invalid):
        asyncio.run(start())
