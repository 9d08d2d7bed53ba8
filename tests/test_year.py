"""A year of an agent: 300 memories, some asked for every day and most never, and a night a day.

And what an active user needs and no longer finds, beside other ways to forget (`tests/bench/year.py`). Sixty days of both, or
a whole year where the whole proof is asked for (`make proof`).
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from daemon.presence import note_heartbeat
from jobs.dream import MAX_DEGREE
from jobs.table import NIGHT
from storage.memories import BIN, LIVE
from storage.model import DAY
from storage.records import RECORDS
from storage.synapses import SYNAPSES
from tests.bench.year import PROTECTED, TOLD, Compared, compare
from tests.harness import BY_HAND, Daemon
from tests.requirements import whole_proof

COUNT = 300
DAYS = 365 if whole_proof() else 60
WEEK = 7  # one of so many nights is a whole one, with its snapshot
ASKED = 8  # recalls a day
TOPICS = ("harbour", "orchard", "kitchen", "railway", "library", "garden")


class Year(NamedTuple):
    """The daemon at its end, the ids by their part in it, and how many were live after each night."""

    daemon: Daemon
    favourites: list[str]
    ignored: list[str]
    pinned: list[str]
    core: list[str]
    live: list[int]


@pytest.fixture(scope="module")
def year() -> Iterator[Year]:
    folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
    daemon = Daemon(folder, options=BY_HAND | {"DREAMD_STORAGE__FLUSH_SECONDS": "86400"}).start()
    yield live_through(daemon)
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


def live_through(daemon: Daemon) -> Year:
    dice = random.Random(7)
    items = [
        {
            "id": f"m{n}", "content": f"{TOPICS[n % 6]} note {n}: {TOPICS[n // 6 % 6]} w{n}a w{n}b", "scope": f"agent/p{n % 3}",
            "emotion": n % 11 / 10, "session": f"s{n // 10}", "pinned": n % 20 == 0, "tier": "core" if n % 20 == 1 else "short",
        }
        for n in range(COUNT)
    ]  # fmt: skip
    daemon.call("remember_many", items=items)
    ordinary = [n for n in range(COUNT) if n % 20 > 1]
    dice.shuffle(ordinary)
    shares = [1.0 / (rank + 1) for rank in range(len(ordinary))]  # Zipf: the first are asked for all the time
    live = []
    for night in range(1, DAYS + 1):
        for number in dice.choices(ordinary, shares, k=ASKED):
            daemon.call("recall", query=f"w{number}a w{number}b", k=1, scope="agent")
        daemon.in_lane(day, daemon)
        if night % WEEK:
            daemon.dream()
        else:
            daemon.call("run_job", name="night")
        live.append(daemon.in_lane(lambda: len(daemon.stores.catalogue)))
    names = [f"m{n}" for n in ordinary]
    return Year(
        daemon,
        names[:6],
        names[-100:],
        [f"m{n}" for n in range(0, COUNT, 20)],
        [f"m{n}" for n in range(1, COUNT, 20)],
        live,
    )


def day(daemon: Daemon) -> None:
    """A day awake, a heartbeat an hour."""
    for _ in range(24):
        daemon.clock.advance(DAY / 24)
        note_heartbeat(daemon.stores, daemon.clock.now())


def test_no_run_of_the_year_failed_or_was_cut_short(year: Year) -> None:
    runs = year.daemon.in_lane(lambda: year.daemon.stores.ledger.runs(limit=100_000))
    outcomes = Counter(run.outcome for run in runs)
    times = Counter(run.job for run in runs)

    assert outcomes.keys() <= {"changed", "unchanged"}
    assert times.pop("night") == times.pop("snapshot") == DAYS // WEEK
    assert times == dict.fromkeys(NIGHT[1:], DAYS)


def test_what_was_asked_for_lives_and_what_nobody_asked_for_went(year: Year) -> None:
    alive = {row.id for row in year.daemon.in_lane(lambda: list(year.daemon.stores.catalogue.rows()))}

    assert set(year.favourites) <= alive
    assert set(year.pinned) <= alive
    assert set(year.core) <= alive
    assert len(alive & set(year.ignored)) < len(year.ignored) / 2


def test_case10_forgetting_is_gradual_and_comes_to_rest(year: Year) -> None:
    """No night takes more than its share, and the ones in use are not worn down with the rest."""
    losses = [before - after for before, after in zip([COUNT, *year.live], year.live, strict=False)]

    assert max(losses) <= 15
    assert min(losses) >= 0
    assert sum(losses[:12]) == 0  # the least felt fade in 12 days
    assert year.live[-1] > len(year.pinned) + len(year.core) + len(year.favourites)
    assert sum(losses[-60:]) < 10 or DAYS < 365


def test_what_was_asked_for_often_became_long_and_stayed_warm(year: Year) -> None:
    rows = [year.daemon.call("get", id=memory) for memory in year.favourites]

    assert {row["tier"] for row in rows} == {"long"}
    assert {row["heat"] for row in rows} <= {"hot", "warm"}
    assert min(row["access_count"] for row in rows) > DAYS / 18


def test_the_classes_of_the_owner_never_changed(year: Year) -> None:
    assert {year.daemon.call("get", id=memory)["tier"] for memory in year.core} == {"core"}
    assert {year.daemon.call("get", id=memory)["pinned"] for memory in year.pinned} == {True}


def test_the_graph_stayed_small_and_within_its_limits(year: Year) -> None:
    edges = year.daemon.in_lane(lambda: [edge for _, edge in year.daemon.stores.synapses.every()])
    similar = Counter(end for edge in edges if edge.kind == "similar" for end in (edge.a, edge.b))
    scopes = {row.id: row.scope for row in year.daemon.in_lane(lambda: list(year.daemon.stores.catalogue.every()))}

    assert max(similar.values()) <= MAX_DEGREE
    assert len(edges) < 10 * year.live[-1]
    assert max(edge.weight for edge in edges) <= 10.0
    assert all(scopes[edge.a] == scopes[edge.b] for edge in edges)


def test_feelings_stay_feelings(year: Year) -> None:
    emotions = [row.emotion for row in year.daemon.in_lane(lambda: list(year.daemon.stores.catalogue.every()))]

    assert 0.0 <= min(emotions) <= max(emotions) <= 1.0
    assert len(set(emotions)) > 3


def test_the_bin_is_emptied_in_time_and_every_count_agrees(year: Year) -> None:
    def counts() -> tuple[dict[str, int], dict[str, int], list[float]]:
        stores = year.daemon.stores
        known = {
            LIVE: len(stores.catalogue), BIN: stores.catalogue.gone_count, SYNAPSES: len(stores.synapses), RECORDS: 1
        }  # fmt: skip
        gone = [year.daemon.clock.now() - (row.forgotten_at or 0.0) for row in stores.catalogue.gone()]
        return known, {name: stores.engine.count(name) for name in known}, gone

    known, stored, gone = year.daemon.in_lane(counts)
    assert stored == known
    assert known[LIVE] == year.daemon.call("stats", scope="*")["total"] == year.live[-1]
    assert all(age < 31 * DAY for age in gone)


def test_the_year_survives_a_restart(year: Year) -> None:
    before = {row.id: row for row in year.daemon.in_lane(lambda: list(year.daemon.stores.catalogue.every()))}
    edges = dict(year.daemon.in_lane(lambda: list(year.daemon.stores.synapses.every())))
    year.daemon.restart()

    assert {row.id: row for row in year.daemon.in_lane(lambda: list(year.daemon.stores.catalogue.every()))} == before
    assert dict(year.daemon.in_lane(lambda: list(year.daemon.stores.synapses.every()))) == edges


# -- an active user


@pytest.fixture(scope="module")
def compared() -> Compared:
    """Five things told a day, twenty needed by a popularity that no policy knows of, and a night a day."""
    return compare("steady", DAYS, seed=0)


def test_less_of_what_is_needed_later_is_forgotten_than_by_lru_or_a_time_to_live_of_the_same_size(
    compared: Compared,
) -> None:
    regrets = {name: getattr(compared, name).regrets for name in ("dreamd", "lru", "tuned", "ttl")}

    assert regrets["dreamd"] < min(regrets["lru"], regrets["tuned"], regrets["ttl"]), regrets
    assert [compared.lru.mean, compared.tuned.mean] == pytest.approx([compared.dreamd.mean] * 2, rel=0.02)


def test_the_store_of_an_active_user_grows_by_less_than_is_told(compared: Compared) -> None:
    first, second = compared.dreamd.sizes[: DAYS // 2], compared.dreamd.sizes[DAYS // 2 :]
    told = TOLD * len(second)

    assert max(second) - max(first) < (0.5 if DAYS >= 365 else 0.75) * told
    assert compared.outcomes <= {"changed", "unchanged"}


def test_core_and_pinned_memories_are_as_they_were_told_though_nobody_needed_them(compared: Compared) -> None:
    assert {row["state"] for row in compared.protected} == {"live"}
    assert {row["heat"] for row in compared.protected} <= {"hot", "warm"}
    assert sum(row["tier"] == "core" for row in compared.protected) == PROTECTED
    assert sum(row["pinned"] for row in compared.protected) == PROTECTED


def test_recall_gives_what_is_live(compared: Compared) -> None:
    assert compared.found > 0.99
