"""Absences and jumps of the clock: what nobody was there for makes nothing older, and no clock makes anything go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.clock import EARLIEST
from daemon.presence import ABSENT_SECONDS, HEARTBEAT, OWED_SINCE, Presence, note_heartbeat
from storage.errors import Unavailable
from storage.fading import Awake
from storage.model import DAY
from tests.daemon.scheduling import runs_ended
from tests.fakes import SettableClock
from tests.harness import BY_HAND, Daemon, started

YEAR = 365 * DAY
NOW = 1_767_225_600.0


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    """Awake just now."""
    beat(shared)
    return shared


def beat(daemon: Daemon) -> None:
    daemon.run(daemon.app.background.heartbeat())


def absences(daemon: Daemon) -> list[tuple[float, float]]:
    return daemon.in_lane(daemon.stores.ledger.absences)


def fact(daemon: Daemon, key: str) -> Any:
    return daemon.in_lane(daemon.stores.ledger.fact, key)


# Gaps.


@pytest.mark.parametrize(
    ("silence", "absent"), [(60, False), (3_599, False), (3_600, False), (3_601, True), (86_400, True)]
)
def test_more_than_an_hour_without_a_heartbeat_is_an_absence(daemon: Daemon, silence, absent) -> None:
    before, since = absences(daemon), daemon.clock.now()
    daemon.clock.advance(silence)
    beat(daemon)

    assert absences(daemon) == before + [(since, daemon.clock.now())] * absent
    assert daemon.stores.awake.seconds(since, daemon.clock.now()) == (0.0 if absent else silence)


def test_a_host_that_sleeps_and_a_clock_that_is_set_forth_are_both_absences(daemon: Daemon) -> None:
    """The wall clock moves and the monotonic one stands still: the daemon was not there, or the clock was wrong before."""
    before, since = absences(daemon), daemon.clock.now()
    daemon.clock.set(since + 9 * DAY)
    beat(daemon)

    assert absences(daemon) == [*before, (since, since + 9 * DAY)]


def test_time_that_was_slept_through_makes_nothing_older(daemon: Daemon) -> None:
    memory = daemon.remember("the fox sleeps")
    daemon.clock.advance(30 * DAY)

    assert daemon.call("get", id=memory)["retention"] == pytest.approx(1.0, abs=1e-3)


def test_whatever_asks_first_after_a_long_sleep_knows_of_it(daemon: Daemon) -> None:
    """No heartbeat has come yet: an edge that is strengthened, a merge, a job by hand must not take the sleep for time."""
    one, other = daemon.remember("the fox of the north"), daemon.remember("the owl of the north")
    daemon.call("connect", a=one, b=other, weight=1.0)
    daemon.clock.advance(60 * DAY)
    connected = daemon.call("connect", a=one, b=other, weight=1.0)

    assert connected["weight"] == pytest.approx(2.0)
    daemon.clock.advance(60 * DAY)
    assert daemon.call("run_job", name="prune")["outcome"] == "unchanged"
    assert daemon.call("run_job", name="decay")["outcome"] == "unchanged"
    daemon.call("recall", query="of the north", k=2)
    daemon.clock.advance(60 * DAY)
    daemon.run(daemon.app.background.fold())
    (edge,) = daemon.call("neighbors", id=one)["neighbors"]
    assert edge["weight"] == pytest.approx(2.0 + 0.2 * (1 - 2.0 / 10))


def test_a_ledger_that_cannot_be_written_lets_calls_go_on_and_is_tried_again(daemon: Daemon) -> None:
    memory, since = daemon.remember("the fox waits"), daemon.clock.now()
    ledger = daemon.stores.ledger
    daemon.in_lane(ledger._db.execute, "PRAGMA query_only = ON")
    daemon.clock.advance(9 * DAY)
    assert daemon.call("get", id=memory)["content"] == "the fox waits"
    ledger._db.execute("PRAGMA query_only = OFF")
    daemon.clock.advance(60)
    daemon.call("get", id=memory)

    assert absences(daemon)[-1] == (since, since + 9 * DAY + 60)


class Locked:
    """Stores whose ledger cannot be used now, as long as somebody holds it; it notes how often it was tried."""

    def __init__(self, daemon: Daemon) -> None:
        self._ledger = daemon.stores.ledger
        self.held = True
        self.tries = 0

    @property
    def ledger(self) -> Any:
        self.tries += 1
        if self.held:
            raise Unavailable("The ledger cannot be used now: database is locked.", hint="dreamctl health")
        return self._ledger

    def reload_absences(self) -> None:
        pass


def test_a_ledger_that_is_locked_holds_up_one_call_a_minute_and_no_more(daemon: Daemon) -> None:
    stores: Any = Locked(daemon)
    clock = SettableClock(daemon.clock.now())
    presence = Presence(stores, clock)
    clock.advance(9 * DAY)
    tries = []
    for _ in range(3):
        before = stores.tries
        for _ in range(20):
            presence.look()
            clock.advance(2.95)
        tries.append(stores.tries - before)
        clock.advance(1.0)

    assert tries == [1, 1, 1]


@pytest.mark.parametrize("jump", [9 * DAY, -9 * DAY, -3_601.0])
def test_a_beat_that_came_through_after_a_look_failed_is_not_told_twice(daemon: Daemon, jump) -> None:
    beat(daemon)
    stores: Any = Locked(daemon)
    clock = SettableClock(daemon.clock.now())
    daemon.in_lane(note_heartbeat, daemon.stores, clock.now())
    presence = Presence(stores, clock)
    clock.set(clock.now() + jump)
    daemon.in_lane(presence.look)
    clock.advance(30)
    daemon.in_lane(note_heartbeat, daemon.stores, clock.now())
    told = absences(daemon), fact(daemon, OWED_SINCE), fact(daemon, HEARTBEAT)
    stores.held = False
    clock.advance(40)
    daemon.in_lane(presence.look)

    assert (absences(daemon), fact(daemon, OWED_SINCE), fact(daemon, HEARTBEAT)) == told
    daemon.in_lane(note_heartbeat, daemon.stores, daemon.clock.now())


# Steps back.


def test_a_clock_set_back_cuts_the_absences_that_end_later(daemon: Daemon) -> None:
    since = daemon.clock.now()
    for _ in range(2):
        daemon.clock.advance(2 * DAY)
        beat(daemon)
        daemon.clock.advance(60)
        beat(daemon)
    daemon.clock.set(since + DAY)
    beat(daemon)
    daemon.clock.advance(600)
    beat(daemon)

    assert absences(daemon)[-1] == (since, since + DAY)
    assert daemon.stores.awake.seconds(since, daemon.clock.now()) == 600.0


@pytest.mark.parametrize(("back", "noted"), [(30.0, False), (3_600.0, False), (3_601.0, True), (400 * DAY, True)])
def test_once_the_clock_was_set_back_by_more_than_an_hour_nothing_that_was_due_before_is_owed(
    daemon: Daemon, back, noted
) -> None:
    former, now = fact(daemon, OWED_SINCE), daemon.clock.now()
    daemon.clock.set(now - back)
    beat(daemon)

    assert fact(daemon, HEARTBEAT) == now - back
    assert fact(daemon, OWED_SINCE) == (now - back if noted else former)
    daemon.clock.set(now)


class Shelf:
    """What a heartbeat needs of the stores: a ledger, and the absences taken in from it."""

    def __init__(self, daemon: Daemon) -> None:
        self.ledger = daemon.stores.ledger

    def reload_absences(self) -> None:
        pass


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(-40 * DAY, 40 * DAY) | st.floats(-60.0, 3_600.0), min_size=1, max_size=20))
def test_awake_is_never_more_than_what_passed_without_a_jump(shared: Daemon, steps) -> None:
    """Whatever the clock does, no absence reaches beyond now, and only steps of up to an hour count as time awake."""

    def live() -> tuple[float, float, list[tuple[float, float]]]:
        ledger, now, quiet = shared.stores.ledger, NOW, 0.0
        try:
            with ledger.transaction():
                ledger.cut_absences(0.0)
                ledger.set_fact(HEARTBEAT, NOW)
                shelf: Any = Shelf(shared)
                for step in steps:
                    now += step
                    quiet += step if 0.0 < step <= ABSENT_SECONDS else 0.0
                    note_heartbeat(shelf, now)
                found = ledger.absences()
                raise RollBack
        except RollBack:
            return now, quiet, found

    now, quiet, found = shared.in_lane(live)
    assert all(since < until <= now for since, until in found)
    assert Awake(found).seconds(NOW, now) <= quiet + 1e-3


class RollBack(Exception):
    """Nothing of the transaction is to stay."""


# A clock that is certainly wrong.


@pytest.mark.parametrize("said", [30.0, 1_000_000_000.0, EARLIEST - 1_000.0])
def test_a_clock_before_this_program_is_told_once_and_jobs_wait_for_a_right_one(
    daemons: Callable[..., Daemon], capsys, said
) -> None:
    clock = SettableClock()
    daemon = daemons(clock=clock).start()
    daemon.beat(0.5)
    last, before = clock.now(), absences(daemon)
    daemon.stop()
    clock.set(said)
    daemon.start()
    for _ in range(3):
        daemon.run(daemon.app.scheduler.run_owed())
        clock.advance(60.0)
        beat(daemon)
    health = daemon.call("health")

    assert health["status"] == "degraded"
    (reason,) = (one for one in health["reasons"] if one["name"] == "clock")
    assert "cannot be" in reason["detail"]
    assert reason["hint"] == "timedatectl status"
    assert capsys.readouterr().out.count("background.clock_wrong") == 1
    assert daemon.call("runs")["runs"] == []
    assert absences(daemon) == before

    clock.set(last + 3 * DAY)
    beat(daemon)
    assert daemon.call("health")["status"] == "ok"
    assert absences(daemon) == [*before, (last + 180.0, last + 3 * DAY)]
    daemon.run(daemon.app.scheduler.run_owed())
    daemon.run(runs_ended(daemon.parts.runner))
    assert [run["trigger"] for run in daemon.call("runs", job="night")["runs"]] == ["catch_up"]


def test_b2_c17_what_happened_at_1970_is_as_old_as_it_is_once_the_clock_is_right(
    daemons: Callable[..., Daemon],
) -> None:
    """What was remembered, connected, recalled, forgotten or said while the clock was wrong is not half a century old."""
    daemon = daemons(options=BY_HAND).start()
    known = daemon.remember("the owl of the west")
    daemon.beat(1)
    began = daemon.clock.now()
    daemon.stop()
    daemon.clock.set(12.0)
    daemon.start()
    memory, other, gone = (daemon.remember(f"the {animal} of the west") for animal in ("fox", "elk", "cat"))
    daemon.call("connect", a=known, b=memory, weight=1.0)
    daemon.call("forget", id=gone)
    daemon.call("add_turn", session="s", content="a turn")
    daemon.call("end_session", session="s", extract=False)
    run = daemon.call("run_job", name="demote")
    daemon.clock.advance(1_800)
    beat(daemon)
    daemon.clock.set(began + 100 * DAY)
    for name in ("prune", "demote", "decay", "purge"):
        assert daemon.call("run_job", name=name)["outcome"] == "unchanged"

    assert {one["id"] for one in daemon.call("list")["memories"]} >= {known, memory, other}
    assert daemon.call("get", id=memory)["created_at"] > "2026"
    assert daemon.call("get", id=memory)["retention"] == pytest.approx(1.0, abs=0.01)
    assert daemon.call("neighbors", id=memory)["neighbors"][0]["weight"] == pytest.approx(1.0, abs=0.01)
    assert daemon.call("restore", id=gone)["state"] == "live"
    assert len(daemon.call("context", session="s")["items"]) == 1
    assert run["run_id"] in {one["run_id"] for one in daemon.call("runs")["runs"]}
    daemon.beat(17)
    assert daemon.call("get", id=other)["retention"] < 0.1
    daemon.call("run_job", name="decay")
    assert daemon.call("get", id=other)["state"] == "forgotten"


def test_a_new_folder_at_1970_keeps_what_it_was_told_and_owes_no_night(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(clock=SettableClock(5.0)).start()
    memory = daemon.remember("the first thing that was said")
    daemon.run(daemon.app.scheduler.run_owed())
    daemon.clock.advance(7_200)
    beat(daemon)
    daemon.restart()
    daemon.clock.set(NOW + 12 * 3600)
    daemon.run(daemon.app.scheduler.run_owed())

    assert daemon.call("runs")["runs"] == []
    assert daemon.call("run_job", name="decay")["outcome"] == "unchanged"
    assert daemon.call("get", id=memory)["retention"] == pytest.approx(1.0, abs=0.02)


# A whole life, with jumps and without.


class Kept(NamedTuple):
    """What a life left, by content; retentions and weights as they are now."""

    live: dict[str, float]
    gone: set[str]
    weights: dict[str, float]


AGES = (0, 5, 15, 16.2, 40)  # days before the jumps


def live_until_now(daemon: Daemon) -> str:
    """Memories and edges of several ages, some in the bin, more that faded than one day's ceiling lets go; a run to undo."""
    for age, next_age in zip(sorted(AGES, reverse=True), [*sorted(AGES, reverse=True)[1:], 0], strict=True):
        ids = [daemon.remember(f"note {age} {n}", emotion=0.5) for n in range(12)]
        daemon.call("connect", a=ids[0], b=ids[1], weight=0.3)
        daemon.call("connect", a=ids[2], b=ids[3], weight=9.0)
        daemon.call("forget", id=ids[11])
        daemon.beat(age - next_age)
    for name in ("prune", "decay", "purge"):
        daemon.call("run_job", name=name)
    daemon.remember("the loudest of all", emotion=0.9)
    daemon.call("recall", query="the loudest of all", k=1)
    daemon.run(daemon.app.background.fold())
    run = daemon.call("run_job", name="demote")
    assert run["outcome"] == "changed"
    return str(run["run_id"])


