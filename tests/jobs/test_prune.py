"""Pruning: what faded goes, how often it is looked for cannot matter."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from jobs import prune
from storage.fading import Awake
from storage.model import DAY, Synapse
from storage.synapses import associate, faded
from tests.harness import Daemon
from tests.jobs import world
from tests.jobs.world import NOW, for_all

ASLEEP_NEVER = Awake()


@for_all(world.edges, world.absences())
def test_the_same_edges_give_the_same_plan(edges, awake) -> None:
    assert prune.plan(edges, {}, NOW, awake) == prune.plan(list(edges), {}, NOW, awake)


@for_all(world.edges, world.absences())
def test_a_second_pass_at_the_same_instant_finds_nothing(edges, awake) -> None:
    left = world.edges_after(edges, prune.plan(edges, {}, NOW, awake).drop)

    assert prune.plan(left.values(), {}, NOW, awake).drop == ()


@for_all(world.edges, world.absences())
def test_exactly_the_edges_below_a_tenth_go(edges, awake) -> None:
    gone = {change.key for change in prune.plan(edges, {}, NOW, awake).drop}

    assert gone == {edge.key for edge in edges if faded(edge, NOW, awake) < prune.FLOOR}


@for_all(world.edges, world.absences())
def test_sixty_passes_in_an_hour_leave_what_one_leaves(edges, awake) -> None:
    often = {edge.key: edge for edge in edges}
    for minute in range(60):
        often = world.edges_after(often.values(), prune.plan(often.values(), {}, NOW + 60.0 * (minute + 1), awake).drop)

    assert often == world.edges_after(edges, prune.plan(edges, {}, NOW + 3600.0, awake).drop)


@for_all(world.edges, st.lists(st.floats(0.0, 30 * DAY), max_size=10))
def test_any_passes_before_leave_what_the_last_alone_would(edges, steps) -> None:
    now, left = NOW, {edge.key: edge for edge in edges}
    for step in steps:
        now += step
        left = world.edges_after(left.values(), prune.plan(left.values(), {}, now, ASLEEP_NEVER).drop)

    assert left == world.edges_after(edges, prune.plan(edges, {}, now, ASLEEP_NEVER).drop if steps else [])


def test_at_a_tenth_an_edge_stays_and_below_it_goes() -> None:
    at, below = associate("a", "b", "manual", 0.1, NOW), associate("a", "c", "manual", 0.1 - 1e-9, NOW)

    assert [change.before for change in prune.plan([at, below], {}, NOW, ASLEEP_NEVER).drop] == [below]


@pytest.mark.parametrize(("kind", "days"), [("hebbian", 6), ("similar", 6), ("concept", 6), ("manual", 13)])
def test_an_edge_of_a_fifth_lasts_its_half_life(kind, days) -> None:
    edge = associate("a", "b", kind, 0.2, NOW)

    assert prune.plan([edge], {}, NOW + days * DAY, ASLEEP_NEVER).drop == ()
    assert len(prune.plan([edge], {}, NOW + (days + 1) * DAY, ASLEEP_NEVER).drop) == 1


@pytest.mark.parametrize("kind", ["next", "derived"])
@for_all(weight=st.floats(0.0, 10.0), days=st.floats(0.0, 10_000.0))
def test_the_order_of_a_session_and_the_sources_of_a_summary_stay(kind, weight, days) -> None:
    edge = Synapse("a", "b", kind, weight, NOW, NOW)

    assert prune.plan([edge], {}, NOW + days * DAY, ASLEEP_NEVER).drop == ()


def test_a3_case11_sixty_runs_in_an_hour_rewrite_no_weight(daemon: Daemon) -> None:
    """A decay that is a factor a pass would have left nothing of them."""
    a, b, c = (daemon.remember(text) for text in ("the fox", "the hound", "the mill"))
    daemon.call("connect", a=a, b=b, weight=2.0)
    daemon.call("connect", a=b, b=c, weight=0.11)
    before = daemon.in_lane(lambda: dict(daemon.stores.synapses.every()))
    for _ in range(60):
        daemon.clock.advance(60)
        assert daemon.call("run_job", name="prune")["outcome"] == "unchanged"

    assert daemon.in_lane(lambda: dict(daemon.stores.synapses.every())) == before


def test_a2_an_awake_day_takes_a_tenth_of_a_learned_edge_and_a_twentieth_of_a_manual_one(daemon: Daemon) -> None:
    """Both rules apply to their own kind alone, however strong the edge."""
    a, b, c = (daemon.remember(text) for text in ("the fox", "the hound", "the mill"))
    daemon.call("connect", a=a, b=b, weight=2.0)
    learned = associate(a, c, "hebbian", 2.0, daemon.clock.now())
    daemon.in_lane(daemon.stores.synapses.put, [learned])
    daemon.beat(1)
    daemon.call("run_job", name="prune")
    daemon.call("run_job", name="prune")

    weights = {one["id"]: one["weight"] for one in daemon.call("neighbors", id=a)["neighbors"]}
    assert weights == {b: pytest.approx(1.9), c: pytest.approx(1.8)}


def test_a_run_reports_what_the_store_lost_and_a_dry_run_loses_nothing(daemon: Daemon) -> None:
    ids = [daemon.remember(f"thing number {number}") for number in range(4)]
    for number, one in enumerate(ids[1:]):
        daemon.call("connect", a=ids[0], b=one, weight=0.11 + number)
    daemon.beat(3)
    before = daemon.call("graph_stats")["edges"]
    dry = daemon.call("run_job", name="prune", dry_run=True)
    assert daemon.call("graph_stats")["edges"] == before
    wet = daemon.call("run_job", name="prune")

    assert dry["counts"] == wet["counts"] == {"examined": 3, "pruned": 1, "skipped": 0}
    assert dry["examples"] == wet["examples"]
    assert daemon.call("graph_stats")["edges"] == before - 1
