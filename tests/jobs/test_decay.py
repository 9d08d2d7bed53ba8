"""What decay may take, as a plan: never the protected, never more than its share of any scope in any 24 hours."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from jobs import decay
from storage.fading import Awake, Retention
from storage.model import DAY, Memory, covers, prefixes
from tests.jobs import world
from tests.jobs.world import NOW, for_all, row

ASLEEP_NEVER = Awake()
CURVE = Retention()
TO_A_TENTH = 7.0 * math.log(10.0)  # days after which a memory of defaults that nobody used is at the threshold


def plan(rows, now=NOW, awake=ASLEEP_NEVER, retention=CURVE, *, ceiling=0.05, moved=None, **options) -> decay.Plan:
    return decay.plan(rows, now, awake, retention, ceiling=ceiling, moved=moved or {}, **options)


def old(name: str, days: float = 100.0, **fields: object) -> Memory:
    return row(name, **{"created_at": NOW - days * DAY, "updated_at": NOW - days * DAY, **fields})


def gone(planned: decay.Plan) -> set[str]:
    return {move.memory for move in (*planned.expired, *planned.decayed)}


@for_all(world.rows, world.absences(), st.sampled_from(["ebbinghaus", "linear", "none"]))
def test_the_same_rows_in_any_order_give_the_same_plan(rows, awake, policy) -> None:
    retention = Retention(policy=policy)
    shuffled = random.Random(1).sample(rows, len(rows))

    one, other = plan(rows, NOW, awake, retention), plan(shuffled, NOW, awake, retention)
    assert one.decayed == other.decayed
    assert gone(one) == gone(other)


@for_all(world.rows, world.absences())
def test_a_second_pass_at_the_same_instant_finds_nothing(rows, awake) -> None:
    first = plan(rows, NOW, awake)
    left = world.after(rows, (*first.expired, *first.decayed))
    scopes = world.by_id(rows)
    moved = Counter(scopes[move.memory].scope for move in first.decayed)

    second = plan(left, NOW, awake, moved=moved)
    assert gone(second) == set()
    assert second.deferred == first.deferred


@for_all(world.rows, world.absences())
def test_sixty_passes_in_an_hour_take_what_one_takes(rows, awake) -> None:
    few = rows[: decay.LEAST]  # below every ceiling
    left = few
    for minute in range(60):
        now = NOW + 60.0 * (minute + 1)
        planned = plan(left, now, awake)
        left = world.after(left, (*planned.expired, *planned.decayed))

    assert {one.id for one in few} - {one.id for one in left} == gone(plan(few, NOW + 3600.0, awake))


@for_all(world.rows, world.absences(), st.floats(0.0, 1.0))
def test_only_the_short_unpinned_grown_and_weak_fade(rows, awake, threshold) -> None:
    rows_by_id = world.by_id(rows)
    for move in plan(rows, NOW, awake, threshold=threshold).decayed:
        one = rows_by_id[move.memory]
        retained = CURVE.of(one.used_at, one.access_count, one.importance, one.emotion, NOW, awake)
        assert (one.tier, one.pinned) == ("short", False)
        assert NOW - one.created_at >= DAY
        assert retained < threshold


@pytest.mark.parametrize(
    "protected",
    [
        {"tier": "core"}, {"tier": "long"}, {"pinned": True},
        {"accessed_at": NOW - DAY, "access_count": 1}, {"updated_at": NOW - DAY},
    ],
    ids="-".join,
)  # fmt: skip
def test_a8_what_is_protected_or_in_use_stays_however_old(protected) -> None:
    assert plan([old("a", 400.0, **protected)]).decayed == ()


@pytest.mark.parametrize(("age", "taken"), [(0.0, False), (DAY - 1.0, False), (DAY, True)])
def test_for_its_first_day_a_memory_stays_however_weak(age, taken) -> None:
    assert bool(plan([old("a", age / DAY, importance=0.0)], threshold=1.0).decayed) is taken


@pytest.mark.parametrize("protected", [{}, {"tier": "core"}, {"pinned": True}, {"created_at": NOW - 1.0}])
def test_what_expired_goes_whatever_its_class_and_outside_the_ceiling(protected) -> None:
    rows = [row(f"m{number}", expires_at=NOW, **protected) for number in range(30)]

    planned = plan(rows, moved={"a": 500})
    assert (len(planned.expired), planned.deferred) == (30, 0)
    assert {move.op for move in planned.expired} == {"expire"}


def test_a_memory_lives_until_the_very_instant_of_its_expiry() -> None:
    assert gone(plan([row("a", expires_at=NOW + 1e-3)])) == set()


def test_b19_exactly_at_the_threshold_a_memory_is_kept() -> None:
    one = old("a", 10.0)
    retained = float(CURVE.of_rows([one], NOW, ASLEEP_NEVER)[0])

    assert plan([one], threshold=retained).decayed == ()
    assert len(plan([one], threshold=math.nextafter(retained, 1.0)).decayed) == 1


@pytest.mark.parametrize(
    ("days", "fields", "fades"),
    [
        (16.0, {}, False),
        (16.2, {}, True),
        (24.0, {"access_count": 1}, False),
        (24.3, {"access_count": 1}, True),
        (24.0, {"importance": 1.0}, False),
        (8.1, {"importance": 0.0}, True),
        (20.0, {"emotion": 1.0}, False),
        (12.2, {"emotion": 0.0}, True),
    ],
)
def test_the_curve_in_days(days, fields, fades) -> None:
    """Seven days times ln 10 at the defaults; each access adds half of that; importance and emotion stretch it."""
    assert bool(plan([old("a", days, **fields)]).decayed) is fades


def test_time_asleep_does_not_count() -> None:
    asleep = Awake([(NOW - 90 * DAY, NOW - 1 * DAY)])

    assert plan([old("a", 100.0)], awake=asleep).decayed == ()
    assert len(plan([old("a", 100.0)]).decayed) == 1


def test_the_weakest_go_first_and_the_rest_is_told() -> None:
    rows = [old(f"m{number:02d}", 20.0 + number) for number in range(25)]

    planned = plan(rows)
    assert [move.memory for move in planned.decayed] == [f"m{number:02d}" for number in range(24, 14, -1)]
    assert planned.deferred == 15


def test_a_share_counts_what_went_in_the_last_day() -> None:
    rows = [old(f"m{number:03d}") for number in range(380)]

    assert len(plan(rows, moved={"a": 20}).decayed) == 0  # 400 there a day ago, of which 20 may go
    assert len(plan(rows, moved={"a": 12}).decayed) == 7  # of 392, 19
    assert len(plan(rows, moved={"b": 20}).decayed) == 19


def test_a_coarse_scope_holds_back_what_its_parts_would_allow() -> None:
    """Ten scopes of ten memories each could lose everything in one night if each had a share of its own alone."""
    rows = [old(f"m{part}-{number}", scope=f"a/p{part}") for part in range(10) for number in range(10)]

    assert len(plan(rows).decayed) == 10


def test_a_run_for_one_scope_is_held_to_the_shares_of_the_coarser_ones() -> None:
    inside = [old(f"i{number}", scope="a/b") for number in range(100)]
    outside = [old(f"o{number}", scope="a/c") for number in range(900)]

    assert len(plan([*inside, *outside], scope="a/b").decayed) == 10
    assert len(plan([*inside, *outside], scope="a/b", moved={"a/c": 45}).decayed) == 7  # of 1,045 in a, 52
    assert {one.memory[0] for one in plan([*inside, *outside], scope="a/c").decayed} == {"o"}


@pytest.mark.parametrize(("only", "left"), [("expired", {"e"}), ("decayed", {"f"}), (None, {"e", "f"})])
def test_a_run_may_be_for_one_reason_alone(only, left) -> None:
    assert gone(plan([row("e", expires_at=NOW - 1.0), old("f")], only=only)) == left


def test_a_run_for_what_expired_tells_nothing_of_what_waits() -> None:
    rows = [old(f"m{number}") for number in range(30)]

    assert (plan(rows, only="expired").deferred, plan(rows, only="decayed").deferred) == (0, 20)


class Moved(NamedTuple):
    """A journalled move."""

    at: float
    scope: str


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[tuple[str, int]], list[float], list[int]]:
    """How many memories each scope begins with, the hours between passes, and after which passes the last is undone."""
    sizes = draw(st.lists(st.tuples(world.scopes, st.integers(0, 120)), min_size=1, max_size=4))
    gaps = draw(st.lists(st.floats(0.1, 40.0), min_size=1, max_size=8))
    return sizes, gaps, draw(st.lists(st.integers(0, 7), max_size=3))


@for_all(lives())
def test_in_no_24_hours_does_a_scope_lose_more_than_its_share(life) -> None:
    """Over many passes at any times, at every level; what is undone gives its share back and counts no more."""
    sizes, gaps, undone = life
    rows = [old(f"{part}-{number}", scope=scope) for part, (scope, size) in enumerate(sizes) for number in range(size)]
    everyone = world.by_id(rows)
    journal: dict[str, Moved] = {}
    now = NOW
    for turn, gap in enumerate(gaps):
        now += gap * 3600.0
        recent = Counter(entry.scope for entry in journal.values() if entry.at > now - DAY)
        planned = plan(rows, now, moved=recent)
        rows = world.after(rows, planned.decayed)
        journal |= {move.memory: Moved(now, everyone[move.memory].scope) for move in planned.decayed}
        full = False
        for level in {level for scope, _ in sizes for level in prefixes(scope)}:
            lost = sum(entry.at > now - DAY and covers(level, entry.scope) for entry in journal.values())
            held = lost + sum(covers(level, one.scope) for one in rows)
            assert lost <= max(0.05 * held, 10)
            full |= lost == max(int(0.05 * held), 10)
        assert full or not planned.deferred
        if turn in undone:
            back = [move.memory for move in planned.decayed]
            rows = [*rows, *(everyone[memory] for memory in back)]
            for memory in back:
                del journal[memory]


def test_what_waited_goes_once_the_day_is_over() -> None:
    rows = [old(f"m{number:02d}") for number in range(25)]
    days = 0
    while rows:
        rows = world.after(rows, plan(rows, NOW + days * DAY).decayed)
        days += 1

    assert days == 3


def test_b14_e1_a_first_pass_after_a_year_takes_no_more_than_any_other() -> None:
    """A clock that jumped, or a first pass after a long pause, must not empty the store."""
    rows = [old(f"m{number}", 365.0) for number in range(1000)]

    planned = plan(rows, NOW + 365 * DAY)
    assert (len(planned.decayed), planned.deferred) == (50, 950)