def all_jobs(daemon: Daemon) -> None:
    for name in ("prune", "demote", "decay", "purge"):
        daemon.call("run_job", name=name)


def kept(daemon: Daemon) -> Kept:
    """What is there, as an owner sees it."""
    memories = daemon.call("list", limit=500)["memories"]
    text = {one["id"]: one["content"] for one in memories}
    gone = daemon.in_lane(lambda: [row.id for row in daemon.stores.catalogue.gone()])
    edges = {
        f"{text[memory]} - {edge['content']}": edge["weight"]
        for memory in text
        for edge in daemon.call("neighbors", id=memory)["neighbors"]
    }
    return Kept(
        {one["content"]: daemon.call("get", id=one["id"])["retention"] for one in memories},
        {daemon.call("get", id=one)["content"] for one in gone},
        edges,
    )


def assert_undone_and_going_on(daemon: Daemon, run: str) -> None:
    """The promotion of the loudest can be taken back, and it fades as time goes on."""
    (loud,) = (
        one["id"] for one in daemon.call("list", limit=500)["memories"] if one["content"] == "the loudest of all"
    )
    daemon.call("undo", run_id=run)
    assert daemon.call("get", id=loud)["tier"] == "short"
    before = daemon.call("get", id=loud)["retention"]
    daemon.beat(2)
    assert daemon.call("get", id=loud)["retention"] < 0.95 * before


