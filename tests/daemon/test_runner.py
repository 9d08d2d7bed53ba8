"""One job at a time, recorded, within a deadline, stoppable between batches, whoever asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from jobs.context import BATCH
from jobs.table import JOBS, NIGHT
from storage.errors import Conflict, Corrupt, Unavailable
from storage.ledger import Run
from tests.fakes import SettableClock
from tests.harness import BY_HAND, Daemon, started


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    shared.in_lane(lambda: shared.stores.changer.erase([row.id for row in shared.stores.catalogue.every()]))
    shared.clock.advance(2 * 86_400)
    return shared


class Held:
    """Listens to a run, and holds the jobs' thread at the first word of one job until it is let go."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.reached = threading.Event()
        self._go = threading.Event()
        self.told: list[dict[str, Any]] = []

    def __call__(self, progress: dict[str, Any]) -> None:
        self.told.append(progress)
        if progress["job"] == self.job:
            self.reached.set()
            self._go.wait(20)

    def let_go(self) -> None:
        self._go.set()


def expired(daemon: Daemon, count: int) -> None:
    """Memories that the next decay moves, in batches."""
    items = [{"content": f"note {n}", "expires_at": "2020-01-01T00:00:00Z"} for n in range(count)]
    daemon.call("remember_many", items=items)


def launch(daemon: Daemon, name: str, **options: Any) -> Future[Run]:
    """A run that the test does not wait for."""
    return asyncio.run_coroutine_threadsafe(daemon.parts.runner.run(name, trigger="manual", **options), daemon._loop)


@pytest.fixture
def held(daemon: Daemon) -> Iterator[tuple[Held, Future[Run]]]:
    """A decay that has made the first of three batches and waits."""
    expired(daemon, 3 * BATCH)
    listener = Held("decay")
    run = launch(daemon, "decay", listener=listener)
    assert listener.reached.wait(20)
    yield listener, run
    listener.let_go()
    run.result(20)


def runs(daemon: Daemon, **options: Any) -> list[dict[str, Any]]:
    return daemon.call("runs", **options)["runs"]


def test_e8_case21_a_second_call_for_the_job_under_way_is_told_which_run_it_is_and_how_far(
    daemon: Daemon, held
) -> None:
    (running,) = held[0].told
    with pytest.raises(Conflict, match="33 %") as error:
        daemon.call("run_job", name="decay")

    assert error.value.extra["run_id"] == running["run_id"]


def test_other_jobs_wait_their_turn_and_come_in_order(daemon: Daemon, held) -> None:
    listener, first = held
    waiting = [launch(daemon, name) for name in ("prune", "demote")]
    with pytest.raises(Conflict):
        daemon.call("run_job", name="prune")
    daemon.clock.advance(60)
    listener.let_go()
    done = [run.result(20) for run in (first, *waiting)]

    assert [run.outcome for run in done] == ["changed", "unchanged", "unchanged"]
    assert [daemon.clock.now() - run.started_at for run in done] == [60.0, 0.0, 0.0]
    assert [run["job"] for run in runs(daemon, limit=3)] == ["demote", "prune", "decay"]


def test_a_step_of_the_night_under_way_is_the_job_under_way(daemon: Daemon) -> None:
    expired(daemon, 2 * BATCH)
    listener = Held("decay")
    night = launch(daemon, "night", listener=listener)
    assert listener.reached.wait(20)
    (step,) = (run for run in runs(daemon, job="decay", limit=1))
    with pytest.raises(Conflict) as error:
        daemon.call("run_job", name="decay")
    assert error.value.extra["run_id"] == step["run_id"]
    with pytest.raises(Conflict):
        daemon.call("run_job", name="night")
    assert {one["name"] for one in daemon.call("jobs")["jobs"] if one["running"]} == {"night", "decay"}
    after = launch(daemon, "prune")
    listener.let_go()

    assert night.result(20).outcome == "changed"
    assert after.result(20).started_at >= night.result(20).started_at


def test_of_two_hundred_calls_at_once_one_runs(daemon: Daemon, held) -> None:
    answers = [launch(daemon, "decay") for _ in range(200)]
    outcomes = [answer.exception(20) for answer in answers]

    assert all(isinstance(outcome, Conflict) for outcome in outcomes)
    assert len(runs(daemon, job="decay", limit=1)) == 1


def test_case27_a_run_past_its_deadline_is_cut_short_counted_and_out_of_the_way(daemon: Daemon) -> None:
    expired(daemon, 3 * BATCH)

    def late(_progress: dict[str, Any]) -> None:
        daemon.clock.advance(JOBS["decay"].deadline + 1)

    run = launch(daemon, "decay", listener=late).result(20)
    assert (run.outcome, run.reason, run.counts["expired"]) == ("cancelled", "deadline", BATCH)
    assert run.ended_at == run.started_at + JOBS["decay"].deadline + 1
    metrics = daemon.run(daemon.app.service.metrics("text/plain"))[0].decode()
    assert 'dreamd_job_runs_total{job_name="decay",outcome="cancelled"} 1.0' in metrics

    assert daemon.call("run_job", name="decay")["counts"]["expired"] == 2 * BATCH


