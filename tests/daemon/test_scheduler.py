"""When jobs run: once a local day whatever the clocks do, once after any absence, and never twice for one time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.options import Schedule
from daemon.scheduler import BORN, Scheduler, WallClock
from storage.ledger import Ledger, Run
from storage.model import DAY
from tests.fakes import SettableClock
from tests.harness import Daemon

ZONES = ("Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Africa/Cairo", "UTC")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
zones = st.sampled_from(ZONES)
minutes = st.integers(0, 1439)


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def fires(line: str, zone: str, first: date, last: date) -> list[float]:
    """Every fire time of a line from one local day through another."""
    trigger, tz = WallClock(line, ZoneInfo(zone)), ZoneInfo(zone)
    now = datetime(first.year, first.month, first.day, tzinfo=tz).timestamp() - 1.0
    end = datetime.combine(last + timedelta(days=1), datetime.min.time(), tz).timestamp()
    found = []
    while (fire := trigger.after(now)) is not None and fire < end:
        found.append(fire)
        now = fire
    return found


# The wall clock.


@settings(deadline=None, max_examples=40)
@given(zones, minutes)
def test_case24_a_daily_time_comes_once_on_every_local_day_of_the_year(zone, minute) -> None:
    found = fires(f"{minute % 60} {minute // 60} * * *", zone, date(2026, 1, 1), date(2026, 12, 31))
    days = Counter(datetime.fromtimestamp(fire, ZoneInfo(zone)).date() for fire in found)

    assert found == sorted(set(found))
    assert days == {date(2026, 1, 1) + timedelta(days=n): 1 for n in range(365)}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time", ["0 0", "30 1", "45 1", "0 2", "15 2", "30 2", "59 2", "0 3", "30 3", "59 23"])
def test_the_times_at_which_clocks_change_come_once_a_day_too(zone, time) -> None:
    assert len(fires(f"{time} * * *", zone, date(2026, 1, 1), date(2026, 12, 31))) == 365


@settings(deadline=None, max_examples=40)
@given(zones, st.floats(NEW_YEAR, NEW_YEAR + 366 * DAY), minutes)
def test_the_next_time_is_later_and_none_lies_between(zone, now, minute) -> None:
    trigger = WallClock(f"{minute % 60} {minute // 60} * * *", ZoneInfo(zone))
    fire = trigger.after(now)

    assert now < fire <= now + 25 * 3600
    assert trigger.after((now + fire) / 2) == fire


def test_a_time_that_is_skipped_comes_as_much_later() -> None:
    assert fires("30 2 * * *", "Europe/Berlin", date(2026, 3, 29), date(2026, 3, 29)) == [
        at("2026-03-29T03:30", "Europe/Berlin")
    ]


def test_case25_a_time_that_is_shown_twice_comes_the_first_time() -> None:
    (fire,) = fires("30 2 * * *", "Europe/Berlin", date(2026, 10, 25), date(2026, 10, 25))

    assert datetime.fromtimestamp(fire, UTC).hour == 0  # 02:30 of summer time; in winter's it would be 01:30 UTC


def test_case24_case25_the_doubled_hour_runs_once_and_the_skipped_one_not_at_all() -> None:
    summer = fires("*/30 * * * *", "Europe/Berlin", date(2026, 3, 29), date(2026, 3, 29))
    winter = fires("*/30 * * * *", "Europe/Berlin", date(2026, 10, 25), date(2026, 10, 25))

    assert (len(summer), len(winter)) == (46, 48)


def test_a_line_that_never_comes_never_fires() -> None:
    assert WallClock("0 0 31 2 *", ZoneInfo("UTC")).after(NEW_YEAR) is None


def test_apscheduler_is_told_the_same_times() -> None:
    trigger = WallClock("0 0 * * *", ZoneInfo("Europe/Berlin"))
    day = trigger.get_next_fire_time(None, datetime(2026, 3, 29, 12, tzinfo=UTC))

    assert day is not None
    assert day.date() == date(2026, 3, 30)
    after = trigger.get_next_fire_time(day, datetime(2026, 3, 30, 12, tzinfo=UTC))
    assert after is not None
    assert after.date() == date(2026, 3, 31)


# What is owed.


class Shelf:
    """The two things that a scheduler asks of the stores."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.damage: list[str] = []


