"""Rotation: of the nights' snapshots the newest of each of the last days, weeks and months stays, whatever the clock does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.model import DAY
from storage.rotation import rotated

ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/Los_Angeles", "Pacific/Apia", "Asia/Kolkata")]
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z

instants = st.floats(0.0, NOW + 400 * DAY)
near = st.floats(NOW - 500 * DAY, NOW + 40 * DAY)
snapshots = st.dictionaries(st.text("abcdef", min_size=1, max_size=5), instants | near, max_size=60)
zones = st.sampled_from(ZONES)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def nights(*texts: str) -> dict[str, float]:
    return {text: at(text) for text in texts}


def after(taken: Mapping[str, float], now: float, zone: ZoneInfo) -> dict[str, float]:
    gone = rotated(taken, now, zone)
    return {name: when for name, when in taken.items() if name not in gone}


def stays(taken: Mapping[str, float], name: str, now: float, zone: ZoneInfo) -> bool:
    """The rule as it reads: it is the newest of its period, and fewer than so many later periods have one."""
    for form, count in (("%Y-%m-%d", 7), ("%G-%V", 4), ("%Y-%m", 6)):
        period = {one: datetime.fromtimestamp(when, zone).strftime(form) for one, when in taken.items() if when <= now}
        newest = max((taken[one], one) for one in period if period[one] == period[name])[1]
        later = {other for other in period.values() if other > period[name]}
        if newest == name and len(later) < count:
            return True
    return False


@settings(deadline=None)
@given(snapshots, near, zones)
def test_the_newest_of_the_last_days_weeks_and_months_stay_and_all_others_go(taken, now, zone) -> None:
    gone = rotated(taken, now, zone)

    assert set(gone) == {name for name, when in taken.items() if when <= now and not stays(taken, name, now, zone)}
    assert gone == sorted(gone, key=lambda name: (taken[name], name))


@settings(deadline=None)
@given(snapshots, near, zones)
def test_the_newest_never_goes_and_no_more_than_seventeen_stay(taken, now, zone) -> None:
    past = {name: when for name, when in taken.items() if when <= now}
    left = after(past, now, zone)

    assert len(left) <= 17
    assert bool(left) == bool(past)
    assert max(left.values(), default=None) == max(past.values(), default=None)


@settings(deadline=None)
@given(snapshots, near, zones)
def test_what_stays_stays_at_the_next_look_and_time_alone_takes_nothing(taken, now, zone) -> None:
    left = after({name: when for name, when in taken.items() if when <= now}, now, zone)

    for later in (now, now + DAY, now + 400 * DAY):
        assert rotated(left, later, zone) == []


@settings(deadline=None)
@given(snapshots, near, zones)
def test_what_is_from_the_future_neither_goes_nor_takes_the_place_of_another(taken, now, zone) -> None:
    past = {name: when for name, when in taken.items() if when <= now}

    assert rotated(taken, now, zone) == rotated(past, now, zone)


@settings(deadline=None)
@given(snapshots, near, st.floats(0.0, 30_000 * DAY), zones)
def test_a_clock_that_jumps_takes_no_more_than_one_more_night_would(taken, now, jump, zone) -> None:
    """One day, one week and one month at most lose their snapshot, however far it jumps; a later day does not matter."""
    left = after({name: when for name, when in taken.items() if when <= now}, now, zone)

    ahead = rotated(left | {"new": now + jump}, now + jump, zone)
    assert len(ahead) <= 3
    assert set(ahead) <= {
        *rotated(left | {"new": now + 40 * DAY}, now + 40 * DAY, zone),
        max(left, default="", key=left.get),
    }
    back = now - jump
    assert set(rotated(left | {"new": back}, back, zone)) <= {name for name, when in left.items() if when <= back}


def test_a_year_of_nights_leaves_a_week_of_days_a_month_of_weeks_and_half_a_year_of_months() -> None:
    taken: dict[str, float] = {}
    most = 0
    for night in range(365):
        now = at("2025-01-01T03:30") + night * DAY
        taken[f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d}"] = now
        taken = after(taken, now, ZONES[0])
        most = max(most, len(taken))

    assert list(taken) == [
        "2025-07-31", "2025-08-31", "2025-09-30", "2025-10-31", "2025-11-30", "2025-12-14", "2025-12-21",
        *(f"2025-12-{day}" for day in range(25, 32)),
    ]  # fmt: skip
    assert most <= 17


def test_of_several_in_a_day_the_last_stays() -> None:
    taken = nights("2026-01-01T03:30", "2026-01-01T09:00", "2026-01-01T21:00", "2026-01-02T03:30")

    assert rotated(taken, at("2026-01-02T03:30"), ZONES[0]) == ["2026-01-01T03:30", "2026-01-01T09:00"]


def test_a_week_of_another_year_is_another_week() -> None:
    """The second week of 2025 is none of the last four in that of 2026."""
    weeks = ["2025-01-08", "2025-12-10", "2025-12-17", "2025-12-24", "2026-01-04"]
    taken = nights(*weeks, *(f"2026-01-{day:02}" for day in range(5, 12)))

    assert rotated(taken, at("2026-01-11"), ZONES[0]) == ["2025-12-10"]


@pytest.mark.parametrize(("zone", "gone"), [("UTC", []), ("Europe/Berlin", ["new year's eve"])])
def test_days_begin_where_the_schedule_lives(zone, gone) -> None:
    """Half past eleven in the evening and half past two at night by UTC: of one day in Berlin, and of one year."""
    taken = {"new year's eve": at("2025-12-31T23:30"), "new year": at("2026-01-01T02:30")}

    assert rotated(taken, at("2026-01-01T02:30"), ZoneInfo(zone)) == gone


def test_the_days_on_which_the_clocks_change_are_days_as_others() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    hours = [at("2026-03-28T00:00") + 3600 * n for n in range(72)]
    taken = {str(n): when for n, when in enumerate(hours)}

    left = after(taken, hours[-1], berlin)

    shown = [f"{datetime.fromtimestamp(when, berlin):%m-%d %H}" for when in left.values()]
    assert shown == ["03-28 23", "03-29 23", "03-30 23", "03-31 01"]


def test_after_months_of_absence_no_more_goes_than_after_a_night() -> None:
    """By the calendar, all that was kept would be too old by then."""
    taken = {f"{n:03}": at("2025-01-01T03:30") + n * DAY for n in range(120)}
    left = after(taken, at("2025-05-01T03:30"), ZONES[0])
    back = at("2026-01-01T03:30")

    assert len(left) == 12
    assert rotated(left | {"new": back}, back, ZONES[0]) == ["102", "113"]  # the fifth week, the eighth day