@pytest.fixture(scope="module")
def control() -> Kept:
    """What is left without any jump."""
    with started(options=BY_HAND) as daemon:
        live_until_now(daemon)
        all_jobs(daemon)
        return kept(daemon)


def forth(daemon: Daemon) -> None:
    daemon.clock.set(daemon.clock.now() + 2 * YEAR)


def forth_and_back(daemon: Daemon) -> None:
    now = daemon.clock.now()
    for there in (2 * YEAR, 0.0):
        daemon.clock.set(now + there)
        daemon.clock.advance(60)
        all_jobs(daemon)


def asleep(daemon: Daemon) -> None:
    daemon.stop()
    daemon.clock.set(daemon.clock.now() + 60 * DAY)
    daemon.start()


def suspended(daemon: Daemon) -> None:
    """The same without a restart: what comes first is a job by hand."""
    daemon.clock.set(daemon.clock.now() + 60 * DAY)


def began_at_1970(daemon: Daemon) -> None:
    now = daemon.clock.now()
    daemon.stop()
    daemon.clock.set(7.0)
    daemon.start()
    daemon.clock.advance(60)
    all_jobs(daemon)
    daemon.clock.set(now + DAY)


def back_a_year(daemon: Daemon) -> None:
    now = daemon.clock.now()
    daemon.clock.set(now - YEAR)
    daemon.clock.advance(60)
    all_jobs(daemon)
    daemon.clock.set(now + 120)