class Diary:
    """A runner that notes each run in the ledger, as begun and ended at that instant."""

    def __init__(self, ledger: Ledger, clock: SettableClock) -> None:
        self._ledger = ledger
        self._clock = clock
        self.paused = False
        self.active: set[str] = set()
        self.runs: list[tuple[str, float, str, float | None]] = []

    def is_active(self, name: str) -> bool:
        return name in self.active

    async def run(self, name: str, *, trigger: str, late_by: float | None) -> None:
        self.note(name, outcome="changed", trigger=trigger)
        self.runs.append((name, self._clock.now(), trigger, late_by))

    def note(self, name: str, *, outcome: str, reason: str | None = None, trigger: str = "schedule") -> None:
        now = self._clock.now()
        run = Run(
            self._clock.new_id(), name, None, trigger, False, now, now, 0, None, outcome, reason, {}, [], 0, None, None
        )
        self._ledger.start_run(run)


class World:
    """A scheduler over a real ledger, a settable clock and a diary."""

    def __init__(self, folder: Path, start: float = NEW_YEAR, **schedule: str) -> None:
        self.clock = SettableClock(start)
        self.ledger = Ledger(folder / "state.db")
        self.ledger.set_fact(BORN, start)
        self.runner = Diary(self.ledger, self.clock)
        self.shelf = Shelf(self.ledger)
        self.missed: list[str] = []
        options = Schedule(**{"timezone": "UTC", "night": "30 3 * * *", **schedule})
        stores: Any = self.shelf
        runner: Any = self.runner
        self.scheduler = Scheduler(options, runner, stores, self.clock, self.missed.append)

    def look(self, text: str = "", zone: str = "UTC") -> list[tuple[str, float, str, float | None]]:
        """Set the clock, look, and return what ran."""
        if text:
            self.clock.set(at(text, zone))
        before = len(self.runner.runs)
        asyncio.run(self.scheduler.run_owed())
        return self.runner.runs[before:]