def test_a_night_says_which_step_ran_out_of_time_and_goes_on(daemon: Daemon) -> None:
    expired(daemon, 2 * BATCH)

    def late(progress: dict[str, Any]) -> None:
        if progress["job"] == "decay":
            daemon.clock.advance(JOBS["decay"].deadline + 1)

    night = launch(daemon, "night", listener=late).result(20)
    assert (night.outcome, night.reason) == ("cancelled", "decay: deadline")
    assert [one["job"] for one in night.examples] == list(NIGHT)


def test_a_run_that_was_through_when_its_time_ran_out_is_not_cut_short(daemon: Daemon) -> None:
    expired(daemon, BATCH)
    run = launch(daemon, "decay", listener=lambda _: daemon.clock.advance(JOBS["decay"].deadline + 1)).result(20)

    assert run.outcome == "changed"


def test_a_run_by_hand_that_nobody_waits_for_is_answered_as_it_began(daemon: Daemon) -> None:
    begun = daemon.call("run_job", name="prune", wait=False)
    assert begun["outcome"] is None
    launch(daemon, "demote").result(20)

    assert begun["run_id"] in {run["run_id"] for run in runs(daemon) if run["outcome"] == "unchanged"}


def test_the_steps_of_a_night_are_recorded_in_order_under_it(daemon: Daemon) -> None:
    """The clock stands still: the order must not hang on it."""
    night = daemon.call("run_job", name="night")

    assert [step["job"] for step in night["steps"]] == list(NIGHT)
    assert {step["parent"] for step in night["steps"]} == {night["run_id"]}
    assert [example["job"] for example in night["examples"]] == list(NIGHT)
    begun = [step["started_at"] for step in night["steps"]]
    assert begun == sorted(begun)
    assert len(set(begun)) == len(begun)


def test_a_bug_in_one_step_does_not_keep_the_next_from_running_and_is_told(daemon: Daemon) -> None:
    daemon.in_lane(daemon.stores.ledger.set_fact, "dream:cursor", "no cursor")
    night = daemon.call("run_job", name="night")
    daemon.in_lane(daemon.stores.ledger.set_fact, "dream:cursor", None)

    assert (night["outcome"], night["reason"]) == ("failed", "dream: internal")
    assert {step["job"]: step["outcome"] for step in night["steps"]} == {
        **dict.fromkeys(NIGHT, "unchanged"), "snapshot": "changed", "dream": "failed"
    }  # fmt: skip


def test_a_store_that_is_not_as_it_should_be_ends_the_night(daemon: Daemon) -> None:
    memory = daemon.remember("the fox sleeps")
    point = daemon.in_lane(daemon.stores.catalogue.point, memory)
    daemon.in_lane(daemon.stores.engine.delete, "memories", [point])
    night = daemon.call("run_job", name="night")

    assert (night["outcome"], night["reason"]) == ("failed", "decay: corrupt")
    assert night["steps"][-1]["job"] == "decay"


def test_a_dry_run_is_recorded_as_such_and_counted_nowhere(daemon: Daemon) -> None:
    expired(daemon, 3)
    before = daemon.in_lane(daemon.stores.ledger.last_run, "night")
    run = daemon.call("run_job", name="night", dry_run=True)

    assert run["counts"]["decay"] == 3
    assert all(step["dry_run"] for step in run["steps"])
    assert daemon.in_lane(daemon.stores.engine.count, "memories") == 3
    assert daemon.in_lane(daemon.stores.ledger.last_run, "night") == before


@pytest.mark.parametrize("at", ["2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z"])
def test_a_run_as_of_another_time_takes_no_time_for_it(daemon: Daemon, at) -> None:
    daemon.remember("the fox sleeps")
    run = daemon.call("run_job", name="decay", dry_run=True, at=at)

    assert run["took_s"] == pytest.approx(0.0, abs=5.0)
    assert run["counts"]["decayed"] == (at > "2030")


def test_the_same_job_at_the_same_instant_throws_the_same_dice(daemon: Daemon) -> None:
    at = "2031-01-01T00:00:00Z"
    first, second, other = (
        daemon.call("run_job", name=name, dry_run=True, at=at)["run_id"] for name in ("prune", "prune", "demote")
    )
    seeds = {run["run_id"]: run["seed"] for run in runs(daemon, limit=500)}

    assert seeds[first] == seeds[second] != seeds[other]


