"""A look ahead: who asks for what, what became of it, and days that the real jobs work in, over a store of its own."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st

from jobs.context import Settings
from jobs.simulate import LEFT_OUT, Day, Recalls, Target, World, census, moves, popularity, ranked, run
from jobs.table import JOBS, NIGHT
from storage.memories import BIN, LIVE
from storage.model import DAY, SENSITIVITIES, cleared
from tests.harness import Daemon
from tests.jobs.world import for_all, names, row

targets = st.lists(
    st.builds(Target, names, st.sampled_from(SENSITIVITIES), st.none()), max_size=30, unique_by=lambda one: one.id
)
places = st.dictionaries(names, st.sampled_from(("live", "superseded", "decayed", "expired", "request")), max_size=30)


# Who asks for what


@for_all(some=targets, seed=st.integers(0, 9))
def test_ranks_are_a_shuffle_that_does_not_depend_on_the_order_of_the_store(some: list[Target], seed: int) -> None:
    once = ranked(some, random.Random(seed))

    assert sorted(once) == sorted(some)
    assert ranked(reversed(some), random.Random(seed)) == once


def test_ranks_are_decided_by_chance() -> None:
    some = [Target(f"m{number}", "personal", None) for number in range(20)]

    assert len({tuple(ranked(some, random.Random(seed))) for seed in range(5)}) == 5


@for_all(count=st.integers(0, 400))
def test_zipf_asks_the_nth_one_nth_as_often_and_uniform_each_alike(count: int) -> None:
    zipf, uniform = popularity("zipf", count), popularity("uniform", count)

    assert [share * rank for rank, share in enumerate(zipf, 1)] == pytest.approx([1.0] * count)
    assert uniform == [1.0] * count
    assert popularity("none", count) == []


# What became of them


@for_all(
    rows=st.lists(
        st.builds(
            lambda name, level, gone: row(name, sensitivity=level, **gone),
            names,
            st.sampled_from(SENSITIVITIES),
            st.sampled_from(
                ({}, {"forgotten_at": 1.0, "forgotten_reason": "decayed"}, {"invalid_at": 1.0, "superseded_by": "x"})
            ),
        ),
        max_size=20,
        unique_by=lambda one: one.id,
    ),
    clearance=st.sampled_from(SENSITIVITIES),
)
def test_a_census_counts_what_the_clearance_covers_and_tells_where_it_is(rows: list[Any], clearance: str) -> None:
    told = census(rows, clearance)

    seen = {one.id: one for one in rows if cleared(one.sensitivity, clearance)}
    assert told.keys() == seen.keys()
    assert {memory for memory, where in told.items() if where == "live"} == {
        memory for memory, one in seen.items() if one.state == "live"
    }
    assert all(where == seen[memory].forgotten_reason for memory, where in told.items() if where == "decayed")


@for_all(before=places, after=places)
def test_what_moved_explains_the_difference_between_two_censuses(before: dict[str, str], after: dict[str, str]) -> None:
    """Nothing is born in a night, and nothing goes but through the bin."""
    after = {memory: where for memory, where in after.items() if memory in before}
    after |= {memory: "decayed" for memory, where in before.items() if where == "live" and memory not in after}
    counts = moves(before, after)

    was, now = (
        Counter(where == "live" for where in before.values()),
        Counter(where == "live" for where in after.values()),
    )
    left = counts["faded"] + counts["expired"] + counts["merged"]
    assert now[True] == was[True] - left + counts["returned"]
    assert now[False] == was[False] + left - counts["returned"] - counts["purged"]


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("live", "decayed", {"faded": 1}),
        ("live", "expired", {"expired": 1}),
        ("live", "superseded", {"merged": 1}),
        ("decayed", "live", {"returned": 1}),
        ("decayed", None, {"purged": 1}),
        ("superseded", None, {"purged": 1}),
        ("decayed", "superseded", {}),
        ("live", "live", {}),
    ],
)
def test_each_move_has_its_name(was: str, now: str | None, told: dict[str, int]) -> None:
    assert dict(moves({"m": was}, {} if now is None else {"m": now})) == told


# The days


def world(daemon: Daemon, clearance: str = "secret", settings: Settings | None = None) -> World:
    """The store of a test's daemon, which nobody else uses meanwhile."""
    return World(daemon.stores, daemon.parts.lane, settings or Settings(), daemon.clock.rng, clearance)


