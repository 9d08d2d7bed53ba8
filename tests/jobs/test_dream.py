"""The dream: everybody is visited in time, near pairs are linked within limits, feelings settle in two phases."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st

from jobs import dream
from jobs.dream import Around, Pair
from storage.model import DAY, Memory, synapse_key
from tests.harness import Daemon
from tests.jobs import world
from tests.jobs.by_hand import context
from tests.jobs.world import NOW, for_all, row

ids = st.sets(st.text("abcdefghij", min_size=1, max_size=4), max_size=150)
few = st.sampled_from("abcdef")
pairs = st.lists(
    st.builds(
        lambda ends, cosine: Pair(*sorted(ends), "a", cosine),
        st.tuples(few, few).filter(lambda ends: ends[0] != ends[1]),
        st.floats(-1.0, 1.0),
    ),
    max_size=60,
)
degrees = st.dictionaries(few, st.integers(0, 40))
feelings = st.dictionaries(world.names, st.lists(world.shares, max_size=5))

BEGINNING = (0.0, "")


@for_all(ids, st.floats(0.0, 0.999), st.integers(1, 30))
def test_the_same_cursor_gives_the_same_visits(some, at, sweep) -> None:
    assert dream.due(sorted(some), (at, ""), sweep) == dream.due(sorted(some, reverse=True), (at, ""), sweep)


@for_all(ids, st.integers(1, 20), st.data())
def test_everybody_is_visited_within_a_sweep_while_others_come_and_go(some, sweep, data) -> None:
    present, staying, cursor = set(some), set(some), BEGINNING
    visited: set[str] = set()
    for _ in range(sweep):
        visits, cursor = dream.due(sorted(present), cursor, sweep)
        visited.update(visits)
        gone = data.draw(st.sets(st.sampled_from(sorted(present)), max_size=20)) if present else set()
        present = present - gone | data.draw(st.sets(st.text("kl", min_size=1, max_size=6), max_size=40))
        staying -= gone

    assert staying <= visited


def test_a_memory_behind_the_cursor_is_reached_however_fast_the_store_grows() -> None:
    """A cursor over creation times runs after a growing end, and leaves the beginning waiting for weeks."""
    present = [f"old{number}" for number in range(1000)]
    cursor: dream.Cursor = (0.5, "")
    waiting = set(present)
    for night in range(14):
        visits, cursor = dream.due(present, cursor, 14)
        waiting -= set(visits)
        present += [f"new{night}-{number}" for number in range(200)]

    assert waiting == set()


def test_a_run_visits_its_share_and_at_least_fifty() -> None:
    many = [f"m{number}" for number in range(14_000)]

    assert 900 < len(dream.due(many, BEGINNING, 14)[0]) < 1100
    assert len(dream.due(many[:200], BEGINNING, 14)[0]) == 50
    assert len(dream.due(many[:30], BEGINNING, 14)[0]) == 30
    assert dream.due([], BEGINNING, 14)[0] == []


@pytest.mark.parametrize("beginning", [0.0, 0.37])
def test_the_runs_of_a_sweep_visit_nobody_twice(beginning) -> None:
    many = [f"m{number}" for number in range(3_000)]
    seen, cursor = Counter[str](), (beginning, "")
    for _ in range(14):
        visits, cursor = dream.due(many, cursor, 14)
        seen.update(visits)

    assert set(seen) == set(many)
    assert max(seen.values()) == 1


@for_all(pairs, degrees, degrees)
def test_links_keep_both_limits_and_no_pair_comes_twice(some, degree, fresh) -> None:
    edges = dream.link(some, degree, fresh, NOW, 0.5)
    added = Counter(end for edge in edges if edge.after for end in edge.after[:2])

    assert edges == dream.link(list(some), degree, fresh, NOW, 0.5)
    assert len({edge.key for edge in edges}) == len(edges)
    for end, count in added.items():
        assert fresh.get(end, 0) + count <= dream.NEW_EDGES
        assert degree.get(end, 0) + count <= dream.MAX_DEGREE
    for edge in edges:
        assert edge.before is None
        assert edge.after is not None
        assert (edge.after.kind, edge.after.weight) == ("similar", 0.3)
        assert max(pair.cosine for pair in some if synapse_key(pair.a, pair.b, "similar") == edge.key) >= 0.5


@for_all(pairs)
def test_linking_what_was_linked_again_finds_nothing(some) -> None:
    """A linked pair is not shown again; what is left had no room and gets none, for this run's links still count."""
    first = dream.link(some, {}, {}, NOW, 0.5)
    linked = {edge.key for edge in first}
    left = [pair for pair in some if synapse_key(pair.a, pair.b, "similar") not in linked]
    added = Counter(end for edge in first if edge.after for end in edge.after[:2])

    assert dream.link(left, added, added, NOW, 0.5) == []


