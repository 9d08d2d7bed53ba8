from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.rpc import Caller
from tests.daemon.serving import METHODS, Running, Wire
from tests.requirements import require

SECRET = "hunter2-the-planted-secret"


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


def test_row68_three_tries_of_one_request_carry_one_request_id(running: Running) -> None:
    for _ in range(3):
        with Wire(running.path) as wire:
            assert wire.post("echo", b'{"a":1}', Idempotency_Key="once").status == 200

    assert [caller.request_id for _, _, caller in running.service.calls] == ["once"] * 3


def test_curl_works_as_the_documentation_says(running: Running, tmp_path: Path) -> None:
    require(shutil.which("curl") is not None, "needs curl")
    big = tmp_path / "big.json"
    big.write_bytes(b'{"t":"' + b"x" * 3_000_000 + b'"}')
    base = ["curl", "-sS", "--unix-socket", str(running.path)]

    small = subprocess.run([*base, "http://dreamd/v1/echo", "-d", '{"a":1}'], capture_output=True, check=True)
    large = subprocess.run([*base, "http://dreamd/v1/echo", "-d", f"@{big}"], capture_output=True, check=True)

    assert json.loads(small.stdout) == {"params": {"a": 1}}
    assert len(json.loads(large.stdout)["params"]["t"]) == 3_000_000
