from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.calls import Caller
from daemon.rpc import Limits, RpcServer
from storage.errors import Invalid
from tests.daemon.serving import METHODS, FakeService, Running, Wire, serving, until
from tests.requirements import require

MIB = 2**20
SECRET = "hunter2-the-planted-secret"


@pytest.fixture(scope="module")
def shared():
    with serving() as running:
        yield running


@pytest.fixture
def running(shared: Running) -> Running:
    shared.service.calls.clear()
    shared.service.observed.clear()
    return shared


@pytest.fixture
def wire(running: Running):
    with Wire(running.path) as wire:
        yield wire


# What a request is


def test_a_method_takes_an_object_and_answers_one(wire: Wire, running: Running) -> None:
    answer = wire.post("echo", '{"text": "今天 🐿"}'.encode())

    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.body == '{"params":{"text":"今天 🐿"}}'.encode()
    assert running.service.observed == [("echo", "ok")]


@pytest.mark.parametrize("body", [b"", b" \r\n", b"{}"])
def test_no_body_means_no_params(wire: Wire, body: bytes) -> None:
    assert wire.post("echo", body).json == {"params": {}}


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain"])
def test_the_content_type_does_not_matter(wire: Wire, content_type: str) -> None:
    assert wire.post("echo", b'{"a":1}', Content_Type=content_type).json == {"params": {"a": 1}}


def test_chunked_bodies_are_read(wire: Wire) -> None:
    wire.send(
        b'POST /v1/echo HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n'
    )

    assert wire.read().json == {"params": {"a": 1}}


def test_a_client_that_waits_for_100_continue_gets_it_and_then_its_answer(wire: Wire) -> None:
    wire.send(b"POST /v1/echo HTTP/1.1\r\nHost:\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n")
    assert wire.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.send(b'{"a":1}')

    assert wire.read().json == {"params": {"a": 1}}


def test_the_caller_is_known_by_uid_pid_and_request_id(wire: Wire, running: Running) -> None:
    import os

    wire.post("echo", Idempotency_Key="k-1")

    assert running.service.calls == [("echo", {}, Caller(os.getuid(), os.getpid(), "k-1"))]


def test_many_requests_go_over_one_connection(wire: Wire) -> None:
    answers = [wire.post("echo", b'{"n":%d}' % n) for n in range(50)]

    assert [answer.json["params"]["n"] for answer in answers] == list(range(50))
    assert not any(answer.closes for answer in answers)


def test_pipelined_requests_are_answered_in_their_order(wire: Wire) -> None:
    wire.send(b"".join(b'POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: 7\r\n\r\n{"n":%d}' % n for n in range(5)))

    assert [wire.read().json["params"]["n"] for _ in range(5)] == list(range(5))


@pytest.mark.parametrize("body", [b"[]", b"3", b'"text"', b"null", b"true"])
def test_a_body_that_is_no_object_is_invalid(wire: Wire, running: Running, body: bytes) -> None:
    assert wire.post("echo", body).is_problem("invalid", 400)
    assert running.service.calls == []
    assert running.service.observed == [("echo", "invalid")]


