"""One thread, two queues: order, fairness, errors and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError

import pytest

from storage.errors import Unavailable
from storage.lane import PATIENCE, Lane, Stopping


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("test")
    yield lane
    lane.close()


class Gatekeeper:
    """Holds the lane until it is opened, so that a test can fill the queues."""

    def __init__(self, lane: Lane) -> None:
        self._open = threading.Event()
        self._entered = threading.Event()
        lane.submit(self._wait)
        assert self._entered.wait(10)

    def _wait(self) -> None:
        self._entered.set()
        assert self._open.wait(10)

    def open(self) -> None:
        self._open.set()


def test_calls_of_a_kind_are_made_in_their_order_and_requests_before_jobs(lane) -> None:
    keeper, done = Gatekeeper(lane), []
    jobs = [lane.submit(done.append, f"job {n}", urgent=False) for n in range(2)]
    requests = [lane.submit(done.append, f"request {n}") for n in range(3)]
    assert lane.waiting == 5

    keeper.open()
    for future in jobs + requests:
        future.result(10)

    assert done == ["request 0", "request 1", "request 2", "job 0", "job 1"]
    assert lane.waiting == 0


def test_a_stream_of_requests_slows_a_job_and_never_starves_it(lane) -> None:
    keeper, done = Gatekeeper(lane), []
    jobs = [lane.submit(done.append, "job", urgent=False) for _ in range(2)]
    requests = [lane.submit(done.append, "request") for _ in range(4 * PATIENCE)]

    keeper.open()
    for future in jobs + requests:
        future.result(10)

    assert [place for place, name in enumerate(done) if name == "job"] == [PATIENCE, 2 * PATIENCE + 1]


def test_requests_without_a_waiting_job_do_not_use_up_its_patience(lane) -> None:
    for _ in range(PATIENCE):
        lane.call(int)
    keeper, done = Gatekeeper(lane), []
    futures = [lane.submit(done.append, "job", urgent=False), lane.submit(done.append, "request")]
    keeper.open()
    for future in futures:
        future.result(10)

    assert done == ["request", "job"]


def test_every_call_is_made_in_the_one_thread(lane) -> None:
    seen = {lane.call(threading.get_ident) for _ in range(5)}

    assert len(seen) == 1
    assert threading.get_ident() not in seen


def test_an_error_goes_to_its_caller_and_the_lane_goes_on(lane) -> None:
    with pytest.raises(ZeroDivisionError):
        lane.call(lambda: 1 // 0)
    with pytest.raises(KeyboardInterrupt):
        lane.call(interrupt)

    assert lane.call(lambda: 7) == 7


def interrupt() -> None:
    raise KeyboardInterrupt


def test_the_loop_awaits_a_call_and_its_error(lane) -> None:
    async def ask() -> int:
        with pytest.raises(ValueError, match="invalid literal"):
            await lane.run(int, "x")
        return await lane.run(int, "7", urgent=False)

    assert asyncio.run(ask()) == 7


def test_a_call_cancelled_before_its_turn_is_never_made(lane) -> None:
    keeper, done = Gatekeeper(lane), []
    future = lane.submit(done.append, "late")

    assert future.cancel()
    keeper.open()
    lane.call(int)

    assert done == []
    with pytest.raises(CancelledError):
        future.result()


def test_closing_finishes_what_was_queued_and_refuses_what_comes_later() -> None:
    lane, done = Lane("test"), []
    keeper = Gatekeeper(lane)
    for n in range(3):
        lane.submit(done.append, n, urgent=False)
    keeper.open()

    lane.close()
    lane.close()

    assert done == [0, 1, 2]
    with pytest.raises(Unavailable) as refused:
        lane.submit(int)
    assert refused.value.hint


def counted(done: list[str], turns: int) -> Generator[None, None, int]:
    for turn in range(turns):
        done.append(f"turn {turn}")
        yield
    return turns


def test_other_calls_are_made_between_the_turns_of_long_work(lane) -> None:
    done: list[str] = []

    async def ask() -> int:
        keeper = Gatekeeper(lane)
        work = asyncio.create_task(lane.run_in_turns(counted(done, 3)))
        await asyncio.sleep(0)
        request = lane.submit(done.append, "request")
        keeper.open()
        await asyncio.wrap_future(request)
        return await work

    assert asyncio.run(ask()) == 3
    assert done == ["request", "turn 0", "turn 1", "turn 2"]


def test_an_error_in_a_turn_ends_the_work(lane) -> None:
    def broken() -> Generator[None, None, int]:
        yield
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(lane.run_in_turns(broken()))


def test_patient_calls_are_refused_near_the_end_and_urgent_ones_are_made(lane) -> None:
    keeper, done = Gatekeeper(lane), []
    patient = lane.submit(done.append, "patient", urgent=False)
    urgent = lane.submit(done.append, "urgent")

    lane.refuse_patient()
    with pytest.raises(Stopping, match="stopping"):
        lane.submit(done.append, "late", urgent=False)
    with pytest.raises(Stopping):
        patient.result(10)
    keeper.open()
    urgent.result(10)

    lane.call(done.append, "later", urgent=True)
    assert done == ["urgent", "later"]


def test_long_work_whose_lane_ends_is_refused_at_its_next_turn(lane) -> None:
    done: list[str] = []

    def ended() -> Generator[None, None, int]:
        done.append("first")
        lane.refuse_patient()
        yield
        done.append("second")
        return 0

    with pytest.raises(Stopping):
        asyncio.run(lane.run_in_turns(ended()))
    assert done == ["first"]


def test_closing_waits_for_a_call_no_longer_than_it_may(lane) -> None:
    keeper, done = Gatekeeper(lane), []
    lane.submit(done.append, "queued")

    lane.close(0.01)
    assert done == []
    keeper.open()
    lane.close()

    assert done == ["queued"]


def test_what_comes_first_is_done_in_the_lane_before_each_call_and_each_turn(lane) -> None:
    done: list[str] = []

    def two_turns() -> Generator[None, None, None]:
        done.append("turn")
        yield
        done.append("turn")

    lane.first = lambda: done.append(threading.current_thread().name)
    lane.call(done.append, "call")
    lane.call_in_turns(two_turns())

    assert done == ["test", "call", "test", "turn", "test", "turn"]


def test_where_what_comes_first_fails_the_call_is_not_made(lane) -> None:
    done: list[str] = []

    def fail() -> None:
        raise Unavailable("The disk is full.", hint="df -h")

    lane.first = fail
    with pytest.raises(Unavailable):
        lane.call(done.append, "call")
    lane.first = lambda: None
    lane.call(done.append, "another")

    assert done == ["another"]
