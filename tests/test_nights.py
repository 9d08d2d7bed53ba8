"""Faults of other systems' nights, tried on whole daemons: what is left alone for weeks must not rot, swell or go silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.edge_files import allocated_bytes
from storage.errors import NotFound, Unavailable
from storage.memories import BIN, LIVE
from storage.model import DAY, Synapse
from storage.synapses import SYNAPSES
from tests.fakes import MortalEngine
from tests.harness import BY_HAND, Daemon, started


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: Daemon) -> Daemon:
    shared.in_lane(lambda: shared.stores.changer.erase([row.id for row in shared.stores.catalogue.every()]))
    shared.parts.learn.take()
    shared.clock.advance(2 * DAY)
    shared.run(shared.app.background.heartbeat())
    return shared


def metric(daemon: Daemon, series: str) -> float:
    text = daemon.run(daemon.app.service.metrics("text/plain"))[0].decode()
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{series} "))


def test_e4_ordinary_use_promotes_within_days_and_the_metric_says_how_many(daemon: Daemon) -> None:
    """No threshold lies beyond what real recalls reach: three recalls on two days are enough."""
    ids = [daemon.remember(f"the {word} opens at six", id=word) for word in ("harbour", "library", "market")]
    before = metric(daemon, 'dreamd_job_changes_total{change="to_long",job_name="demote"}')
    for _ in range(2):
        for _ in range(2):
            daemon.call("recall", query="when does the harbour open", k=1)
        daemon.beat(1)
        daemon.call("run_job", name="night")

    assert {memory: daemon.call("get", id=memory)["tier"] for memory in ids} == {
        "harbour": "long", "library": "short", "market": "short"
    }  # fmt: skip
    assert metric(daemon, 'dreamd_job_changes_total{change="to_long",job_name="demote"}') == before + 1


def test_e9_what_hangs_in_the_air_is_gone_after_the_next_start_and_only_that(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    a, b = daemon.remember("the fox sleeps"), daemon.remember("the owl hunts")
    daemon.call("connect", a=a, b=b)
    now = daemon.clock.now()
    daemon.in_lane(daemon.stores.synapses.put, [Synapse(*sorted((a, "nobody")), "manual", 2.0, now, now)])
    daemon.restart()

    (neighbour,) = daemon.call("neighbors", id=a)["neighbors"]
    assert neighbour["id"] == b
    assert daemon.in_lane(daemon.stores.engine.count, SYNAPSES) == 1


def test_e12_ten_rounds_of_writing_and_forgetting_stay_within_twice_the_room(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(
        options=BY_HAND | {"DREAMD_DECAY__BIN_DAYS": "0", "DREAMD_SCHEDULE__SNAPSHOT": "0 0 1 jan *"}
    ).start()
    items = [{"id": f"m{n}", "content": f"note {n} " + "about the garden " * 20} for n in range(300)]
    room = []
    for _ in range(10):
        daemon.call("remember_many", items=items)
        store = daemon.folder / "state" / "store"
        segments = [shard / "segments" for shard in store.iterdir()]  # the log has a bound of its own
        room.append(sum(map(allocated_bytes, segments)))
        daemon.call("forget", ids=[item["id"] for item in items])
        daemon.beat(1.1)
        daemon.call("run_job", name="purge")
        daemon.call("run_job", name="vacuum")
        assert daemon.in_lane(lambda: [daemon.stores.engine.count(name) for name in (LIVE, BIN)]) == [0, 0]

    assert max(room) <= 2 * room[0]


def test_case2_a_store_that_fails_between_two_steps_loses_nothing_and_the_next_night_does_it(
    daemons: Callable[..., Daemon],
) -> None:
    daemon = daemons(options=BY_HAND).start()
    ids = {daemon.remember(f"note {n}", expires_at="2026-01-02T00:00:00Z") for n in range(5)}
    daemon.beat(2)
    engine = daemon.stores.engine
    mortal = MortalEngine(engine, Unavailable("The disk is full.", hint="df -h"))
    mortal.writes_left = 1
    daemon.stores.memories._engine = mortal
    assert daemon.call("run_job", name="decay")["outcome"] == "failed"
    daemon.stores.memories._engine = engine

    assert {row.id for row in daemon.in_lane(lambda: list(daemon.stores.catalogue.every()))} == ids
    daemon.restart()
    assert daemon.call("run_job", name="decay")["outcome"] in ("changed", "unchanged")
    assert {row.id for row in daemon.in_lane(lambda: list(daemon.stores.catalogue.gone()))} == ids
    counts = daemon.in_lane(lambda: [daemon.stores.engine.count(name) for name in (LIVE, BIN)])
    assert counts == [0, 5]


def test_case18_forgetting_what_is_not_there_is_no_success(daemon: Daemon) -> None:
    memory = daemon.remember("the fox sleeps")
    daemon.call("update", id=memory, content="the fox runs")
    with pytest.raises(NotFound):
        daemon.call("forget", id="nobody")

    daemon.call("forget", id=memory, hard=True)
    with pytest.raises(NotFound):
        daemon.call("history", id=memory)
    assert daemon.call("recall", query="fox")["hits"] == []