@pytest.mark.parametrize(
    "body", [b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": \xff}', b'{"a": 1', b"\x00" * 9]
)
def test_a_body_that_is_no_json_is_invalid_and_the_connection_goes_on(wire: Wire, body: bytes) -> None:
    assert wire.post("echo", body).is_problem("invalid", 400)
    assert wire.post("echo", b'{"a":1}').json == {"params": {"a": 1}}


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_depth_bomb_is_invalid(wire: Wire, opening: bytes) -> None:
    assert wire.post("echo", b'{"a":' + opening * 100_000).is_problem("invalid", 400)


def test_params_in_the_query_string_are_not_ignored(wire: Wire) -> None:
    assert wire.ask("POST", "/v1/echo?k=5").is_problem("invalid", 400)


def test_a_compressed_body_is_refused_by_name(wire: Wire) -> None:
    answer = wire.post("echo", b"\x1f\x8b\x08", Content_Encoding="gzip")

    assert answer.is_problem("invalid", 400)
    assert "compressed" in answer.json["detail"]


@pytest.mark.parametrize("key", ["k" * 129, "a\tb"])
def test_an_idempotency_key_has_bounds(wire: Wire, running: Running, key: str) -> None:
    answer = wire.post("echo", Idempotency_Key=key)

    assert answer.is_problem("invalid", 400)
    assert answer.json["field"] == "request_id"
    assert running.service.calls == []


# What an answer is


def test_an_error_of_the_service_becomes_a_problem_with_its_extras(wire: Wire, running: Running) -> None:
    answer = wire.post("refuse")

    assert answer.is_problem("conflict", 409)
    assert answer.json["duplicate_of"] == "m1"
    assert running.service.observed == [("refuse", "conflict")]


def test_unavailable_says_when_to_come_back(wire: Wire) -> None:
    answer = wire.post("away")

    assert answer.is_problem("unavailable", 503)
    assert (answer.headers["Retry-After"], answer.json["retry_after_s"]) == ("3", 2.5)


def test_an_upgrade_is_not_taken_and_the_connection_goes_on(wire: Wire) -> None:
    for _ in range(2):
        assert wire.post("echo", b'{"a":1}', Connection="Upgrade", Upgrade="websocket").json == {"params": {"a": 1}}


def test_an_unknown_method_keeps_the_services_words_and_no_label_of_its_own(wire: Wire, running: Running) -> None:
    answer = wire.post("ecko")

    assert answer.is_problem("not_found", 404)
    assert answer.json["hint"] == "Did you mean echo?"
    assert running.service.observed == [("unknown", "not_found")]


def test_a_bug_is_answered_by_an_id_that_is_in_the_log_and_by_nothing_else(wire: Wire, running: Running) -> None:
    with capture_logs() as logs:
        answer = wire.post("bug", json.dumps({"secret": SECRET}).encode())

    assert answer.is_problem("internal", 500)
    assert logs[0]["event"] == "rpc.internal_error"
    assert (logs[0]["method"], logs[0]["error_id"]) == ("bug", answer.json["error_id"])
    assert logs[0]["error_type"] == "builtins.ValueError"
    assert "in call" in logs[0]["traceback"]
    assert SECRET not in repr(logs) + answer.body.decode()
    assert running.service.observed == [("bug", "internal")]


def test_a_result_that_is_no_json_is_a_bug_and_not_a_broken_answer(wire: Wire) -> None:
    with capture_logs():
        assert wire.post("nan").is_problem("internal", 500)


def test_a_lone_surrogate_comes_back_as_it_went(wire: Wire) -> None:
    assert wire.post("echo", b'{"a":"\\ud800"}').json == {"params": {"a": "\ud800"}}


def test_the_methods_and_the_openapi_document_can_be_read(wire: Wire) -> None:
    assert wire.ask("GET", "/v1").json == {"methods": [{"name": name} for name in METHODS]}
    assert wire.ask("GET", "/v1/openapi.json").json == {"openapi": "3.1.0"}


def test_metrics_are_negotiated(wire: Wire) -> None:
    plain, open_metrics = (
        wire.ask("GET", "/metrics"),
        wire.ask("GET", "/metrics", Accept="application/openmetrics-text"),
    )

    assert plain.body == b"dreamd_up 1\n"
    assert (plain.headers["Content-Type"], open_metrics.headers["Content-Type"]) == (
        "text/plain",
        "application/openmetrics-text",
    )


def test_only_readiness_turns_503(wire: Wire, running: Running) -> None:
    assert wire.ask("GET", "/readyz").json == {"status": "ready"}
    running.service.is_ready = (False, "the store is opening")
    try:
        assert wire.ask("GET", "/healthz").status == 200
        answer = wire.ask("GET", "/readyz")
    finally:
        running.service.is_ready = (True, "")

    assert answer.is_problem("unavailable", 503)
    assert "the store is opening" in answer.json["detail"]


@pytest.mark.parametrize(
    ("verb", "path", "kind", "status"),
    [
        ("GET", "/v1/echo", "invalid", 400),
        ("DELETE", "/v1/echo", "invalid", 400),
        ("POST", "/metrics", "invalid", 400),
        ("POST", "/v1/events", "invalid", 400),
        ("GET", "/v1/nothing", "not_found", 404),
        ("POST", "/v1/a/b", "not_found", 404),
        ("GET", "/", "not_found", 404),
        ("OPTIONS", "*", "not_found", 404),
    ],
)
def test_a_wrong_route_is_a_problem_too(wire: Wire, verb: str, path: str, kind: str, status: int) -> None:
    assert wire.ask(verb, path).is_problem(kind, status)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",  # without a Host
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n" + b"X: y\r\n" * 100 + b"\r\n",
        b"POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/echo HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
)
def test_what_is_not_http_is_a_problem_and_harms_nobody(running: Running, garbage: bytes) -> None:
    with Wire(running.path) as bad, Wire(running.path) as good:
        bad.send(garbage)

        assert bad.read().is_problem("invalid", 400)
        assert bad.is_closed()
        assert good.post("echo").status == 200


