"""Cron lines as the times that a clock on the wall shows: each once a local day, whatever the clocks do."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.scheduler import WallClock
from storage.model import DAY
from tests.daemon.scheduling import NEW_YEAR, ZONES, at

zones = st.sampled_from(ZONES)
minutes = st.integers(0, 1439)


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


@pytest.mark.parametrize(
    ("zone", "day"), [("America/Sao_Paulo", date(2018, 11, 4)), ("Africa/Cairo", date(2026, 4, 24))]
)
def test_c17_a_midnight_that_is_skipped_comes_an_hour_later_on_that_day(zone, day) -> None:
    """Clocks that go forward at midnight: the day begins at one o'clock, and has its one run."""
    trigger = WallClock("0 0 * * *", ZoneInfo(zone))
    fire = trigger.after(datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo(zone)).timestamp() - DAY)
    following = trigger.after(fire)

    assert datetime.fromtimestamp(fire, ZoneInfo(zone)).replace(tzinfo=None) == datetime(
        day.year, day.month, day.day, 1
    )
    assert datetime.fromtimestamp(following, ZoneInfo(zone)).date() == day + timedelta(days=1)
    assert following - fire == 23 * 3600


def test_a_leap_day_comes_every_four_years() -> None:
    found = fires("30 3 29 feb *", "Europe/Berlin", date(2026, 1, 1), date(2036, 12, 31))

    assert [datetime.fromtimestamp(fire, ZoneInfo("Europe/Berlin")).isoformat()[:16] for fire in found] == [
        "2028-02-29T03:30", "2032-02-29T03:30", "2036-02-29T03:30",
    ]  # fmt: skip
    assert WallClock("30 3 29 feb *", ZoneInfo("Europe/Berlin")).interval(found[1]) == found[1] - found[0]


def test_the_29th_of_february_has_its_night_like_any_day() -> None:
    found = fires("30 3 * * *", "UTC", date(2028, 2, 28), date(2028, 3, 1))

    assert [datetime.fromtimestamp(fire, UTC).date() for fire in found] == [
        date(2028, 2, 28), date(2028, 2, 29), date(2028, 3, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "due", "hours"),
    [
        ("0 * * * *", "2026-01-05T07:00", 1),
        ("30 3 * * *", "2026-01-05T03:30", 24),
        ("30 3 * * mon-fri", "2026-01-05T03:30", 72),  # a Monday
        ("0 3,22 * * *", "2026-01-05T03:00", 5),
        ("0 3,22 * * *", "2026-01-05T22:00", 19),
        ("* * * * *", "2026-01-05T22:00", 1 / 60),
        ("0 0 1 jan *", "2026-01-01T00:00", 365 * 24),
    ],
)
def test_the_interval_at_a_time_is_what_passed_since_the_one_before(line, due, hours) -> None:
    assert WallClock(line, ZoneInfo("UTC")).interval(at(due)) == pytest.approx(hours * 3600)


@settings(deadline=None, max_examples=30)
@given(
    zones, st.floats(NEW_YEAR, NEW_YEAR + 366 * DAY),
    st.sampled_from(["30 2 * * *", "*/30 * * * *", "15 0-4 * * *", "0 4 * * sun", "30 2 29 feb *", "59 23 31 * *"]),
)  # fmt: skip
def test_the_time_before_is_found_for_every_line(zone, now, line) -> None:
    trigger = WallClock(line, ZoneInfo(zone))
    due = trigger.after(now)
    before = due - trigger.interval(due)

    assert trigger.after(before) == due
    assert trigger.after(before - 0.001) == pytest.approx(before, abs=1e-6)


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