@pytest.fixture
def world(tmp_path) -> Callable[..., World]:
    made: list[World] = []

    def make(**options: Any) -> World:
        made.append(World(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.ledger.close()


@pytest.mark.parametrize("zone", ZONES[:3])
def test_a_daemon_that_is_always_there_runs_one_night_a_local_day(world, zone) -> None:
    """It looks every two hours, at odd minutes, through a whole year of clock changes."""
    here = world(timezone=zone, night="30 2 * * *", start=at("2025-12-31T12:00", zone))
    while here.clock.now() < at("2026-12-31T12:00", zone):
        here.clock.advance(6_900.0)
        here.look()
    days = Counter(datetime.fromtimestamp(run[1], ZoneInfo(zone)).date() for run in here.runner.runs)

    assert days == {date(2026, 1, 1) + timedelta(days=n): 1 for n in range(365)}


def test_a_new_state_folder_owes_no_night(world) -> None:
    here = world(start=at("2026-01-01T08:00"))

    assert here.scheduler.owed(here.clock.now()) == {}
    assert here.look("2026-01-02T03:29") == []
    assert [run[0] for run in here.look("2026-01-02T03:30")] == ["night"]


def test_case23_any_absence_is_caught_up_by_one_run_which_says_how_late_it_is(world) -> None:
    here = world()
    here.look("2026-01-01T03:30")
    ((name, _, trigger, late_by),) = here.look("2026-03-01T12:00")

    assert (name, trigger) == ("night", "catch_up")
    assert late_by == at("2026-03-01T12:00") - at("2026-01-02T03:30")
    assert here.missed == ["night"]
    assert here.look() == []


def test_case23_a_host_that_slept_through_the_time_runs_once_when_it_wakes(world) -> None:
    here = world(night="0 3 * * *")
    assert here.look("2026-01-01T02:50") == []
    ((_, _, trigger, late_by),) = here.look("2026-01-01T08:00")

    assert (trigger, late_by, here.missed) == ("catch_up", 5 * 3600.0, ["night"])
    assert here.look("2026-01-01T08:01") == []


def test_a_run_in_time_is_not_late(world) -> None:
    here = world()

    assert here.look("2026-01-01T03:30:40") == [("night", at("2026-01-01T03:30:40"), "schedule", None)]
    assert here.missed == []


def test_a_run_by_hand_before_the_time_does_not_replace_it_and_one_after_does(world) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:00"))
    here.runner.note("night", outcome="changed", trigger="manual")
    assert len(here.look("2026-01-01T03:30")) == 1
    here.clock.set(at("2026-01-02T03:30:05"))
    here.runner.note("night", outcome="changed", trigger="manual")
    assert here.look("2026-01-02T03:31") == []


def test_jobs_with_lines_of_their_own_run_beside_the_night(world) -> None:
    here = world(decay="0 */6 * * *", dream="off")

    assert sorted(run[0] for run in here.look("2026-01-01T07:00")) == ["decay", "night"]
    assert [run[0] for run in here.look("2026-01-01T12:00")] == ["decay"]
    assert here.scheduler.next_runs() == {"night": at("2026-01-02T03:30"), "decay": at("2026-01-01T18:00")}


def test_what_is_off_never_runs(world) -> None:
    here = world(night="off")

    assert here.look("2026-02-01T00:00") == []
    assert here.scheduler.next_runs() == {}


def test_a_pause_holds_runs_back_and_lets_one_go_at_its_end(world) -> None:
    here = world()
    here.runner.paused = True
    assert here.look("2026-01-05T12:00") == []
    here.runner.paused = False

    assert len(here.look("2026-01-05T13:00")) == 1


def test_a_damaged_store_is_left_alone(world) -> None:
    here = world()
    here.shelf.damage = ["memories holds 1 of 501 points"]

    assert here.look("2026-01-05T12:00") == []


def test_what_runs_or_waits_is_not_begun_again(world) -> None:
    here = world()
    here.runner.active.add("night")

    assert here.look("2026-01-05T12:00") == []


@pytest.mark.parametrize(
    ("outcome", "reason", "trigger", "goes_on"),
    [
        ("cancelled", "stopping", "schedule", True),
        ("cancelled", "stopping", "catch_up", True),
        ("cancelled", "stopping", "manual", False),
        ("cancelled", "cut_off", "schedule", False),
        ("cancelled", "dream: deadline", "schedule", False),
        ("failed", "internal", "schedule", False),
        ("changed", None, "schedule", False),
    ],
)
def test_what_a_stop_cut_short_goes_on_and_what_crashed_waits_for_its_time(
    world, outcome, reason, trigger, goes_on
) -> None:
    """A night that kills the daemon must not kill it again at every start."""
    here = world()
    here.clock.set(at("2026-01-01T03:30"))
    here.runner.note("night", outcome=outcome, reason=reason, trigger=trigger)

    assert bool(here.look("2026-01-01T03:40")) is goes_on
    assert here.look("2026-01-01T03:41") == []


def test_a_clock_that_ran_ahead_and_was_set_back_loses_no_night(world) -> None:
    here = world()
    here.look("2031-06-01T12:00")
    assert here.look("2026-01-01T12:00") == []
    nights = [len(here.look(f"2026-01-{day:02d}T03:{minute}")) for day in range(2, 6) for minute in (29, 31, 50)]

    assert nights == [0, 1, 0] * 4


# In a whole daemon.


async def caught_up(daemon: Daemon) -> None:
    """Until what was owed at the start has ended."""
    await daemon.app.scheduler.run_owed()
    while daemon.parts.runner._tasks:
        await asyncio.wait(daemon.parts.runner._tasks)


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


def test_a_night_that_a_stop_cut_short_goes_on_at_the_next_start(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons().start()
    daemon.beat(0.3)
    run = daemon.parts.runner._record("night", "schedule", daemon.clock.now())
    daemon.in_lane(
        daemon.stores.ledger.start_run, run._replace(outcome="cancelled", reason="stopping", ended_at=run.started_at)
    )
    daemon.restart()
    daemon.run(caught_up(daemon))

    assert [one["outcome"] for one in daemon.call("runs", job="night")["runs"]] == ["unchanged", "cancelled"]


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
    assert [run["trigger"] for run in daemon.call("runs", job="night")["runs"]] == ["catch_up"]