# Progress


def test_progress_comes_as_lines_and_the_result_last(wire: Wire, running: Running) -> None:
    answer = wire.post("count", b'{"to":3}', Accept="application/x-ndjson")

    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert answer.lines == [{"progress": {"done": n}} for n in range(3)] + [{"counted": 3}]
    assert running.service.observed == [("count", "ok")]
    assert wire.post("echo").status == 200


def test_without_being_asked_for_there_is_no_progress(wire: Wire) -> None:
    assert wire.post("count", b'{"to":3}').json == {"counted": 3}
    assert wire.post("echo", Accept="application/x-ndjson").headers["Content-Type"] == "application/json"


def test_an_error_after_the_first_line_is_the_last_line(wire: Wire) -> None:
    *progress, last = wire.post("count_then_fail", b'{"to":2}', Accept="application/x-ndjson").lines

    assert len(progress) == 2
    assert (last["kind"], last["status"], last["hint"]) == ("conflict", 409, "dreamctl jobs")


def test_an_error_before_the_first_line_keeps_its_status(wire: Wire) -> None:
    assert wire.post("count_then_fail", b'{"to":0}', Accept="application/x-ndjson").is_problem("conflict", 409)


def test_the_progress_of_a_slow_reader_is_thinned_and_the_result_never(wire: Wire) -> None:
    lines = wire.post("count", b'{"to":100000}', Accept="application/x-ndjson").lines

    assert lines[-1] == {"counted": 100_000}
    done = [line["progress"]["done"] for line in lines[:-1]]
    assert done == sorted(done)
    assert done[-1] == 99_999


# Events


def test_events_are_followed_from_where_the_client_left_off(running: Running) -> None:
    with Wire(running.path) as wire:
        wire.send(b"GET /v1/events?types=remembered,forgotten&scope=a HTTP/1.1\r\nHost:\r\nLast-Event-ID: 7\r\n\r\n")
        assert until(lambda: running.events.followers == 1)
        running.loop.call_soon_threadsafe(running.events.tell, {"id": "8", "type": "remembered"})
        received = b""
        while b"}" not in received:
            received += wire.socket.recv(1000)

        assert running.events.asked[-1] == (frozenset({"remembered", "forgotten"}), "a", "7")
        assert b'{"id":"8","type":"remembered"}\n' in received
    assert until(lambda: running.events.followers == 0)


def test_the_headers_of_events_come_before_the_first_event(running: Running) -> None:
    with Wire(running.path) as wire:
        wire.send(b"GET /v1/events HTTP/1.1\r\nHost:\r\n\r\n")

        assert wire.socket.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_a_wrong_type_of_event_is_a_problem(wire: Wire) -> None:
    assert wire.ask("GET", "/v1/events?types=nonsense").is_problem("invalid", 400)


