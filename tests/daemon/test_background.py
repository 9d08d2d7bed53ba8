"""What beats by itself: what was learned is stored, idle hours are used, a wrong clock is told of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.background import IDLE_SECONDS, RETRY_SECONDS, SCRUB_WITHIN, watch
from daemon.notify import Notifier
from storage.errors import Unavailable
from storage.forget import SCRUB_DUE
from tests.harness import BY_HAND, Daemon, started

NO_FLUSH = BY_HAND | {"DREAMD_STORAGE__FLUSH_SECONDS": "86400"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started(options=NO_FLUSH) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    """Awake just now, with nothing due."""
    shared.in_lane(shared.stores.ledger.set_fact, SCRUB_DUE, None)
    shared.run(shared.app.background.heartbeat())
    return shared


def jobs_run(daemon: Daemon) -> list[str]:
    return [run["job"] for run in daemon.call("runs", limit=500)["runs"]]


def test_case29_after_a_day_without_a_request_the_first_one_is_answered(daemon: Daemon) -> None:
    daemon.remember("the harbour opens at six")
    daemon.beat(1)
    daemon.run(daemon.app.background.idle_work())

    assert daemon.call("recall", query="harbour")["hits"][0]["content"] == "the harbour opens at six"


def test_what_was_learned_waits_for_a_fold_and_is_gone_from_the_buffer_after_it(daemon: Daemon) -> None:
    memory = daemon.remember("the lighthouse keeper")
    daemon.call("recall", query="lighthouse", k=1)
    assert daemon.call("get", id=memory)["access_count"] == 0
    daemon.run(daemon.app.background.fold())
    daemon.run(daemon.app.background.fold())

    assert daemon.call("get", id=memory)["access_count"] == 1


def test_what_could_not_be_stored_is_stored_once_there_is_room(daemon: Daemon) -> None:
    engine = daemon.stores.engine
    one, other = daemon.remember("apples of the orchard"), daemon.remember("pears of the orchard")
    daemon.call("recall", query="orchard", k=2)
    room, engine._free_bytes = engine._free_bytes, lambda _path: 0
    for _ in range(2):
        with pytest.raises(Unavailable):
            daemon.run(daemon.app.background.fold())
    engine._free_bytes = room
    daemon.call("recall", query="orchard", k=2)
    daemon.run(daemon.app.background.fold())
    daemon.run(daemon.app.background.fold())

    assert [daemon.call("get", id=memory)["access_count"] for memory in (one, other)] == [2, 2]
    (edge,) = daemon.call("neighbors", id=one)["neighbors"]
    assert (edge["id"], edge["weight"]) == (other, pytest.approx(0.396))


def test_what_was_learned_last_is_stored_by_the_stop(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    memory = daemon.remember("the lighthouse keeper")
    daemon.call("recall", query="lighthouse")
    daemon.restart()

    assert daemon.call("get", id=memory)["access_count"] == 1


def test_a_damaged_store_is_neither_folded_into_nor_flushed(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    memory = daemon.remember("the lighthouse keeper")
    daemon.call("recall", query="lighthouse")
    marks = daemon.in_lane(daemon.stores.ledger.fact, "marks")
    daemon.stores.damage = ["memories holds 1 of 501 points"]
    daemon.in_lane(daemon.stores.ledger.set_fact, SCRUB_DUE, 0.0)
    for beat in (daemon.app.background.fold, daemon.app.background.flush, daemon.app.background.idle_work):
        daemon.run(beat())

    assert daemon.call("get", id=memory)["access_count"] == 0
    assert daemon.in_lane(daemon.stores.ledger.fact, "marks") == marks
    assert jobs_run(daemon) == []


def idle(daemon: Daemon, seconds: float) -> list[str]:
    """Let time pass without a request, let the idle work be done, and return the jobs that ran."""
    before = len(jobs_run(daemon))
    daemon.clock.advance(seconds - daemon.clock.monotonic() + daemon.app.service.last_used_at)
    daemon.run(daemon.app.background.idle_work())
    return jobs_run(daemon)[: len(jobs_run(daemon)) - before]


def test_an_erasure_is_scrubbed_once_nobody_asks_for_ten_minutes(daemon: Daemon) -> None:
    daemon.call("forget", id=daemon.remember("gone for good"), hard=True)

    assert idle(daemon, IDLE_SECONDS - 1) == []
    assert "scrub" in idle(daemon, IDLE_SECONDS)
    assert "scrub" not in idle(daemon, IDLE_SECONDS + 60)


def test_an_erasure_is_scrubbed_within_the_hour_though_it_is_busy_and_paused(daemon: Daemon) -> None:
    daemon.call("pause_jobs")
    daemon.call("forget", id=daemon.remember("gone for good"), hard=True)
    erased = daemon.clock.now()
    ran: list[str] = []
    while daemon.clock.now() < erased + SCRUB_WITHIN:
        assert ran == []
        daemon.clock.advance(60)
        daemon.call("recall", query="anything")
        ran = idle(daemon, 0)
    daemon.call("resume_jobs")

    assert ran == ["scrub"]
    assert daemon.clock.now() - erased < 3600


def test_an_erasure_from_a_future_that_did_not_come_is_scrubbed_though_it_is_busy(daemon: Daemon) -> None:
    daemon.call("forget", id=daemon.remember("gone for good"), hard=True)
    before = jobs_run(daemon).count("scrub")
    daemon.clock.set(daemon.clock.now() - 200 * 86_400)
    for _ in range(2):
        idle(daemon, 0)
    daemon.clock.set(daemon.clock.now() + 200 * 86_400)

    assert jobs_run(daemon).count("scrub") == before + 1


def test_idle_work_that_failed_is_tried_again_after_an_hour(daemon: Daemon) -> None:
    daemon.call("forget", id=daemon.remember("gone for good"), hard=True)
    engine = daemon.stores.engine
    room, engine._free_bytes = engine._free_bytes, lambda _path: 0
    first = idle(daemon, IDLE_SECONDS)
    engine._free_bytes = room
    later = [idle(daemon, IDLE_SECONDS + n * 600) for n in range(1, round(RETRY_SECONDS / 600) + 1)]

    assert "scrub" in first
    assert ["scrub" in ran for ran in later] == [False] * (len(later) - 1) + [True]
    outcomes = [run["outcome"] for run in daemon.call("runs", job="scrub", limit=2)["runs"]]
    assert outcomes == ["changed", "failed"]
    assert idle(daemon, IDLE_SECONDS + RETRY_SECONDS + 600) == []


def test_room_is_given_back_only_in_idle_hours_and_only_where_it_is_worth_it(daemon: Daemon) -> None:
    ids = [
        one["id"] for one in daemon.call("remember_many", items=[{"content": f"n {n}"} for n in range(200)])["results"]
    ]
    assert idle(daemon, IDLE_SECONDS) == []
    daemon.call("forget", ids=ids[:190], hard=True)
    daemon.in_lane(daemon.stores.ledger.set_fact, SCRUB_DUE, None)
    daemon.in_lane(daemon.stores.flush)

    assert idle(daemon, 0) == []
    daemon.call("pause_jobs")
    assert idle(daemon, IDLE_SECONDS) == []
    daemon.call("resume_jobs")
    assert idle(daemon, IDLE_SECONDS) == ["vacuum"]
    assert idle(daemon, IDLE_SECONDS + 60) == []


def test_a_beat_that_fails_is_told_by_health_until_it_works_again(daemon: Daemon) -> None:
    health = daemon.parts.health
    seen: list[bool] = []
    done = asyncio.Event()

    async def beat() -> None:
        seen.append("beat" in health.reasons)
        if len(seen) == 1:
            raise Unavailable("The disk is full.", hint="df -h")
        if len(seen) == 2:
            raise ZeroDivisionError
        if len(seen) == 4:
            done.set()

    async def few() -> None:
        task = asyncio.create_task(daemon.app.background._repeat(0.0, beat))
        await done.wait()
        task.cancel()

    daemon.run(few())
    assert seen[:4] == [False, True, True, False]


def test_case32_the_watchdog_is_fed_from_the_loop_and_only_while_the_daemon_serves(folder: Path) -> None:
    address = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.setblocking(False)
        asked: list[bool] = []

        async def feed() -> bytes:
            answers = iter([False, False, True])
            fed = asyncio.Event()

            def alive() -> bool:
                asked.append(next(answers, False))
                if len(asked) == 5:
                    fed.set()
                return asked[-1]

            task = asyncio.create_task(watch(Notifier(address), 0.001, alive))
            await fed.wait()
            task.cancel()
            return systemd.recv(100)

        assert asyncio.run(feed()) == b"WATCHDOG=1"
        with pytest.raises(BlockingIOError):
            systemd.recv(100)