@pytest.mark.parametrize("jump", [forth, forth_and_back, asleep, suspended, began_at_1970])
def test_c17_case4_no_clock_makes_anything_go_that_would_have_stayed(
    daemons: Callable[..., Daemon], control: Kept, jump: Callable[[Daemon], None]
) -> None:
    """The same memories live, fade and lie in the bin as without the jump; a run can still be undone, and time goes on."""
    daemon = daemons(options=BY_HAND).start()
    run = live_until_now(daemon)
    jump(daemon)
    all_jobs(daemon)
    all_jobs(daemon)

    jumped = kept(daemon)
    assert jumped.live == pytest.approx(control.live, abs=2e-3)
    assert jumped.gone == control.gone
    assert jumped.weights == pytest.approx(control.weights, rel=2e-3)
    assert_undone_and_going_on(daemon, run)


def test_c17_a_clock_set_back_by_a_year_and_mended_makes_nothing_go(
    daemons: Callable[..., Daemon], control: Kept
) -> None:
    """What the clock said twice counts as an absence, lest what was made the first time or the second seem a year old."""
    daemon = daemons(options=BY_HAND).start()
    run = live_until_now(daemon)
    back_a_year(daemon)
    all_jobs(daemon)

    jumped = kept(daemon)
    assert jumped.live.keys() == control.live.keys()
    assert jumped.gone == control.gone
    assert all(retention >= control.live[text] - 2e-3 for text, retention in jumped.live.items())
    assert all(weight >= control.weights[edge] - 2e-3 for edge, weight in jumped.weights.items())
    assert_undone_and_going_on(daemon, run)
