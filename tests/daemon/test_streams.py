from __future__ import annotations

from daemon.rpc import Limits
from tests.daemon.serving import Running, Wire, serving, until


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