def lived(daemon: Daemon, days: int, recalls: Recalls = "none", a_day: int = 20, **options: Any) -> list[Day]:
    """The days; afterwards they are over for the daemon, too."""
    told = list(run(world(daemon, **options), daemon.clock.now(), days, recalls, recalls_a_day=a_day))
    daemon.clock.advance(days * DAY)
    return told


def counts_of(day: Day) -> tuple[int, ...]:
    """A day without its number and its instant."""
    return tuple(day[2:])  # type: ignore[arg-type]


def fill(daemon: Daemon, count: int, **fields: Any) -> list[str]:
    """Memories of which each says something else."""
    return [daemon.remember(f"w{n}a w{n}b w{n}c", id=f"m{n:02}", **fields) for n in range(count)]


def stored(daemon: Daemon) -> tuple[int, int]:
    return daemon.in_lane(lambda: (daemon.stores.engine.count(LIVE), daemon.stores.engine.count(BIN)))


def states(daemon: Daemon) -> dict[str, str]:
    return {one.id: one.state for one in daemon.in_lane(lambda: list(daemon.stores.catalogue.every()))}


def test_what_nobody_asks_for_fades_lies_in_the_bin_and_is_purged(daemon: Daemon) -> None:
    fill(daemon, 4)
    days = lived(daemon, 50)

    faded = {day.day: day.faded for day in days if day.faded}
    purged = {day.day: day.purged for day in days if day.purged}
    assert faded == {17: 4}  # 7 days times ln 10
    assert purged == {47: 4}  # after 30 days
    assert [days[n - 1].bin for n in (16, 17, 46, 47)] == [0, 4, 4, 0]
    assert (days[-1].live, stored(daemon)) == (0, (0, 0))
    assert sum(day.returned + day.lost for day in days) == 0


def test_each_night_is_a_day_after_the_one_before(daemon: Daemon) -> None:
    now = daemon.clock.now()

    assert [(day.day, day.at) for day in lived(daemon, 3)] == [(n, now + n * DAY) for n in (1, 2, 3)]


def test_what_is_asked_for_lives_on_and_is_wired_together(daemon: Daemon) -> None:
    for n in range(5):
        daemon.remember(f"tea and cake at five, number {n}", id=f"t{n}")
    days = lived(daemon, 40, "uniform", a_day=3)

    assert (days[-1].live, days[-1].bin) == (5, 0)
    assert days[0].edges == 10  # asked for one, found all five
    kinds = {edge.kind for _, edge in daemon.in_lane(lambda: list(daemon.stores.synapses.every()))}
    assert "hebbian" in kinds
    assert min(one.access_count for one in daemon.in_lane(lambda: list(daemon.stores.catalogue.rows()))) >= 30