@pytest.mark.parametrize(
    ("cosine", "degree", "fresh", "linked"),
    [
        (0.6, 0, 0, True),
        (0.5999, 0, 0, False),
        (1.0, 29, 0, True),
        (1.0, 30, 0, False),
        (1.0, 0, 4, True),
        (1.0, 0, 5, False),
    ],
)
def test_the_limits_of_a_link(cosine, degree, fresh, linked) -> None:
    """Near from the threshold on, at most five new edges a memory in a run, none beyond degree thirty."""
    assert bool(dream.link([Pair("a", "b", "a", cosine)], {"b": degree}, {"a": fresh}, NOW, 0.6)) is linked


def test_the_closest_come_first() -> None:
    some = [Pair("a", f"b{number}", "a", 0.6 + number / 100) for number in range(9)]

    ends = [edge.after.b for edge in dream.link(some, {}, {}, NOW, 0.6) if edge.after]
    assert ends == ["b8", "b7", "b6", "b5", "b4"]


@for_all(world.rows, feelings)
def test_feelings_move_by_a_nudge_towards_the_mean_and_only_where_it_is_far(rows, felt) -> None:
    before = world.by_id(rows)
    for patch in dream.settle(rows, felt):
        one, heard = before[patch.memory], felt[patch.memory]
        mean = sum(heard) / len(heard)
        assert abs(mean - one.emotion) > dream.GAP
        assert abs(patch.fields["emotion"] - one.emotion) == pytest.approx(dream.NUDGE, abs=2e-6)
        assert abs(mean - patch.fields["emotion"]) < abs(mean - one.emotion)
        assert 0.0 <= patch.fields["emotion"] <= 1.0


@for_all(world.rows, feelings)
def test_the_order_of_the_visits_cannot_matter(rows, felt) -> None:
    def settled(some: list[Memory]) -> dict[str, float]:
        return {patch.memory: patch.fields["emotion"] for patch in dream.settle(some, felt)}

    assert settled(rows) == settled(rows[::-1])


@for_all(world.rows, feelings, pairs, degrees)
def test_the_same_surroundings_give_the_same_plan(rows, felt, some, degree) -> None:
    around = Around(visited=rows, pairs=some, degree=degree, felt=felt)

    assert dream.plan(around, {}, NOW, 0.6) == dream.plan(around, {}, NOW, 0.6)


def test_nobody_is_settled_by_silence() -> None:
    assert dream.settle([row("a", emotion=0.0)], {"a": []}) == []


# On a real store.


def edges(daemon: Daemon, kind: str) -> set[tuple[str, str]]:
    every = daemon.in_lane(lambda: list(daemon.stores.synapses.every()))
    return {(edge.a, edge.b) for _, edge in every if edge.kind == kind}


def emotions(daemon: Daemon) -> dict[str, float]:
    return {memory["id"]: memory["emotion"] for memory in daemon.call("list", limit=500)["memories"]}


def test_a6_zero_is_an_emotion_like_any_other(daemon: Daemon) -> None:
    a, b = daemon.remember("the fox", emotion=0.0), daemon.remember("the mill", emotion=0.6)
    daemon.call("connect", a=a, b=b, weight=1.0)
    run = daemon.call("run_job", name="dream")

    assert emotions(daemon) == {a: pytest.approx(0.05), b: pytest.approx(0.55)}
    assert run["counts"] == {"visited": 2, "linked": 0, "settled": 2, "skipped": 0}