def test_followers_are_limited_and_end_with_the_server() -> None:
    with serving(Limits(streams=1)) as running, Wire(running.path) as one, Wire(running.path) as two:
        one.send(b"GET /v1/events HTTP/1.1\r\nHost:\r\n\r\n")
        assert one.socket.recv(1000).startswith(b"HTTP/1.1 200 OK")

        assert two.ask("GET", "/v1/events").is_problem("unavailable", 503)

        running.stop(grace_seconds=20)
        assert one.socket.recv(1000) == b"0\r\n\r\n"


# Who may speak


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
    require(_is_root(), "needs root to speak as another user")
    running.path.parent.chmod(0o755)
    running.path.chmod(0o666)
    return subprocess.run([sys.executable, "-c", AS_NOBODY, running.path], capture_output=True, check=True).stdout


def _is_root() -> bool:
    import os

    return os.geteuid() == 0


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
    import grp

    with serving(allow_group=grp.getgrgid(65534).gr_name) as running:
        assert ask_as_nobody(running).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("group", ["root", "no-such-group"])
def test_row60_another_group_lets_nobody_in(group: str) -> None:
    with serving(allow_group=group) as running:
        assert ask_as_nobody(running).startswith(b"HTTP/1.1 403")


# TCP


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
        __import__("asyncio").run(start())


# Limits


@pytest.mark.parametrize("size", [70_000, MIB, 15 * MIB])
def test_row64_large_bodies_within_the_limit_are_served(wire: Wire, size: int) -> None:
    text = "x" * size

    assert wire.post("echo", json.dumps({"text": text}).encode()).json["params"]["text"] == text


def test_row64_a_body_of_exactly_the_limit_is_served_and_a_byte_more_is_not(wire: Wire) -> None:
    exact = b'{"t":"' + b"x" * (16 * MIB - 8) + b'"}'

    assert wire.post("echo", exact).status == 200
    assert wire.post("echo", exact + b" ").is_problem("too_large", 413)


@pytest.mark.parametrize("size", [17 * MIB, 60 * MIB])
def test_row64_a_larger_body_is_named_too_large_and_the_connection_stays_usable(
    wire: Wire, running: Running, size: int
) -> None:
    answer = wire.post("echo", b" " * size)

    assert answer.is_problem("too_large", 413)
    assert "16 MiB" in answer.json["detail"]
    assert not answer.closes
    assert wire.post("echo", b'{"a":1}').json == {"params": {"a": 1}}
    assert running.service.observed == [("echo", "too_large"), ("echo", "ok")]


def test_row64_a_body_beyond_64_mib_is_refused_by_its_length_and_the_connection_closed(wire: Wire) -> None:
    wire.send(b"POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: %d\r\n\r\n" % (65 * MIB))

    assert wire.read().is_problem("too_large", 413)
    assert wire.is_closed()


