"""What is owed: once after any absence, never twice for one time, and not soon after a run that ended well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.presence import OWED_SINCE
from daemon.scheduler import WallClock
from storage.errors import Unavailable
from storage.model import DAY
from tests.daemon.scheduling import NEW_YEAR, ZONES, World, at

minutes = st.integers(0, 1439)


@pytest.fixture
def world(tmp_path) -> Callable[..., World]:
    made: list[World] = []

    def make(**options: Any) -> World:
        made.append(World(tmp_path, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("zone", ZONES[:3])
def test_a_daemon_that_is_always_there_runs_one_night_a_local_day(world, zone) -> None:
    """It looks every four hours, at odd minutes, through a whole year of clock changes."""
    here = world(timezone=zone, night="30 2 * * *", start=at("2025-12-31T12:00", zone))
    while here.clock.now() < at("2026-12-31T12:00", zone):
        here.clock.advance(13_740.0)
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


def test_e8_a_run_by_hand_takes_the_place_of_the_scheduled_one_right_after_it(world) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:00"))
    here.runner.note("night", outcome="unchanged", trigger="manual")

    assert here.look("2026-01-01T03:30") == []
    assert here.runner.skipped == [("night", "schedule", "ran 30 min ago", None)]


def test_e8_a_night_caught_up_in_the_evening_is_not_repeated_at_its_next_time(world) -> None:
    here = world()
    assert len(here.look("2026-01-01T22:00")) == 1
    looks = [here.look(f"2026-01-02T{time}") for time in ("03:29", "03:30", "03:31", "12:00")]

    assert looks == [[], [], [], []]
    assert here.runner.skipped == [("night", "schedule", "ran 5.5 h ago", None)]
    assert [run[2] for run in here.look("2026-01-03T03:30")] == ["schedule"]


def test_what_is_skipped_late_says_how_late(world) -> None:
    here = world()
    here.look("2026-01-01T22:00")

    assert here.look("2026-01-02T08:00") == []
    assert here.runner.skipped == [("night", "catch_up", "ran 10.0 h ago", 4.5 * 3600)]
    assert here.missed == ["night"]  # the first of January, and not the second


def test_a_job_may_run_as_often_as_its_line_says(world) -> None:
    here = world(night="off", prune="0 * * * *", decay="*/10 * * * *")
    for minute in range(1, 241):
        here.look((datetime(2026, 1, 1) + timedelta(minutes=minute)).isoformat())

    assert Counter(run[0] for run in here.runner.runs) == {"prune": 4, "decay": 24}
    assert here.runner.skipped == []


@pytest.mark.parametrize(("minutes_before", "runs"), [(719, False), (720, True), (721, True)])
def test_half_of_the_interval_is_the_least_gap(world, minutes_before, runs) -> None:
    here = world(start=at("2026-01-01T12:00"))
    here.clock.set(at("2026-01-02T03:30") - minutes_before * 60)
    here.runner.note("night", outcome="changed", trigger="manual")

    assert bool(here.look("2026-01-02T03:30")) is runs


@pytest.mark.parametrize(
    "former",
    [
        {"outcome": "failed", "reason": "internal"},
        {"outcome": "cancelled", "reason": "dream: deadline"},
        {"outcome": "skipped", "reason": "ran 5 h ago"},
        {"outcome": "changed", "dry_run": True},
    ],
)
def test_only_a_real_run_that_ended_well_takes_the_place_of_another(world, former) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:00"))
    here.runner.note("night", **former)

    assert len(here.look("2026-01-01T03:30")) == 1


def test_a_run_by_hand_after_the_time_was_met_leaves_nothing_to_do(world) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:30:05"))
    here.runner.note("night", outcome="failed", trigger="manual")

    assert here.look("2026-01-01T03:31") == []
    assert here.runner.skipped == []


sleeps = st.lists(st.integers(1, 4 * 24 * 60), min_size=1, max_size=30)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe"]),
    minutes,
    sleeps,
    st.integers(0, 365),
)
def test_e7_whenever_it_looks_what_was_missed_is_owed_once_and_never_soon_after_a_run(zone, minute, sleep, day) -> None:
    """Whatever the host sleeps through, and whenever clocks change: at most one run a look, then none; no two within a night."""
    with TemporaryDirectory() as folder:
        line = f"{minute % 60} {minute // 60} * * *"
        here = World(Path(folder), start=NEW_YEAR + day * DAY, timezone=zone, night=line)
        trigger, met = WallClock(line, ZoneInfo(zone)), NEW_YEAR + day * DAY
        for length in sleep:
            here.clock.advance(length * 60.0)
            now = here.clock.now()
            due, told = trigger.after(met), len(here.runner.runs) + len(here.runner.skipped)
            here.look()
            assert len(here.runner.runs) + len(here.runner.skipped) - told == (due <= now)
            assert here.look() == []
            met = now if due <= now else met
        here.close()
    begun = [run[1] for run in here.runner.runs]
    assert all(after - before >= 11.5 * 3600 for before, after in pairwise(begun))
    assert all(late is None or late > 120 for *_, late in here.runner.runs)


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
    ("outcome", "reason", "fields", "goes_on"),
    [
        ("cancelled", "stopping", {}, True),
        ("cancelled", "stopping", {"trigger": "catch_up"}, True),
        ("cancelled", "stopping", {"trigger": "manual"}, False),
        ("cancelled", "stopping", {"parent": "a night, which goes on by itself"}, False),
        ("cancelled", "stopping", {"dry_run": True}, False),
        ("cancelled", "cut_off", {}, True),
        ("cancelled", "cut_off", {"trigger": "manual"}, False),
        ("cancelled", "dream: deadline", {}, False),
        ("failed", "internal", {}, False),
        ("changed", None, {}, False),
    ],
)
def test_what_a_stop_or_a_crash_cut_short_goes_on_once(world, outcome, reason, fields, goes_on) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:30"))
    here.runner.note("night", outcome="unchanged")
    here.clock.advance(1)
    here.runner.note("night", outcome=outcome, reason=reason, **fields)

    assert [run[2] for run in here.look("2026-01-01T03:31")] == ["catch_up"] * goes_on
    assert here.look("2026-01-01T03:32") == []
    assert (here.missed, here.runner.skipped) == ([], [])


def test_what_crashes_again_when_it_goes_on_waits_for_its_next_time(world) -> None:
    """A night that kills the daemon must not kill it again at every start."""
    here = world()
    for time in ("03:30", "03:32"):
        here.clock.set(at(f"2026-01-01T{time}"))
        here.runner.note("night", outcome="cancelled", reason="cut_off")

    assert here.look("2026-01-01T03:34") == []
    assert here.look("2026-01-02T03:29") == []
    assert len(here.look("2026-01-02T03:30")) == 1


def test_what_crashed_once_a_night_goes_on_once_a_night(world) -> None:
    here = world()
    for day in ("01", "02"):
        here.clock.set(at(f"2026-01-{day}T03:30"))
        here.runner.note("night", outcome="cancelled", reason="cut_off")
        assert len(here.look(f"2026-01-{day}T03:32")) == 1


def test_what_goes_on_after_hours_says_so_and_was_not_missed(world) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:30"))
    here.runner.note("night", outcome="cancelled", reason="stopping")

    assert [run[2:] for run in here.look("2026-01-01T09:30")] == [("catch_up", 6 * 3600.0)]
    assert here.missed == []


def test_what_goes_on_after_days_was_not_missed_but_what_was_due_since_was(world) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:30"))
    here.runner.note("night", outcome="cancelled", reason="stopping")

    assert [run[2:] for run in here.look("2026-01-04T12:00")] == [("catch_up", 3 * DAY + 8.5 * 3600)]
    assert here.missed == ["night"]
    assert here.look("2026-01-04T12:01") == []


def test_what_was_undone_since_does_not_go_on(world) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:30"))
    here.runner.note("night", outcome="cancelled", reason="stopping", undone_by="an undo")

    assert here.look("2026-01-01T04:00") == []
    assert [run[2] for run in here.look("2026-01-02T03:30")] == ["schedule"]


@pytest.mark.parametrize("reason", ["decay: unavailable", "dedup: corrupt", "unavailable"])
def test_what_ended_since_the_store_was_away_goes_on_once_an_hour_later(world, reason) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:30"))
    here.runner.note("night", outcome="failed", reason=reason)
    assert here.look("2026-01-01T03:31") == []
    assert here.look("2026-01-01T04:29") == []

    assert [run[2] for run in here.look("2026-01-01T04:30")] == ["catch_up"]
    assert here.look("2026-01-01T04:31") == []
    assert here.missed == []


@pytest.mark.parametrize("first", [("failed", "decay: unavailable"), ("cancelled", "cut_off")])
def test_a_store_that_stays_away_makes_no_night_an_hour(world, first) -> None:
    here = world()
    for time, (outcome, reason) in (("03:30", first), ("04:30", ("failed", "hebbian: unavailable"))):
        here.clock.set(at(f"2026-01-01T{time}"))
        here.runner.note("night", outcome=outcome, reason=reason)
    looks = [here.look(f"2026-01-01T{hour:02d}:{minute}") for hour in range(5, 24) for minute in (10, 31)]

    assert looks == [[]] * len(looks)
    assert len(here.look("2026-01-02T03:30")) == 1


def test_a_run_that_was_refused_counts_as_missed_once_it_is_taken(world) -> None:
    here = world()
    here.runner.refusal = Unavailable("16 runs wait already.", hint="dreamctl jobs")
    for minute in range(5):
        assert here.look(f"2026-01-01T03:4{minute}") == []
    assert here.missed == []
    here.runner.refusal = None

    assert len(here.look("2026-01-01T03:45")) == 1
    assert here.missed == ["night"]


def test_a_time_is_missed_once_however_often_its_run_is_begun_in_vain(world) -> None:
    here = world()
    here.runner.loses = True
    for day in ("01", "01", "02"):
        here.look(f"2026-01-{day}T08:00")

    assert here.missed == ["night"]
    here.runner.loses = False
    assert len(here.look("2026-01-02T09:00")) == 1
    here.look("2026-01-04T12:00")
    assert here.missed == ["night", "night"]


def test_a_line_that_overruns_is_missed_once_when_its_next_run_begins_late(world) -> None:
    here = world(night="off", dream="0 * * * *")
    assert len(here.look("2026-01-01T01:00")) == 1
    here.runner.active.add("dream")
    assert [here.look(f"2026-01-01T{time}") for time in ("02:00", "02:01", "03:00")] == [[]] * 3
    assert here.missed == []
    here.runner.active.clear()

    assert [run[2:] for run in here.look("2026-01-01T03:10")] == [("catch_up", 70 * 60.0)]
    assert here.missed == ["dream"]


def test_a_pause_holds_back_what_goes_on_too(world) -> None:
    here = world()
    here.clock.set(at("2026-01-01T03:30"))
    here.runner.note("night", outcome="cancelled", reason="stopping")
    here.runner.paused = True
    assert here.look("2026-01-01T04:00") == []
    here.runner.paused = False

    assert len(here.look("2026-01-01T05:00")) == 1


def test_while_the_clock_is_certainly_wrong_nothing_runs(world) -> None:
    here = world()
    assert here.look("1970-01-03T12:00") == []
    assert here.runner.skipped == []
    ((*_, late_by),) = here.look("2026-01-02T03:30")

    assert late_by == DAY


def test_a_folder_made_while_the_clock_was_wrong_owes_no_night_once_it_is_right(world) -> None:
    here = world(start=0.0)
    here.ledger.set_fact(OWED_SINCE, None)
    assert here.look("1970-01-05T12:00") == []
    assert here.look("2026-01-02T12:00") == []

    assert [run[2] for run in here.look("2026-01-03T03:30")] == ["schedule"]


@pytest.mark.parametrize("minutes_back", [1, 59, 60])
def test_a_night_is_not_repeated_since_the_clock_was_set_back_a_little(world, minutes_back) -> None:
    """A host on which another system keeps its clock in local time: it is an hour ahead until the network corrects it."""
    here = world(start=at("2026-01-01T12:00"))
    assert len(here.look("2026-01-02T10:00")) == 1
    here.clock.set(here.clock.now() - minutes_back * 60.0)
    assert here.look() == []
    assert here.look("2026-01-02T11:00") == []

    assert here.runner.skipped == [
        ("night", "catch_up", "ran just before the clock was set back", (390 - minutes_back) * 60.0)
    ]
    assert len(here.look("2026-01-03T03:30")) == 1


def test_what_was_due_before_the_clock_was_set_back_is_not_owed_though_no_run_tells(world) -> None:
    """Nights ran by a clock that was days ahead; the days which it went through a second time begin where it was set to."""
    here = world()
    here.look("2026-01-01T03:30")
    here.clock.set(at("2026-01-20T03:30"))
    here.runner.note("night", outcome="changed")
    here.ledger.set_fact(OWED_SINCE, at("2026-01-03T12:00"))  # as the heartbeat notes it

    assert here.look("2026-01-03T12:00") == []
    assert [run[2] for run in here.look("2026-01-04T03:30")] == ["schedule"]


def test_runs_of_a_future_that_did_not_come_keep_no_night_from_being_caught_up(world) -> None:
    """The clock said 2031, a night ran, and it was set back; later the host is off for three days."""
    here = world()
    here.look("2031-06-01T12:00")
    here.ledger.set_fact(OWED_SINCE, at("2026-01-01T12:00"))  # as the heartbeat notes it
    assert here.look("2026-01-01T12:00") == []
    nights = [len(here.look(f"2026-01-{day:02d}T03:{minute}")) for day in range(2, 6) for minute in (29, 31, 50)]
    ((*_, late_by),) = here.look("2026-01-08T12:00")

    assert nights == [0, 1, 0] * 4
    assert late_by == 2 * DAY + 8.5 * 3600


def test_a7_a_run_of_a_future_that_did_not_come_takes_the_place_of_none_when_its_date_does(world) -> None:
    """The clock was eight days ahead, a night ran, and it was set back; every night until then and after takes place."""
    here = world()
    assert len(here.look("2026-01-10T03:30")) == 1
    here.ledger.set_fact(OWED_SINCE, at("2026-01-02T12:00"))  # as the heartbeat notes it
    nights = [len(here.look(f"2026-01-{day:02d}T03:{minute}")) for day in range(3, 13) for minute in (29, 30, 50)]

    assert nights == [0, 1, 0] * 10