def test_a_damaged_store_is_not_worked_on(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    daemon.stores.damage = ["memories holds 1 of 501 points"]
    for name in ("night", "decay"):
        with pytest.raises(Corrupt):
            daemon.run(daemon.parts.runner.run(name, trigger="schedule"))
    with pytest.raises(Corrupt):
        daemon.run(daemon.parts.runner.undo("any"))

    assert daemon.run(daemon.parts.runner.run("decay", trigger="manual", dry_run=True)).outcome == "unchanged"


def test_a_job_that_is_off_is_no_part_of_the_night(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_SCHEDULE__DREAM": "off", "DREAMD_SCHEDULE__PURGE": "off"}).start()

    night = daemon.call("run_job", name="night")
    assert [step["job"] for step in night["steps"]] == [name for name in NIGHT if name not in ("dream", "purge")]


def test_a_pause_outlives_a_restart_and_leaves_runs_by_hand(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons().start()
    daemon.call("pause_jobs")
    daemon.restart()
    assert daemon.call("jobs")["paused"] is True
    assert daemon.call("run_job", name="decay")["outcome"] == "unchanged"
    daemon.call("resume_jobs")
    daemon.restart()

    assert daemon.call("jobs")["paused"] is False


def stop(daemon: Daemon, listener: Held) -> None:
    """Stop the runner while the run waits at its batch, and wait for both."""
    stopped = asyncio.run_coroutine_threadsafe(daemon.parts.runner.stop(10), daemon._loop)
    while not daemon.parts.runner._stopping:
        daemon.run(asyncio.sleep(0))
    listener.let_go()
    stopped.result(20)


class Hurried(SettableClock):
    """A clock on which, once it is hurried, each look at it takes two minutes."""

    hurried = False

    def monotonic(self) -> float:
        if self.hurried:
            self._monotonic += 121.0
        return self._monotonic


def test_an_undo_that_did_not_finish_says_so_and_another_goes_on(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND, clock=Hurried()).start()
    expired(daemon, 3 * BATCH)
    run = daemon.call("run_job", name="decay")
    daemon.clock.hurried = True
    with pytest.raises(Unavailable, match="deadline") as error:
        daemon.call("undo", run_id=run["run_id"])
    daemon.clock.hurried = False
    assert run["run_id"] in error.value.hint
    assert {one["run_id"]: one["undone_by"] for one in runs(daemon)}[run["run_id"]] is None

    undone = daemon.call("undo", run_id=run["run_id"])
    assert (len(undone["restored"]), undone["left"]) == (2 * BATCH, [])


def test_a_stop_ends_the_run_after_its_batch_and_what_waited_never_begins(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    expired(daemon, 3 * BATCH)
    listener = Held("decay")
    run = launch(daemon, "decay", listener=listener)
    assert listener.reached.wait(20)
    waiting = launch(daemon, "prune")
    launch(daemon, "demote", wait=False).result(20)
    undo = asyncio.run_coroutine_threadsafe(
        daemon.parts.runner.undo(daemon.call("runs")["runs"][0]["run_id"]), daemon._loop
    )
    assert undo.exception(20) is not None  # it is under way still
    with capture_logs() as logs:
        stop(daemon, listener)
    assert daemon.in_lane(daemon.stores.ledger.run, runs(daemon)[0]["run_id"]).outcome == "cancelled"
    assert (run.result(20).outcome, run.result(20).reason) == ("cancelled", "stopping")
    assert isinstance(waiting.exception(20), Unavailable)
    lost = [(line["job_name"], line["error_type"]) for line in logs if line["event"] == "job.not_run"]
    assert lost == [("demote", "Unavailable")]
    with pytest.raises(Unavailable):
        daemon.run(daemon.parts.runner.run("decay", trigger="manual"))

    daemon.restart()
    counts = daemon.in_lane(lambda: [daemon.stores.engine.count(name) for name in ("memories", "bin")])
    assert counts == [2 * BATCH, BATCH]
    assert [one["job"] for one in runs(daemon)] == ["decay"]
    assert daemon.call("run_job", name="decay")["counts"]["expired"] == 2 * BATCH


@pytest.mark.parametrize("batches", [1, 2])
def test_a_night_that_is_stopped_begins_no_further_step(daemons: Callable[..., Daemon], batches) -> None:
    """Whether the step under way was through or not."""
    daemon = daemons(options=BY_HAND).start()
    expired(daemon, batches * BATCH)
    listener = Held("decay")
    night = launch(daemon, "night", listener=listener)
    assert listener.reached.wait(20)
    stop(daemon, listener)

    assert (night.result(20).outcome, night.result(20).reason) == ("cancelled", "stopping")
    daemon.restart()
    assert [one["job"] for one in runs(daemon)] == [*reversed(NIGHT[: NIGHT.index("decay") + 1]), "night"]


def test_what_a_kill_cut_off_is_closed_at_the_next_start(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    run = daemon.parts.runner._stepper.record("decay", "schedule", daemon.clock.now())
    daemon.in_lane(daemon.stores.ledger.start_run, run)
    daemon.restart()
    (told,) = runs(daemon)

    assert (told["run_id"], told["outcome"], told["reason"]) == (run.id, "cancelled", "cut_off")


def test_a_dry_run_says_so_in_the_log(daemon: Daemon) -> None:
    with capture_logs(processors=[merge_contextvars]) as logs:
        for dry_run in (True, False):
            daemon.call("run_job", name="decay", dry_run=dry_run)

    assert [one.get("dry_run", False) for one in logs if one["event"] == "job.finished"] == [True, False]
