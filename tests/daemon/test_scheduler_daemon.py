"""The scheduler in a whole daemon: nights are caught up, go on, and are not repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED

from storage.model import DAY
from tests.daemon.scheduling import runs_ended
from tests.harness import Daemon


async def caught_up(daemon: Daemon) -> None:
    """Until what was owed at the start has ended."""
    await daemon.app.scheduler.run_owed()
    await runs_ended(daemon.parts.runner)


def test_case4_sixty_days_asleep_forget_nothing(daemons: Callable[..., Daemon]) -> None:
    """The daemon was off; at its start the missed night runs once, and finds that no time has passed."""
    daemon = daemons().start()
    items = [{"content": f"note number {n}"} for n in range(200)]
    daemon.call("remember_many", items=items)
    a, b = (one["id"] for one in daemon.call("list", limit=2)["memories"])
    daemon.call("connect", a=a, b=b, weight=0.11)
    daemon.beat(0.1)
    daemon.stop()
    daemon.clock.advance(60 * DAY)
    daemon.start()
    daemon.run(caught_up(daemon))

    (night,) = daemon.call("runs", job="night")["runs"]
    outcomes = {run["job"]: run["outcome"] for run in daemon.call("runs")["runs"]}
    assert night["trigger"] == "catch_up"
    assert night["late_by_s"] > 58 * DAY
    assert {outcomes[job] for job in ("prune", "demote", "decay", "purge")} == {"unchanged"}
    assert daemon.call("stats")["total"] == 200
    assert daemon.call("graph_stats")["by_kind"]["manual"] == 1
    assert min(one["retention"] for one in daemon.call("fading", days=365)["memories"]) > 0.95
    metrics = daemon.run(daemon.app.service.metrics("text/plain"))[0].decode()
    assert 'dreamd_job_missed_total{job_name="night"} 1.0' in metrics


@pytest.mark.parametrize("end", [{"outcome": "cancelled", "reason": "stopping"}, {}])
def test_e7_a_night_that_a_stop_or_a_crash_cut_short_goes_on_at_the_next_start(
    daemons: Callable[..., Daemon], end: dict[str, str]
) -> None:
    daemon = daemons().start()
    daemon.beat(0.3)
    run = daemon.parts.runner._stepper.record("night", "schedule", daemon.clock.now())
    daemon.in_lane(daemon.stores.ledger.start_run, run._replace(ended_at=run.started_at if end else None, **end))
    daemon.restart()
    daemon.run(caught_up(daemon))
    daemon.run(caught_up(daemon))

    nights = daemon.call("runs", job="night")["runs"]
    assert [(one["trigger"], one["outcome"]) for one in nights] == [("catch_up", "changed"), ("schedule", "cancelled")]


def test_a_night_that_ended_since_the_store_was_away_goes_on_an_hour_later_where_it_ended(
    daemons: Callable[..., Daemon],
) -> None:
    daemon = daemons().start()
    daemon.beat(0.3)
    record, now = daemon.parts.runner._stepper.record, daemon.clock.now()
    night = record("night", "schedule", now)._replace(ended_at=now, outcome="failed", reason="decay: unavailable")
    steps = (("hebbian", "unchanged", None), ("decay", "failed", "unavailable"))
    for run in (
        night,
        *(
            record(job, "schedule", now)._replace(ended_at=now, outcome=outcome, reason=reason, parent=night.id)
            for job, outcome, reason in steps
        ),
    ):
        daemon.in_lane(daemon.stores.ledger.start_run, run)
    daemon.run(caught_up(daemon))
    assert len(daemon.call("runs", job="night")["runs"]) == 1
    daemon.clock.advance(3_600)
    for _ in range(2):
        daemon.run(caught_up(daemon))

    again, _ = daemon.call("runs", job="night")["runs"]
    ran = {one["job"] for one in again["examples"]}
    assert (again["trigger"], again["outcome"]) == ("catch_up", "changed")
    assert "decay" in ran
    assert "hebbian" not in ran


def test_a_job_with_a_line_of_its_own_is_begun_in_time_while_a_night_is_under_way(
    daemons: Callable[..., Daemon],
) -> None:
    daemon = daemons(options={"DREAMD_SCHEDULE__PRUNE": "0 4 * * *"}).start()
    daemon.beat(7 / 48)
    runner, looks = daemon.parts.runner, daemon.app.scheduler.run_owed

    async def begun() -> list[bool]:
        async with runner.undisturbed():  # the night has to wait, as for a job that takes long
            await asyncio.wait_for(looks("night"), 20)
            daemon.clock.advance(1_800)
            await asyncio.wait_for(looks(), 20)
            return [runner.is_active(name) for name in ("night", "prune")]

    assert daemon.run(begun()) == [True, True]
    daemon.run(runs_ended(runner))
    told = {run["job"]: run["trigger"] for run in daemon.call("runs")["runs"] if run["parent"] is None}
    assert told == {"night": "schedule", "prune": "schedule"}


def test_e7_case23_what_was_missed_while_it_was_down_is_caught_up_once(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons().start()
    daemon.beat(1 / 8)
    daemon.stop()
    daemon.clock.advance(5 * DAY)
    daemon.start()
    for _ in range(3):
        daemon.run(caught_up(daemon))
        daemon.clock.advance(60)

    (night,) = daemon.call("runs", job="night")["runs"]
    assert (night["trigger"], night["late_by_s"]) == ("catch_up", 5 * DAY - 1_800)  # 03:00 five days on, due 03:30


def test_e8_two_looks_at_once_begin_one_run_and_count_one_miss(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons().start()
    daemon.run(caught_up(daemon))
    daemon.beat(1)

    async def looks() -> None:
        await asyncio.gather(*(daemon.app.scheduler.run_owed() for _ in range(3)))

    daemon.run(looks())
    daemon.run(caught_up(daemon))
    assert len(daemon.call("runs", job="night")["runs"]) == 1
    metrics = daemon.run(daemon.app.service.metrics("text/plain"))[0].decode()
    assert 'dreamd_job_missed_total{job_name="night"} 1.0' in metrics


def test_e8_two_looks_at_once_skip_a_run_once(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons().start()
    daemon.beat(1 / 8)
    daemon.call("run_job", name="night")
    daemon.beat(1 / 48)

    async def looks() -> None:
        await asyncio.gather(*(daemon.app.scheduler.run_owed() for _ in range(3)))

    daemon.run(looks())
    assert [run["outcome"] for run in daemon.call("runs", job="night")["runs"]] == ["skipped", "changed"]


def test_e8_a_scheduled_run_right_after_another_is_recorded_as_skipped_and_counted(
    daemons: Callable[..., Daemon],
) -> None:
    daemon = daemons().start()
    daemon.run(caught_up(daemon))
    daemon.beat(0.125)
    by_hand = daemon.call("run_job", name="night")
    daemon.beat(1 / 48)
    daemon.run(caught_up(daemon))
    daemon.run(caught_up(daemon))

    skipped, former = daemon.call("runs", job="night")["runs"]
    assert former["run_id"] == by_hand["run_id"]
    assert (skipped["outcome"], skipped["reason"], skipped["trigger"]) == ("skipped", "ran 30 min ago", "schedule")
    metrics = daemon.run(daemon.app.service.metrics("text/plain"))[0].decode()
    assert 'dreamd_job_runs_total{job_name="night",outcome="skipped"} 1.0' in metrics
    assert 'dreamd_job_missed_total{job_name="night"} 0.0' in metrics


def test_case22_a_run_by_hand_that_nobody_waits_for_takes_place_once(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons().start()
    run = daemon.call("run_job", name="dream", wait=False)
    for _ in range(3):
        daemon.run(caught_up(daemon))
        daemon.clock.advance(60)

    assert [one["run_id"] for one in daemon.call("runs", job="dream")["runs"]] == [run["run_id"]]


def test_the_alarm_is_set_for_every_line(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_SCHEDULE__PRUNE": "15 4 * * *"}).start()

    async def alarms() -> dict[str, tuple[int, int]]:
        jobs = daemon.app.scheduler._scheduler.get_jobs()
        return {job.id: (job.next_run_time.hour, job.next_run_time.minute) for job in jobs}

    assert daemon.run(alarms()) == {"night": (3, 30), "prune": (4, 15)}
    shown = {one["name"]: one["next_run"] for one in daemon.call("jobs")["jobs"]}
    assert shown["night"].endswith("T03:30:00Z")
    assert shown["prune"].endswith("T04:15:00Z")
    assert shown["decay"] is None


def test_when_the_alarm_goes_off_what_is_owed_runs(daemons: Callable[..., Daemon]) -> None:
    """The alarm keeps the host's time; whether anything is owed is told by the daemon's own clock and ledger."""
    daemon = daemons().start()
    daemon.run(caught_up(daemon))

    async def ring() -> None:
        ran = asyncio.Event()
        alarms = daemon.app.scheduler._scheduler
        alarms.add_listener(lambda _: ran.set(), EVENT_JOB_EXECUTED)
        alarms.get_job("night").modify(next_run_time=datetime.now(UTC))
        await asyncio.wait_for(ran.wait(), 20)

    daemon.run(ring())
    assert daemon.call("runs", job="night")["runs"] == []
    daemon.beat(1)
    daemon.run(ring())
    daemon.run(runs_ended(daemon.parts.runner))
    assert [run["trigger"] for run in daemon.call("runs", job="night")["runs"]] == ["catch_up"]