def test_a7_feelings_are_read_as_they_were_when_the_run_began(daemon: Daemon) -> None:
    """A chain: with the neighbours' new values the middle would have moved otherwise."""
    a, b, c = (daemon.remember(f"thing {n}", emotion=e) for n, e in enumerate((0.0, 0.3, 1.0)))
    daemon.call("connect", a=a, b=b, weight=1.0)
    daemon.call("connect", a=b, b=c, weight=1.0)
    daemon.call("run_job", name="dream")

    assert emotions(daemon) == {a: pytest.approx(0.05), b: pytest.approx(0.3), c: pytest.approx(0.95)}


def test_faint_edges_and_forgotten_neighbours_are_not_heard(daemon: Daemon) -> None:
    a, b, c = (daemon.remember(f"{word} {word}", emotion=e) for word, e in (("x", 0.0), ("y", 1.0), ("z", 1.0)))
    daemon.call("connect", a=a, b=b, weight=0.49)
    daemon.call("connect", a=a, b=c, weight=5.0)
    daemon.call("forget", id=c)

    assert daemon.call("run_job", name="dream")["counts"]["settled"] == 0


def test_near_memories_are_linked_once_and_far_ones_never(daemon: Daemon) -> None:
    a = daemon.remember("the red fox sleeps in the old barn")
    b = daemon.remember("the red fox sleeps in the new barn")
    daemon.remember("quarterly budget figures")
    run = daemon.call("run_job", name="dream")
    assert run["counts"]["linked"] == 1
    assert edges(daemon, "similar") == {tuple(sorted((a, b)))}
    assert "cosine 0." in run["examples"][0]["reason"]

    again = daemon.call("run_job", name="dream")
    assert (again["outcome"], again["counts"]["linked"]) == ("unchanged", 0)


def test_nothing_is_linked_across_scopes_though_a_finer_one_is_full_of_the_like(daemon: Daemon) -> None:
    coarse = [daemon.remember(f"the red fox sleeps in the barn {n}", scope="a", id=f"c{n}") for n in range(2)]
    for number in range(30):
        daemon.remember(f"the red fox sleeps in the barn {number % 2} {'x' * number}", scope="a/b", id=f"f{number}")
    daemon.call("run_job", name="dream")

    found = edges(daemon, "similar")
    assert tuple(coarse) in found
    assert all(one[0] == other[0] for one, other in found)


def test_what_other_scopes_hold_hides_nothing_near(daemon: Daemon) -> None:
    own = tuple(daemon.remember(f"the red fox sleeps in the barn {n}", scope="a", id=f"a{n}") for n in range(2))
    for number in range(60):
        daemon.remember(f"the red fox sleeps in the barn {number % 2} {'x' * number}", scope="b", id=f"b{number}")
    daemon.call("run_job", name="dream")
    daemon.call("run_job", name="dream")

    assert own in edges(daemon, "similar")


def test_a_run_gives_nobody_more_than_five_edges_though_it_works_in_parts(daemon: Daemon) -> None:
    barns(daemon, 150)
    dream.run(context(daemon, settings={"sweep_days": 1}))

    assert max(Counter(end for pair in edges(daemon, "similar") for end in pair).values()) == dream.NEW_EDGES == 5


def test_links_stop_at_degree_thirty_however_often_it_dreams(daemon: Daemon) -> None:
    for number in range(60):
        daemon.remember(f"the red fox sleeps in the old barn on the hill {number}")
    for _ in range(12):
        daemon.call("run_job", name="dream")

    degree = Counter(end for pair in edges(daemon, "similar") for end in pair)
    assert 0 < max(degree.values()) <= dream.MAX_DEGREE


def test_a9_case16_twenty_dreams_make_no_memory_and_cite_nobody(daemon: Daemon) -> None:
    """Links are edges, never memories about memories; a job that looks is no use of what it looks at."""
    items = [
        {"content": f"the fox number {n % 40} of pack {n % 7}, seen {n} times", "emotion": n % 5 / 4}
        for n in range(200)
    ]
    daemon.call("remember_many", items=items)
    kept = ("access_count", "accessed_at", "updated_at", "version", "content", "heat", "tier", "importance")

    def state() -> dict[str, list[object]]:
        return {one["id"]: [one[name] for name in kept] for one in daemon.call("list", limit=500)["memories"]}

    before = state()
    for _ in range(20):
        daemon.call("run_job", name="dream")
    daemon.call("run_job", name="night")

    assert state() == before
    assert len(daemon.parts.learn) == 0


