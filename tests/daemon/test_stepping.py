"""One recorded run of one job: its thread, its deadline, its pace, and what is refused to it once it was given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator

import pytest
from structlog.testing import capture_logs

from daemon.stepping import MOST_PAUSES, Flight, Pace, Stepper
from jobs.context import Context, Report
from jobs.table import Job
from storage.errors import Refused
from storage.lane import Lane, Stopping
from storage.ledger import Run
from tests.daemon.serving import until
from tests.harness import BY_HAND, Daemon, started


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture
def stepper(daemon: Daemon) -> Stepper:
    """Gives up soon after the deadline."""
    parts, runner = daemon.parts, daemon.parts.runner
    daemon.in_lane(parts.stores.ledger.set_fact, "written", None)
    return Stepper(
        parts.stores, parts.lane, parts.learn, parts.clock, runner._stepper.settings, runner._stepper._texts, runner._book,
        lambda run: None, overrun=0.05,
    )  # fmt: skip


@pytest.fixture
def step(daemon: Daemon, stepper: Stepper) -> Callable[..., Run]:
    """Runs a function as a job."""

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


class Hung:
    """A job that hangs until the test lets it go on, after it was given up; what it raised then is noted."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.ended = threading.Event()
        self.raised: list[BaseException] = []

    def run(
        self, work: Callable[[Context], object], *, first: Callable[[], object] = lambda: None
    ) -> Callable[..., Report]:
        def job(ctx: Context) -> Report:
            first()
            try:
                work(ctx)
            except BaseException as error:
                self.raised.append(error)
                raise
            finally:
                self.ended.set()
            return Report({}, changed=1)

        return job

    def waits(self) -> None:
        self.let_go.wait(20)


@pytest.fixture
def hung() -> Iterator[Hung]:
    hung = Hung()
    yield hung
    hung.let_go.set()


def written(daemon: Daemon) -> object:
    return daemon.in_lane(daemon.stores.ledger.fact, "written")


def test_case27_a_call_that_waits_in_the_lane_when_its_run_is_given_up_is_not_made(
    daemon: Daemon, step, hung: Hung
) -> None:
    """The lane is busy, the job's call is queued, the run is given up, and then comes the call's turn."""
    lane, ledger = daemon.parts.lane, daemon.stores.ledger

    def work(ctx: Context) -> None:
        holding = lane.submit(hung.waits)
        calling = threading.Thread(target=lambda: raised(ctx.read, ledger.set_fact, "written", True))
        calling.start()
        until(lambda: lane.waiting > 0)
        ctx.give_up()
        hung.let_go.set()
        holding.result()
        calling.join()

    def raised(function: Callable[..., object], *arguments: object) -> None:
        try:
            function(*arguments)
        except Stopping as error:
            hung.raised.append(error)

    step(hung.run(work))

    assert [type(error) for error in hung.raised] == [Stopping]
    assert written(daemon) is None


def test_case27_a_run_that_is_given_up_between_two_turns_of_a_long_call_has_no_other(
    daemon: Daemon, step, hung: Hung
) -> None:
    def turns(ctx: Context) -> Generator[None, None, None]:
        ctx.give_up()
        yield
        daemon.stores.ledger.set_fact("written", True)

    step(hung.run(lambda ctx: ctx.read_in_turns(turns(ctx))))

    assert [type(error) for error in hung.raised] == [Stopping]
    assert written(daemon) is None


@pytest.mark.parametrize("way", ["note", "read", "read_in_turns"])
def test_case27_a_run_that_was_given_up_writes_nothing_any_more(daemon: Daemon, step, hung: Hung, way: str) -> None:
    """Neither through the lane nor straight to the ledger."""
    ledger = daemon.stores.ledger

    def turns() -> Generator[None, None, None]:
        ledger.set_fact("written", True)
        yield

    def work(ctx: Context) -> None:
        if way == "read_in_turns":
            ctx.read_in_turns(turns())
        else:
            getattr(ctx, way)(ledger.set_fact, "written", True)

    assert step(hung.run(work, first=hung.waits), deadline=0.0).outcome == "cancelled"
    hung.let_go.set()

    assert hung.ended.wait(20)
    assert [type(error) for error in hung.raised] == [Stopping]
    assert written(daemon) is None


def test_what_is_noted_straight_in_the_ledger_stands_whole_or_not_at_all(daemon: Daemon, step) -> None:
    ledger = daemon.stores.ledger

    def half() -> None:
        ledger.set_fact("written", True)
        raise Refused("no", hint="dreamctl runs")

    def both(ctx: Context) -> Report:
        ctx.note(ledger.set_fact, "noted", True)
        ctx.note(half)
        return Report({})

    assert step(both).outcome == "failed"
    assert daemon.in_lane(ledger.fact, "noted") is True
    assert written(daemon) is None


def test_the_progress_of_a_run_that_was_given_up_is_told_nobody(daemon: Daemon, stepper: Stepper, hung: Hung) -> None:
    told: list[dict[str, object]] = []
    night = stepper.record("night", "manual", daemon.clock.now())
    flight = Flight(night, told.append, step=stepper.record("dream", "manual", daemon.clock.now()))

    def work(ctx: Context) -> None:
        ctx.progress(1, 4)
        hung.waits()
        ctx.progress(2, 4)

    daemon.run(stepper.step(Job("dream", hung.run(work), 0.0, "a test"), flight, flight.step))
    flight.step, flight.done, flight.total = night, 0, 0
    hung.let_go.set()
    assert hung.ended.wait(20)

    assert [one["done"] for one in told] == [1]
    assert (flight.done, flight.total) == (0, 0)


def fails(_ctx: Context) -> None:
    raise ValueError("the text of a memory")


@pytest.mark.parametrize(("work", "error_type"), [(fails, "ValueError"), (lambda ctx: None, None)])
def test_the_log_hears_when_a_thread_ended_that_was_given_up(
    daemon: Daemon, step, hung: Hung, work, error_type
) -> None:
    with capture_logs() as logs:
        run = step(hung.run(work, first=hung.waits), deadline=0.0)
        hung.let_go.set()
        assert until(lambda: any(one["event"] == "job.ended_late" for one in logs))
        late = [one for one in logs if one["event"] == "job.ended_late"]

    assert [(one["error_type"], one["run_id"], one["job_name"]) for one in late] == [(error_type, run.id, "dream")]
    assert "memory" not in str(late)


def refuse(_ctx: Context) -> Report:
    raise Refused("no", hint="dreamctl runs")


def divide(_ctx: Context) -> Report:
    return Report({}, changed=1 // 0)


@pytest.mark.parametrize(
    ("work", "reason", "examples"), [(refuse, "refused", [{"reason": "no"}]), (divide, "internal", [])]
)
def test_what_a_job_raises_becomes_its_outcome_and_what_is_known_of_it_is_told(step, work, reason, examples) -> None:
    ended = step(work)

    assert (ended.outcome, ended.reason, ended.examples) == ("failed", reason, examples)


@pytest.mark.parametrize(("dry", "level"), [(True, "info"), (False, "warning")])
def test_a_run_that_did_less_is_a_warning_and_what_a_dry_run_says_is_none(daemon: Daemon, stepper, dry, level) -> None:
    run = stepper.record("dream", "manual", daemon.clock.now())._replace(dry_run=dry)
    job = Job("dream", lambda ctx: Report({}, reason="17 MiB must be free"), 60.0, "a test")

    with capture_logs() as logs:
        daemon.run(stepper.step(job, Flight(run, None), run))

    assert [one["log_level"] for one in logs if one["event"] == "job.finished"] == [level]


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