def test_row64_an_endless_body_is_cut_off(running: Running) -> None:
    chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
    with Wire(running.path) as wire:
        wire.send(b"POST /v1/echo HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(100):
                wire.send(chunk)
        assert wire.read().is_problem("too_large", 413)


def test_row64_large_answers_arrive_whole(wire: Wire) -> None:
    assert len(wire.post("big", b'{"bytes":200000}').json["text"]) == 200_000
    assert len(wire.post("big", b'{"bytes":20000000}').json["text"]) == 20_000_000


def test_row65_half_a_header_is_dropped_in_time_and_told_why() -> None:
    with serving(Limits(header_seconds=0.1)) as running, Wire(running.path) as half, Wire(running.path) as fresh:
        half.send(b"POS")

        assert half.read().is_problem("invalid", 400)
        assert half.is_closed()
        assert fresh.post("echo").status == 200


def test_row65_a_header_that_trickles_gains_no_time() -> None:
    with serving(Limits(header_seconds=0.2)) as running, Wire(running.path) as slow:
        slow.socket.settimeout(0.02)
        sent = 0
        with pytest.raises((ConnectionError, AssertionError)):
            while sent < 1000:
                slow.send(b"G" if not sent else b"E")
                sent += 1
                try:
                    assert not slow.socket.recv(10_000)
                except TimeoutError:
                    continue
        assert sent < 1000


def test_row65_half_a_body_is_dropped_in_time_and_told_why() -> None:
    with serving(Limits(body_seconds=0.1)) as running, Wire(running.path) as half:
        half.send(b'POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: 100\r\n\r\n{"a":')

        assert half.read().is_problem("invalid", 400)
        assert half.is_closed()
        assert running.service.observed == [("echo", "invalid")]


def test_row65_an_idle_connection_is_closed_without_a_word() -> None:
    with serving(Limits(idle_seconds=0.1)) as running, Wire(running.path) as used, Wire(running.path) as new:
        assert used.post("echo").status == 200

        assert used.is_closed()
        assert new.is_closed()


def test_row65_an_idle_limit_does_not_cut_a_long_call() -> None:
    with serving(Limits(idle_seconds=0.05, header_seconds=0.05)) as running, Wire(running.path) as wire:
        wire.send(b"POST /v1/hold HTTP/1.1\r\nHost:\r\n\r\n")
        with Wire(running.path) as idle:
            assert idle.is_closed()
        running.service.release.set()

        assert wire.read().json == {"held": True}


STOPPED = """
import os, signal, socket, sys
held = []
for _ in range(10):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    s.sendall(b'POST /v1/big HTTP/1.1\\r\\nHost: dreamd\\r\\nContent-Length: 17\\r\\n\\r\\n{"bytes":5000000}')
    held.append(s)
[s.recv(10) for s in held]
print(flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_row65_clients_that_are_stopped_mid_answer_stall_nobody_and_are_dropped() -> None:
    with serving(Limits(write_seconds=1.0)) as running, Wire(running.path) as other:
        stopped = subprocess.Popen([sys.executable, "-c", STOPPED, running.path], stdout=subprocess.PIPE)
        try:
            assert stopped.stdout is not None
            stopped.stdout.readline()

            assert all(other.post("echo").status == 200 for _ in range(50))
            assert until(lambda: running.server.connections == 1)
            assert other.post("echo").status == 200
        finally:
            stopped.kill()
            stopped.communicate()


def test_row65_a_reader_of_progress_that_stops_is_dropped_and_its_call_finished() -> None:
    with serving(Limits(write_seconds=0.2)) as running, Wire(running.path) as wire:
        head = b"POST /v1/count HTTP/1.1\r\nHost:\r\nAccept: application/x-ndjson\r\nContent-Length: 13\r\n\r\n"
        wire.send(head + b'{"to":100000}')

        assert until(lambda: running.server.connections == 0)
        assert until(lambda: running.service.observed == [("count", "ok")])


def test_row65_a_thousand_half_requests_keep_nobody_out() -> None:
    with serving() as running:
        flood = []
        try:
            for _ in range(1000):
                flood.append(Wire(running.path))
                flood[-1].send(b"POS")
                assert running.server.connections <= 256
            with Wire(running.path) as honest:
                assert honest.post("echo", b'{"a":1}').json == {"params": {"a": 1}}
                assert honest.post("echo", b'{"a":2}').json == {"params": {"a": 2}}
            assert running.server.connections <= 256
            told = flood[0].read()
            assert told.is_problem("unavailable", 503)
            assert "256 connections" in told.json["detail"]
        finally:
            for wire in flood:
                wire.socket.close()
        assert until(lambda: running.server.connections == 0)


def test_row65_a_thousand_honest_clients_at_once_are_all_served() -> None:
    with serving() as running:
        crowd = [Wire(running.path) for _ in range(200)]
        answers: list[int] = []

        def one_after_the_other() -> None:
            for _ in range(200):
                with Wire(running.path) as wire:
                    answers.append(wire.post("echo", b'{"a":1}').status)

        threads = [threading.Thread(target=one_after_the_other) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for wire in crowd:
            wire.socket.close()

        assert answers == [200] * 1000


def test_row65_more_requests_at_once_than_the_cap_wait_for_their_turn() -> None:
    with serving(Limits(connections=8)) as running:
        crowd = []
        for _ in range(40):
            crowd.append(Wire(running.path))
            crowd[-1].send(b"POST /v1/echo HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n")

        assert [wire.read().status for wire in crowd] == [200] * 40
        for wire in crowd:
            wire.socket.close()


def test_row65_at_the_cap_a_call_in_progress_is_never_dropped() -> None:
    with serving(Limits(connections=2, patience_seconds=0.01)) as running, Wire(running.path) as busy:
        busy.send(b"POST /v1/hold HTTP/1.1\r\nHost:\r\n\r\n")
        assert running.service.held.wait(10)
        for _ in range(20):
            with Wire(running.path) as other:
                assert other.post("echo").status == 200
        running.service.release.set()

        assert busy.read().json == {"held": True}


# Writes outlive their clients, and the server its requests


def test_a_call_is_finished_though_its_client_left() -> None:
    with serving() as running:
        with Wire(running.path) as wire:
            wire.send(b"POST /v1/hold HTTP/1.1\r\nHost:\r\n\r\n")
            assert running.service.held.wait(10)
        assert until(lambda: running.server.connections == 0)
        running.service.release.set()

        assert until(lambda: running.service.observed == [("hold", "ok")])
        assert running.service.finished == ["hold"]


def test_row68_three_tries_of_one_request_carry_one_request_id(running: Running) -> None:
    for _ in range(3):
        with Wire(running.path) as wire:
            assert wire.post("echo", b'{"a":1}', Idempotency_Key="once").status == 200

    assert [caller.request_id for _, _, caller in running.service.calls] == ["once"] * 3


def test_a_stop_ends_idle_connections_and_finishes_the_request_in_flight() -> None:
    with serving() as running, Wire(running.path) as busy, Wire(running.path) as idle:
        assert idle.post("echo").status == 200
        busy.send(b"POST /v1/hold HTTP/1.1\r\nHost:\r\n\r\n")
        assert running.service.held.wait(10)
        stopping = threading.Thread(target=running.stop, args=(20.0,))
        stopping.start()

        assert idle.is_closed()
        with pytest.raises(ConnectionError):
            Wire(running.path)
        running.service.release.set()
        answer = busy.read()
        stopping.join()

        assert answer.json == {"held": True}
        assert answer.closes


def test_a_stop_does_not_wait_beyond_its_grace_and_the_call_is_still_finished() -> None:
    with serving() as running, Wire(running.path) as busy:
        busy.send(b"POST /v1/hold HTTP/1.1\r\nHost:\r\n\r\n")
        assert running.service.held.wait(10)
        running.stop(0.05)

        assert busy.is_closed()
        assert running.service.finished == []
        running.service.release.set()
        assert until(lambda: running.service.finished == ["hold"])


def test_a_stop_tells_half_a_request_to_come_back() -> None:
    with serving() as running, Wire(running.path) as half:
        half.send(b"POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: 100\r\n\r\n{")
        assert until(lambda: running.server.connections == 1)
        running.stop(20)

        assert half.read().is_problem("unavailable", 503)


def test_curl_works_as_the_documentation_says(running: Running, tmp_path: Path) -> None:
    import shutil

    require(shutil.which("curl") is not None, "needs curl")
    big = tmp_path / "big.json"
    big.write_bytes(b'{"t":"' + b"x" * 3 * MIB + b'"}')
    base = ["curl", "-sS", "--unix-socket", str(running.path)]

    small = subprocess.run([*base, "http://dreamd/v1/echo", "-d", '{"a":1}'], capture_output=True, check=True)
    large = subprocess.run([*base, "http://dreamd/v1/echo", "-d", f"@{big}"], capture_output=True, check=True)

    assert json.loads(small.stdout) == {"params": {"a": 1}}
    assert len(json.loads(large.stdout)["params"]["t"]) == 3 * MIB
