from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from daemon.rpc import Limits
from tests.daemon.serving import PATIENCE, Running, Wire, serving, until

MIB = 2**20


@pytest.mark.parametrize("size", [70_000, MIB, 15 * MIB])
def test_row64_large_bodies_within_the_limit_are_served(wire: Wire, size: int) -> None:
    text = "x" * size

    assert wire.post("echo", json.dumps({"text": text}).encode()).json["params"]["text"] == text


def test_row64_a_body_of_exactly_the_limit_is_served_and_a_byte_more_is_not(wire: Wire) -> None:
    exact = b'{"t":"' + b"x" * (16 * MIB - 8) + b'"}'

    assert len(wire.post("echo", exact).json["params"]["t"]) == 16 * MIB - 8
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
            wire.send(chunk * 100)
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
        while not slow.has_been_answered() and sent < 1000:
            slow.send(b"a" if sent else b"GET / HTTP/1.1\r\nX: ")
            sent += 1

        assert 1 < sent < 1000
        assert "headers" in slow.read().json["detail"]


def test_row65_half_a_body_is_dropped_in_time_and_told_why() -> None:
    with serving(Limits(body_seconds=0.1)) as running, Wire(running.path) as half:
        half.send(b'POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: 100\r\n\r\n{"a":')

        assert half.read().is_problem("invalid", 400)
        assert half.is_closed()
        assert running.service.observed == [("echo", "invalid")]


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_bug() -> None:
    with serving() as running, capture_logs() as logs:
        with Wire(running.path) as wire:
            wire.send(b"POST /v1/echo HTTP/1.1\r\nHost:\r\nContent-Length: 100\r\n\r\n{")
            assert until(lambda: running.server.connections == 1)
        assert until(lambda: running.server.connections == 0)
        with Wire(running.path) as other:
            assert other.post("echo").status == 200

        assert logs == []
        assert running.service.observed == [("echo", "ok")]


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


@pytest.mark.parametrize("size", [225_000, 250_000, 275_000])
def test_row65_the_last_bytes_of_an_answer_count_as_unread_too(size: int) -> None:
    """They lie in the process, where the kernel's buffer is full; an idle connection is closed, and would wait for them."""
    with serving(Limits(write_seconds=0.1, idle_seconds=0.1)) as running, Wire(running.path) as wire:
        wire.send(b"POST /v1/big HTTP/1.1\r\nHost:\r\nContent-Length: 16\r\n\r\n" + b'{"bytes":%d}' % size)

        assert until(lambda: running.service.observed == [("big", "ok")])
        assert until(lambda: running.server.connections == 0)


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
        others = [Wire(running.path) for _ in range(20)]
        assert [other.post("echo").status for other in others] == [200] * 20
        assert running.server.connections <= 2
        running.service.release.set()

        assert busy.read().json == {"held": True}
        for other in others:
            other.socket.close()


def test_row65_at_the_cap_a_client_that_does_not_read_makes_room_and_keeps_no_memory() -> None:
    with serving(Limits(connections=2, patience_seconds=1.0)) as running:
        stalled = [Wire(running.path) for _ in range(2)]
        for wire in stalled:
            wire.send(b"POST /v1/big HTTP/1.1\r\nHost:\r\nContent-Length: 17\r\n\r\n" + b'{"bytes":5000000}')
        with Wire(running.path) as other:
            assert other.post("echo").status == 200

        received = 0
        with suppress(ConnectionError):
            while chunk := stalled[0].socket.recv(65536):
                received += len(chunk)
        assert 0 < received < 5_000_000
        for wire in stalled:
            wire.socket.close()


def test_a_call_is_finished_though_its_client_left() -> None:
    with serving() as running:
        with Wire(running.path) as wire:
            wire.send(b"POST /v1/hold HTTP/1.1\r\nHost:\r\n\r\n")
            assert running.service.held.wait(10)
        assert until(lambda: running.server.connections == 0)
        running.service.release.set()

        assert until(lambda: running.service.observed == [("hold", "ok")])
        assert running.service.finished == ["hold"]


@pytest.mark.parametrize("accept", ["application/json", "application/x-ndjson"])
def test_a_look_that_nobody_waits_for_any_more_is_left(accept: str) -> None:
    with serving() as running:
        with Wire(running.path) as wire:
            wire.send(f"POST /v1/look HTTP/1.1\r\nHost:\r\nAccept: {accept}\r\n\r\n".encode())
            assert running.service.held.wait(10)
            assert not running.service.left.is_set()

        assert running.service.left.wait(PATIENCE)
        assert until(lambda: running.server.connections == 0)
        with Wire(running.path) as another:
            assert another.post("echo").status == 200


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


def test_a_stop_finishes_the_call_whose_client_left() -> None:
    with serving() as running:
        with Wire(running.path) as wire:
            wire.send(b"POST /v1/hold HTTP/1.1\r\nHost:\r\n\r\n")
            assert running.service.held.wait(10)
        assert until(lambda: running.server.connections == 0)
        stopping = threading.Thread(target=running.stop, args=(20.0,))
        stopping.start()
        assert until(lambda: _refuses(running))
        running.service.release.set()
        stopping.join()

        assert running.service.finished == ["hold"]


def _refuses(running: Running) -> bool:
    try:
        Wire(running.path).socket.close()
    except ConnectionError:
        return True
    return False


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
