"""A clock that never says a time which cannot be, and whose time does not stand still meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.clock import EARLIEST, SteadyClock, SystemClock
from tests.fakes import SettableClock

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def test_a_clock_that_may_be_right_is_believed() -> None:
    host = SettableClock(NOW)
    steady = SteadyClock(host)
    host.set(NOW + 7e7)
    assert (steady.now(), steady.is_wrong) == (NOW + 7e7, False)
    host.set(NOW - 3e7)
    assert (steady.now(), steady.is_wrong) == (NOW - 3e7, False)


def test_a_clock_at_1970_is_wrong_and_time_goes_on_from_the_last_known_instant() -> None:
    host = SettableClock(40.0)
    steady = SteadyClock(host)
    steady.go_on_from(NOW)
    host.advance(90.5)

    assert (steady.now(), steady.is_wrong, steady.host_now) == (NOW + 90.5, True, 130.5)


def test_without_a_known_instant_it_begins_at_the_earliest_that_can_be() -> None:
    host = SettableClock(40.0)
    steady = SteadyClock(host)
    host.advance(5.0)
    assert steady.now() == EARLIEST + 5.0
    steady.go_on_from(0.0)
    assert steady.now() == EARLIEST


def test_a_clock_that_is_right_does_not_go_on_from_anything() -> None:
    host = SettableClock(NOW)
    steady = SteadyClock(host)
    steady.go_on_from(NOW + 7e7)
    assert steady.now() == NOW
    host.set(0.0)
    assert steady.now() == NOW


def test_a_clock_that_fails_while_it_runs_goes_on_from_where_it_was() -> None:
    host = SettableClock(NOW)
    steady = SteadyClock(host)
    host.advance(10.0)
    assert steady.now() == NOW + 10.0
    host.set(0.0)
    host.advance(3_600.0)
    assert steady.now() == NOW + 3_610.0
    host.set(NOW + 9e6)
    assert (steady.now(), steady.is_wrong) == (NOW + 9e6, False)


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 1e6)), max_size=20), st.floats(0.0, 2 * NOW))
def test_while_the_host_is_wrong_as_much_time_passes_as_really_does(steps, known) -> None:
    host = SettableClock(0.0)
    steady = SteadyClock(host)
    steady.go_on_from(known)
    began = steady.now()
    passed = 0.0
    for back, seconds in steps:
        host.advance(seconds)
        passed += seconds
        if back:
            host.set(0.0)
        assert steady.now() == pytest.approx(began + passed, abs=1e-3)
        assert steady.now() >= EARLIEST


def test_all_else_is_the_host_s() -> None:
    host, same = SettableClock(), SettableClock()
    steady = SteadyClock(host)
    host.advance(7.0)

    assert steady.monotonic() == 7.0
    assert steady.new_id() == same.new_id()
    assert steady.rng(3).random() == same.rng(3).random()


def test_the_system_s_clock_is_right_and_counts_whole_microseconds() -> None:
    steady = SteadyClock(SystemClock())
    now = steady.now()

    assert not steady.is_wrong
    assert now == round(now, 6)
    assert steady.monotonic() <= steady.monotonic()
    assert steady.new_id() != steady.new_id()
