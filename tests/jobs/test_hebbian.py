"""What is recalled together is wired together, once a recall, and nothing else about an edge or a memory changes."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from jobs import hebbian
from storage.changes import Edge, Patch
from storage.fading import Awake
from storage.learn import LearnBuffer
from storage.model import DAY, synapse_key
from storage.synapses import associate
from tests.harness import Daemon
from tests.jobs import world
from tests.jobs.world import NOW, for_all, row

ASLEEP_NEVER = Awake()

recalls = st.lists(st.lists(world.names, max_size=12), max_size=12)


def learned(hits, at: float = NOW) -> hebbian.Learned:
    buffer = LearnBuffer()
    for one in hits:
        buffer.note(one, at)
    return buffer.take()


def plan(taught, rows, edges=(), now=NOW):
    return hebbian.plan(taught, world.by_id(rows), {edge.key: edge for edge in edges}, now, ASLEEP_NEVER)


@for_all(recalls, world.rows, world.edges)
def test_the_same_lessons_give_the_same_plan(hits, rows, edges) -> None:
    assert plan(learned(hits), rows, edges) == plan(learned(hits), list(rows), list(edges))


@for_all(recalls, world.rows, world.edges)
def test_what_was_learned_is_learned_once(hits, rows, edges) -> None:
    """The buffer is empty after it was taken, so that a second run at the same instant has nothing to fold."""
    buffer = LearnBuffer()
    for one in hits:
        buffer.note(one, NOW)
    world.edges_after(edges, [change for change in plan(buffer.take(), rows, edges) if isinstance(change, Edge)])

    assert plan(buffer.take(), rows, edges) == []


@for_all(recalls, recalls, world.rows)
def test_two_folds_in_a_row_are_one(first, second, rows) -> None:
    def fold(hits, before_rows, before_edges):
        changes = plan(learned(hits), before_rows, before_edges.values())
        return world.after(before_rows, changes), world.edges_after(before_edges.values(), changes)

    live = [one for one in rows if one.state == "live"]
    in_two = fold(second, *fold(first, live, {}))
    in_one = fold([*first, *second], live, {})
    assert [(one.id, one.access_count, one.access_days) for one in in_two[0]] == [
        (one.id, one.access_count, one.access_days) for one in in_one[0]
    ]
    assert {key: edge.weight for key, edge in in_two[1].items()} == pytest.approx(
        {key: edge.weight for key, edge in in_one[1].items()}
    )


@for_all(recalls, world.rows, world.edges)
def test_nothing_crosses_scopes_and_no_weight_passes_ten(hits, rows, edges) -> None:
    rows_by_id = world.by_id(rows)
    for change in plan(learned(hits), rows, edges):
        if isinstance(change, Edge):
            assert change.after is not None
            assert rows_by_id[change.after.a].scope == rows_by_id[change.after.b].scope == change.scope
            assert 0.2 <= change.after.weight <= 10.0 or change.before is not None
            assert change.after.weight <= 10.0


@for_all(recalls, world.rows)
def test_only_accesses_are_written_of_a_memory(hits, rows) -> None:
    for change in plan(learned(hits), rows):
        if isinstance(change, Patch):
            assert change.fields.keys() == {"accessed_at", "access_count", "access_days"}


@pytest.mark.parametrize(("weight", "after"), [(0.0, 0.2), (0.2, 0.396), (5.0, 5.1), (9.9, 9.902), (10.0, 10.0)])
def test_a_step_is_a_fifth_of_what_is_left_to_ten(weight, after) -> None:
    before = [associate("a", "b", "hebbian", weight, NOW)] if weight else []
    (change,) = [one for one in plan(learned([["a", "b"]]), [row("a"), row("b")], before) if isinstance(one, Edge)]

    assert change.after is not None
    assert change.after.weight == pytest.approx(after)


def test_a_step_is_added_to_what_is_left_of_a_faded_edge() -> None:
    before = associate("a", "b", "hebbian", 2.0, NOW - DAY)
    (change,) = [one for one in plan(learned([["a", "b"]]), [row("a"), row("b")], [before]) if isinstance(one, Edge)]

    assert change.after is not None
    assert change.after.weight == pytest.approx(1.8 + 0.2 * 0.82)
    assert change.after.as_of == NOW


def test_ends_that_are_gone_or_unknown_teach_nothing() -> None:
    rows = [row("a"), row("b", forgotten_at=NOW), row("c", invalid_at=NOW)]

    changes = plan(learned([["a", "b", "c", "x"]]), rows)
    assert [type(change) for change in changes] == [Patch]


@pytest.mark.parametrize(
    ("before", "at", "days"), [(None, NOW, 1), (NOW - 60.0, NOW - 30.0, 4), (NOW - DAY, NOW, 5), (NOW, NOW - DAY, 4)]
)
def test_days_of_access_are_counted_and_a_clock_set_back_adds_none(before, at, days) -> None:
    one = row("a", accessed_at=before, access_count=0 if before is None else 7, access_days=0 if before is None else 4)
    (change,) = plan(learned([["a"]], at), [one])

    assert isinstance(change, Patch)
    assert change.fields["access_days"] == days
    assert change.fields["accessed_at"] == max(at, before or 0.0)


def test_slices_hold_everything_once_and_little_each() -> None:
    taught = learned([[f"m{number}-{other}" for other in range(10)] for number in range(40)])
    parts = hebbian.slices(taught)

    assert max(len(part.pairs) + len(part.accesses) for part in parts) <= hebbian.BATCH
    assert {pair for part in parts for pair in part.pairs} == taught.pairs.keys()
    assert sum(len(part.pairs) for part in parts) == len(taught.pairs)
    assert sum(len(part.accesses) for part in parts) == len(taught.accesses)


def weights(daemon: Daemon) -> dict[tuple[str, str], float]:
    return {(edge.a, edge.b): edge.weight for _, edge in daemon.in_lane(lambda: list(daemon.stores.synapses.every()))}


def test_a5_one_recall_wires_its_hits_by_a_fifth_though_both_legs_found_them(daemon: Daemon) -> None:
    a = daemon.remember("the fox sleeps", id="a")
    b = daemon.remember("the fox hunts", id="b")
    daemon.call("recall", query="the fox")
    daemon.call("run_job", name="hebbian")

    assert weights(daemon) == {(a, b): pytest.approx(0.2)}


def test_case12_a_manual_edge_keeps_all_but_its_weight(daemon: Daemon) -> None:
    a = daemon.remember("the fox sleeps", id="a")
    b = daemon.remember("the fox hunts", id="b")
    daemon.call("connect", a=a, b=b, weight=2.0, label="same animal")
    key = synapse_key(a, b, "manual")
    before = daemon.in_lane(daemon.stores.synapses.get, key)
    for _ in range(3):
        daemon.call("recall", query="the fox")
        daemon.call("run_job", name="hebbian")

    after = daemon.in_lane(daemon.stores.synapses.get, key)
    assert after._replace(weight=0.0, as_of=0.0) == before._replace(weight=0.0, as_of=0.0)
    assert after.weight == pytest.approx(2.0 + 0.16 + 0.1568 + 0.153664)
    assert daemon.call("neighbors", id=a)["neighbors"][0]["label"] == "same animal"


def test_a4_a_confirmation_adds_to_an_edge_and_does_not_double_it(daemon: Daemon) -> None:
    a, b = daemon.remember("the fox", id="a"), daemon.remember("the mill", id="b")
    daemon.call("connect", a=a, b=b, weight=1.0)
    daemon.call("connect", a=a, b=b, weight=0.1)

    assert weights(daemon) == {(a, b): pytest.approx(1.1)}


def test_a_coarse_recall_wires_nothing_across_scopes(daemon: Daemon) -> None:
    for scope in ("a/x", "a/y"):
        daemon.remember("the fox sleeps", id=f"{scope[-1]}1", scope=scope)
        daemon.remember("the fox hunts", id=f"{scope[-1]}2", scope=scope)
    daemon.call("recall", query="the fox", scope="a")
    daemon.call("run_job", name="hebbian")

    assert weights(daemon).keys() == {("x1", "x2"), ("y1", "y2")}


def test_a35_case31_two_hundred_recalls_are_stored_by_one_fold(daemon: Daemon) -> None:
    """A recall writes nothing; the fold writes each memory and each edge once, however often they came."""
    ids = [daemon.remember(f"the fox {word}") for word in ("sleeps", "hunts", "eats")]
    before = daemon.in_lane(lambda: [daemon.stores.catalogue.get(one).seq for one in ids])
    for _ in range(200):
        daemon.call("recall", query="the fox", k=3)
    assert daemon.in_lane(lambda: [daemon.stores.catalogue.get(one).seq for one in ids]) == before
    assert weights(daemon) == {}
    daemon.run(daemon.app.background.fold())

    assert daemon.in_lane(lambda: [daemon.stores.catalogue.get(one).seq for one in ids]) == [seq + 1 for seq in before]
    assert [daemon.call("get", id=one)["access_count"] for one in ids] == [200] * 3
    assert list(weights(daemon).values()) == [pytest.approx(10.0 * (1.0 - 0.98**200))] * 3
    assert len(daemon.parts.learn) == 0


def test_a_fold_by_the_clock_is_no_run_and_one_by_hand_can_be_taken_back(daemon: Daemon) -> None:
    memory = daemon.remember("the fox sleeps")
    known = len(daemon.call("runs", limit=500)["runs"])
    daemon.call("recall", query="fox")
    daemon.run(daemon.app.background.fold())
    assert len(daemon.call("runs", limit=500)["runs"]) == known
    daemon.call("recall", query="fox")
    run = daemon.call("run_job", name="hebbian")
    assert run["counts"] == {"pairs": 0, "accesses": 1, "skipped": 0}
    assert daemon.call("get", id=memory)["access_count"] == 2
    daemon.call("undo", run_id=run["run_id"])

    assert daemon.call("get", id=memory)["access_count"] == 1


def test_a_dry_run_counts_and_leaves_the_buffer(daemon: Daemon) -> None:
    daemon.remember("the fox sleeps")
    daemon.remember("the fox hunts")
    daemon.call("recall", query="the fox")
    dry = daemon.call("run_job", name="hebbian", dry_run=True)
    assert weights(daemon) == {}
    wet = daemon.call("run_job", name="hebbian")

    assert dry["counts"] == wet["counts"] == {"pairs": 1, "accesses": 2, "skipped": 0}
    assert daemon.call("run_job", name="hebbian")["outcome"] == "unchanged"


def test_what_is_not_a_recall_teaches_nothing(daemon: Daemon) -> None:
    a = daemon.remember("the fox sleeps")
    daemon.remember("the fox hunts")
    daemon.call("recall", query="the fox", learn=False)
    daemon.call("get", id=a)
    daemon.call("list")
    daemon.call("neighbors", id=a)
    daemon.call("history", id=a)

    assert len(daemon.parts.learn) == 0
