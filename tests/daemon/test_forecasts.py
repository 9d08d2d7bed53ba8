"""A look ahead as lines of text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.forecasts import FLOWS, ROWS, before, curve, parts, summed
from daemon.output import render
from daemon.terminal import Screen
from jobs.simulate import Day
from tests.daemon.answers import SIMULATED_DAY, simulated


def shown(result: dict[str, Any], width: int | None = None) -> list[str]:
    return list(render("simulate", result, Screen(width, colour=False, now=0.0)))


def test_a_few_days_are_a_row_each() -> None:
    days = simulated([(1_000, 5, 0, 0), (996, 6, 2, 0), (1_003, 0, 7, 1)])

    assert shown(days) == [
        "1,005 memories now, 1,003 live after 3 days with zipf recalls.",
        "live  ███",
        "DAY  DATE         LIVE  FADED  RETURNED  LOST  PURGED  BIN  EDGES",
        "  1  2026-01-02  1,000      5         0     0       0    9  1,234",
        "  2  2026-01-03    996      6         2     0       0    9  1,234",
        "  3  2026-01-04  1,003      0         7     1       0    9  1,234",
        "Returned: needed while in the bin, and brought back. Lost: needed for the first time after it was purged.",
    ]


def test_a_year_is_few_rows_in_which_what_happened_is_summed_up() -> None:
    lines = shown(simulated([(365 - n, 1, 0, 2) for n in range(1, 366)]))

    assert lines[0] == "365 memories now, 0 live after 365 days with zipf recalls."
    assert len(lines[1]) <= len("live  ") + 60
    assert [line.split()[0] for line in lines[3:-2]] == [str(n) for n in (*range(23, 366, 23), 365)]
    assert lines[3].split()[2:6] == ["342", "23", "0", "46"]
    assert lines[-3].split()[2:6] == ["0", "20", "0", "40"]
    assert lines[-2] == "What happened is told since the row before; --json has every day."


@pytest.mark.parametrize("name", ["expired", "merged"])
def test_what_seldom_happens_has_a_column_where_it_happens(name: str) -> None:
    result = simulated([(5, 0, 0, 0), (4, 0, 0, 0)])
    assert name.upper() not in shown(result)[2]
    result["rows"][1][name] = 1

    assert name.upper() in shown(result)[2]


def test_a_day_without_recalls_and_without_memories_is_told_too() -> None:
    assert shown(simulated([(0, 0, 0, 0)]) | {"recalls": "none"})[:2] == [
        "0 memories now, 0 live after 1 day with no recalls.", "live",
    ]  # fmt: skip


def test_the_table_fits_a_terminal() -> None:
    assert max(len(line) for line in shown(simulated([(20_000 - n, 1, 0, 2) for n in range(365)]), 80)) <= 80


def test_what_there_was_before_the_first_day_follows_from_it() -> None:
    first = SIMULATED_DAY | {"live": 10, "bin": 5, "faded": 3, "expired": 2, "merged": 1, "returned": 4, "purged": 6}

    assert before(first) == (12, 9)


@given(st.integers(1, 4_000))
def test_parts_are_few_and_hold_every_day_once(count: int) -> None:
    days = simulated([(count, 1, 2, 3)] * count)["rows"]
    split = list(parts(days, ROWS))
    sums = [summed(part) for part in split]

    assert len(split) <= ROWS
    assert len({len(part) for part in split[:-1]}) <= 1
    assert [day for part in split for day in part] == days
    assert [sum(one[name] for one in sums) for name in FLOWS] == [sum(day[name] for day in days) for name in FLOWS]
    assert sums[-1]["day"] == count


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=400), st.integers(1, 80))
def test_a_curve_is_as_wide_as_it_may_and_ends_with_the_last_value(values: list[int], width: int) -> None:
    drawn = curve(values, width)

    assert len(drawn) == min(width, len(values))
    assert (drawn[-1] == " ") == (values[-1] == 0)
    if values[-1] == max(values) > 0:
        assert drawn[-1] == "█"


def test_every_flow_is_a_field_of_a_day() -> None:
    assert set(FLOWS) < set(Day._fields) == SIMULATED_DAY.keys()