def test_a_dry_run_plans_and_neither_writes_nor_moves_the_cursor(daemon: Daemon) -> None:
    for number in range(70):
        daemon.remember(f"the red fox sleeps in barn {number % 3} on hill {number}", emotion=number % 2)
    dry = daemon.call("run_job", name="dream", dry_run=True)
    assert edges(daemon, "similar") == set()
    assert daemon.in_lane(daemon.stores.ledger.fact, dream.CURSOR) is None
    wet = daemon.call("run_job", name="dream")

    assert wet["counts"]["visited"] == dry["counts"]["visited"] == 50
    assert wet["counts"]["linked"] == dry["counts"]["linked"] == len(edges(daemon, "similar"))


def barns(daemon: Daemon, count: int) -> list[str]:
    """Memories that are all near to each other, in the order in which a whole sweep visits them."""
    for number in range(count):
        daemon.remember(f"the red fox sleeps in barn {number}", id=f"m{number}", emotion=0.0)
    return dream.due([f"m{number}" for number in range(count)], BEGINNING, 1)[0]


def test_a29_a_memory_that_comes_or_goes_during_the_run_does_no_harm(daemon: Daemon) -> None:
    """Between two parts one is added that is near to all which come next, and one is taken that was still due."""
    order = barns(daemon, 140)
    taken = order[100]

    def meddle(done: int, _total: int) -> None:
        if done == dream.CHUNK:
            daemon.remember("the red fox sleeps in barn 100", id="new")
            daemon.call("forget", id=taken)

    report = dream.run(context(daemon, settings={"sweep_days": 1}, progress=meddle))
    assert report.counts["visited"] == 139
    assert report.counts["linked"] == len(edges(daemon, "similar"))
    assert any("new" in pair for pair in edges(daemon, "similar"))


def test_a_dream_that_is_told_to_stop_keeps_its_finished_parts_and_the_next_goes_on(daemon: Daemon) -> None:
    order = barns(daemon, 150)
    through: list[int] = []
    daemon.call("set_emotion", id=order[0], emotion=1.0)
    ctx = context(
        daemon,
        settings={"sweep_days": 1},
        progress=lambda done, _: through.append(done),
        stopping=lambda: dream.CHUNK in through,
    )
    report = dream.run(ctx)

    assert ctx.cut_short
    assert report.counts["visited"] == dream.CHUNK
    assert report.counts["linked"] == len(edges(daemon, "similar")) > 0
    assert {one for pair in edges(daemon, "similar") for one in pair} >= set(order[: dream.CHUNK])
    at, last = daemon.in_lane(daemon.stores.ledger.fact, dream.CURSOR)
    assert (at, last) == (dream.place(last), order[dream.CHUNK - 1])
    assert dream.due(order, (at, last), 14)[0][0] == order[dream.CHUNK]


def test_a_dream_that_is_stopped_within_a_part_leaves_nothing_of_it(daemon: Daemon) -> None:
    barns(daemon, 60)
    asked: list[None] = []

    def stopping() -> bool:
        asked.append(None)
        return len(asked) > 3

    report = dream.run(context(daemon, settings={"sweep_days": 1}, stopping=stopping))
    assert report.changed == 0
    assert edges(daemon, "similar") == set()
    assert daemon.in_lane(daemon.stores.ledger.fact, dream.CURSOR) is None


def test_a24_a30_a_night_a_day_visits_everybody_within_the_sweep(daemon: Daemon) -> None:
    count = 14 * 60
    items = [{"content": f"note {number}", "id": f"n{number}"} for number in range(count)]
    daemon.call("remember_many", items=items)
    visited = 0
    for _ in range(14):
        visited += daemon.call("run_job", name="dream")["counts"]["visited"]
        daemon.clock.advance(DAY)

    assert visited >= count