def test_the_popular_stay_and_the_others_go_with_zipf(daemon: Daemon) -> None:
    fill(daemon, 40)
    days = lived(daemon, 30, "zipf", a_day=2)

    count = Counter({one.id: one.access_count for one in daemon.in_lane(lambda: list(daemon.stores.catalogue.every()))})
    assert 10 < days[-1].live < 35
    assert count.most_common(1)[0][1] > 5 * sorted(count.values())[len(count) // 2]


def test_a_memory_that_is_needed_in_the_bin_comes_back_and_one_that_is_gone_is_lost(daemon: Daemon) -> None:
    fill(daemon, 30)
    days = lived(daemon, 65, "uniform", a_day=1)

    returned, lost = sum(day.returned for day in days), sum(day.lost for day in days)
    assert returned > 3
    assert 0 < lost <= 30 - days[-1].live - days[-1].bin
    assert all(day.lost == 0 for day in days[:46])  # nothing is purged before


def test_a_memory_is_lost_once_however_often_it_is_needed(daemon: Daemon) -> None:
    fill(daemon, 4)
    days = run(world(daemon), daemon.clock.now(), 4, "uniform", recalls_a_day=20)
    next(days)
    daemon.call("forget", ids=["m00", "m01", "m02"], hard=True)
    rest = list(days)

    assert sum(day.lost for day in rest) == 3
    assert (rest[0].purged, rest[-1].live) == (3, 1)


def test_every_row_follows_from_the_one_before_and_the_last_is_what_the_store_holds(daemon: Daemon) -> None:
    fill(daemon, 20, importance=0.2)
    passing = [daemon.remember(f"passing {n}", id=f"p{n}", expires_at="2030-01-01T00:00:00Z") for n in range(3)]
    daemon.call("forget", ids=["m00", "m01"])
    days = lived(daemon, 45, "zipf", a_day=2)

    live, gone = 20 + len(passing) - 2, 2
    for day in days:
        left = day.faded + day.expired + day.merged
        live, gone = live - left + day.returned, gone + left - day.returned - day.purged
        assert (day.live, day.bin) == (live, gone)
    assert stored(daemon) == (live, gone)
    assert sum(day.faded for day in days) > 5


def test_what_is_purged_the_night_it_fades_is_counted_as_both(daemon: Daemon) -> None:
    fill(daemon, 3)
    days = lived(daemon, 18, settings=Settings(bin_days=0.0))

    assert [(day.faded, day.purged, day.bin) for day in days if day.faded] == [(3, 3, 0)]


def test_a_memory_whose_time_is_over_expires_and_is_asked_for_no_more(daemon: Daemon) -> None:
    for n in range(3):
        daemon.remember(f"passing {n}", id=f"p{n}", expires_at="2099-01-01T00:00:00Z")
    end = daemon.clock.now() + 2.5 * DAY
    daemon.in_lane(lambda: daemon.stores.memories.patch({f"p{n}": {"expires_at": end} for n in range(3)}))
    days = lived(daemon, 40, "uniform")

    assert [day.expired for day in days[:4]] == [0, 0, 3, 0]
    assert sum(day.returned + day.lost + day.faded for day in days) == 0


def test_who_asks_for_a_merged_memory_gets_its_survivor(daemon: Daemon) -> None:
    fill(daemon, 2)
    days = run(world(daemon), daemon.clock.now(), 40, "uniform", recalls_a_day=4)
    next(days)
    daemon.call("merge", survivor="m00", duplicate="m01")
    rest = list(days)

    assert (rest[0].merged, rest[0].live, rest[-1].live) == (1, 1, 1)
    assert sum(day.returned + day.lost for day in rest) == 0
    assert states(daemon) == {"m00": "live", "m01": "superseded"}


def test_a_night_leaves_out_what_the_owner_left_out_and_what_makes_no_sense_ahead(daemon: Daemon) -> None:
    for n in range(3):
        daemon.remember(f"left out {n}", id=f"left-{n}")
    days = lived(daemon, 40, settings=Settings(left_out=frozenset({"decay", "dream"})))

    entries = [entry for n in range(3) for entry in daemon.stores.ledger.journal_at(f"left-{n}")]
    assert days[-1].live == 3
    assert {entry.run.partition(" ")[0] for entry in entries} == {"demote"}  # to cold, after 30 days
    assert not (daemon.folder / "state" / "snapshots").exists()


def test_every_step_of_a_night_is_either_left_out_or_a_job() -> None:
    assert {"hebbian", "dream", "prune", "demote", "decay", "purge"} <= set(NIGHT) - LEFT_OUT <= JOBS.keys()


def test_what_lies_above_the_clearance_is_lived_through_and_counted_nowhere(daemon: Daemon) -> None:
    fill(daemon, 4, sensitivity="public")
    for n in range(6):
        daemon.remember(f"hidden {n}", id=f"h{n}", sensitivity="secret")
    daemon.call("connect", a="h0", b="h1")
    daemon.call("connect", a="h0", b="m00")
    days = lived(daemon, 50, clearance="public")

    assert days[0].live == 4
    assert days[0].edges == 0
    assert (sum(day.faded for day in days), sum(day.purged for day in days)) == (4, 4)
    assert stored(daemon) == (0, 0)


def test_one_who_asks_for_hidden_memories_is_told_of_none_that_is_lost(daemon: Daemon) -> None:
    fill(daemon, 30, sensitivity="secret")
    days = lived(daemon, 55, "uniform", a_day=1, clearance="personal")

    assert {counts_of(day) for day in days} == {(0,) * 9}


def test_an_empty_store_lives_through_empty_days(daemon: Daemon) -> None:
    assert [counts_of(day) for day in lived(daemon, 2, "zipf")] == [(0,) * 9] * 2
