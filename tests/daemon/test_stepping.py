"""One recorded run of one job: its thread, its deadline, its pace, and what is refused to it once it was given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from daemon.stepping import MOST_PAUSES, Flight, Pace, Stepper
from jobs.context import Context, Report
from jobs.table import Job
from storage.errors import Refused
from storage.lane import Lane, Stopping
from storage.ledger import Run
from tests.harness import BY_HAND, Daemon, started


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture
def step(daemon: Daemon) -> Callable[..., Run]:
    """Runs a function as a job that is given up soon after its deadline."""
    parts, runner = daemon.parts, daemon.parts.runner
    stepper = Stepper(
        parts.stores, parts.lane, parts.learn, parts.clock, runner._stepper.settings, runner._stepper._texts, runner._book,
        lambda run: None, overrun=0.05,
    )  # fmt: skip

    def run(work: Callable[[Context], Report], deadline: float = 60.0) -> Run:
        flight = Flight(stepper.record("dream", "manual", daemon.clock.now()), None)
        ended, _ = daemon.run(stepper.step(Job("dream", work, deadline, "a test"), flight, flight.run))
        return ended

    return run


def test_case27_a_job_that_hangs_is_given_up_and_the_next_has_its_turn(daemon: Daemon, step) -> None:
    let_go, refused = threading.Event(), threading.Event()

    def hang(ctx: Context) -> Report:
        let_go.wait(20)
        try:
            ctx.read(len, ())
        except Stopping:
            refused.set()
            raise
        return Report({"linked": 1}, changed=1)

    hung = step(hang, deadline=0.0)
    following = step(lambda ctx: Report({"linked": 2}, changed=2))
    let_go.set()

    assert (hung.outcome, hung.reason, hung.counts) == ("cancelled", "deadline", {})
    assert (following.outcome, following.counts) == ("changed", {"linked": 2})
    assert refused.wait(20)  # what it asks of the store from then on is refused
    assert daemon.in_lane(daemon.stores.ledger.run, hung.id).outcome == "cancelled"


def refuse(_ctx: Context) -> Report:
    raise Refused("no", hint="dreamctl runs")


def divide(_ctx: Context) -> Report:
    return Report({}, changed=1 // 0)


@pytest.mark.parametrize(("work", "reason"), [(refuse, "refused"), (divide, "internal")])
def test_what_a_job_raises_becomes_its_outcome(step, work, reason) -> None:
    ended = step(work)

    assert (ended.outcome, ended.reason) == ("failed", reason)


def test_a_job_thinks_in_a_thread_of_its_own(step) -> None:
    threads: list[threading.Thread] = []

    def think(_ctx: Context) -> Report:
        threads.append(threading.current_thread())
        return Report({})

    assert step(think).outcome == "unchanged"
    assert step(think).outcome == "unchanged"
    assert [thread.name for thread in threads] == ["job-dream", "job-dream"]
    assert all(thread.daemon for thread in threads)  # one that hangs does not keep the process from ending


def test_a_run_that_does_not_take_place_is_recorded_with_its_reason(daemon: Daemon) -> None:
    run = daemon.run(daemon.parts.runner.skip("prune", trigger="schedule", reason="ran 5 h ago", late_by=7.0))
    (told,) = daemon.call("runs", job="prune")["runs"]

    assert (told["run_id"], told["outcome"]) == (run.id, "skipped")
    assert (told["reason"], told["late_by_s"]) == ("ran 5 h ago", 7.0)
    metrics = daemon.run(daemon.app.service.metrics("text/plain"))[0].decode()
    assert 'dreamd_job_runs_total{job_name="prune",outcome="skipped"} 1.0' in metrics


class Counted(threading.Event):
    """Never set; counts how often somebody waits for it, and waits no time."""

    waits = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits += 1
        return False


@pytest.fixture
def lane() -> Iterator[Lane]:
    lane = Lane("paced")
    yield lane
    lane.close()


def test_a_batch_waits_a_moment_where_a_request_came_since_the_last_one(lane: Lane) -> None:
    stop = Counted()
    pace = Pace(lane, stop)
    pace()
    assert stop.waits == 0
    lane.call(int, urgent=True)
    lane.call(int, urgent=True)
    pace()
    assert stop.waits == 1
    pace()
    lane.call(int)  # a job's own
    pace()
    assert stop.waits == 1


def test_requests_delay_a_run_by_so_many_pauses_and_no_more(lane: Lane) -> None:
    stop = Counted()
    pace = Pace(lane, stop)
    for _ in range(MOST_PAUSES + 10):
        lane.urgent_calls += 1
        pace()

    assert stop.waits == MOST_PAUSES
