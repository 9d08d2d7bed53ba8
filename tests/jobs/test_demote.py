"""Heat follows recent use, tier follows proven worth, and neither goes up and down in turn."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from jobs import demote
from storage.fading import Awake, Retention
from storage.instants import format_instant
from storage.model import DAY, HEATS, Memory
from tests.harness import Daemon
from tests.jobs import world
from tests.jobs.by_hand import context
from tests.jobs.world import NOW, for_all, row

ASLEEP_NEVER = Awake()
CURVE = Retention()


def plan(rows, now=NOW, awake=ASLEEP_NEVER, manual=()) -> demote.Plan:
    return demote.plan(rows, manual, now, awake, CURVE)


def moved(one: Memory, **options) -> dict[str, object]:
    """What a pass over this one memory sets."""
    moves = plan([one], **options).moves
    return {} if not moves else {name: moves[0][0].fields[name] for name in moves[0][0].fields}


def used(days: float, name: str = "m", **fields: object) -> Memory:
    """A memory last used so many days ago."""
    at = NOW - days * DAY
    return row(name, **{"created_at": at, "updated_at": at, **fields})


@for_all(world.rows, world.absences(), st.sets(world.names))
def test_the_same_rows_give_the_same_plan(rows, awake, manual) -> None:
    assert plan(rows, NOW, awake, manual) == plan(list(rows), NOW, awake, set(manual))


@for_all(world.rows, world.absences(), st.sets(world.names))
def test_a_second_pass_at_the_same_instant_finds_nothing(rows, awake, manual) -> None:
    left = world.after(rows, [patch for patch, _ in plan(rows, NOW, awake, manual).moves])

    assert plan(left, NOW, awake, manual).moves == ()


@for_all(world.rows, world.absences())
def test_sixty_passes_in_an_hour_leave_what_one_leaves(rows, awake) -> None:
    """But for the counts at which a memory cooled, which say when; nothing crosses two limits in an hour."""
    often = rows
    for minute in range(60):
        often = world.after(often, [patch for patch, _ in plan(often, NOW + 60.0 * (minute + 1), awake).moves])
    once = world.after(rows, [patch for patch, _ in plan(rows, NOW + 3600.0, awake).moves])
    moving = {one.id for one in rows if any(abs(_idle(one, awake) - limit) < DAY for limit in _limits())}

    assert [_ranks(one) for one in often if one.id not in moving] == [
        _ranks(one) for one in once if one.id not in moving
    ]


def _idle(one: Memory, awake: Awake) -> float:
    return awake.seconds(one.used_at, NOW)


def _limits() -> tuple[float, ...]:
    return demote.HOT_IDLE, demote.WARM_IDLE, demote.LONG_IDLE


def _ranks(one: Memory) -> tuple[str, str, str]:
    return one.id, one.heat, one.tier


@for_all(world.rows, world.absences())
def test_no_pass_demotes_what_is_pinned_or_core(rows, awake) -> None:
    before = world.by_id(rows)
    for patch, _ in plan(rows, NOW, awake).moves:
        one = before[patch.memory]
        if one.pinned or one.tier == "core":
            assert HEATS.index(patch.fields.get("heat", "hot")) >= HEATS.index(one.heat)
            assert patch.fields.get("tier", one.tier) in (one.tier, "long")


@for_all(world.rows)
def test_every_move_has_a_reason_and_sets_only_heat_and_tier(rows) -> None:
    for patch, reason in plan(rows).moves:
        assert reason
        assert patch.fields.keys() <= {"heat", "tier", "cooled_at_count"}


@pytest.mark.parametrize(
    ("memory", "fields"),
    [
        # Heat: hot idle > 7 days -> warm, warm idle > 30 days -> cold; a newborn is idle since its creation.
        (used(7.0, heat="hot"), {}),
        (used(7.1, heat="hot", access_count=9), {"heat": "warm", "cooled_at_count": 9}),
        (used(30.0), {}),
        (used(30.1, access_count=2), {"heat": "cold", "cooled_at_count": 2}),
        (used(400.0, heat="hot"), {"heat": "cold", "cooled_at_count": 0}),
        (row("m", accessed_at=None), {}),
        # Up: any access cold -> warm, 3 accesses since the last demotion -> hot.
        (used(1.0, heat="cold", access_count=5, cooled_at_count=5), {}),
        (used(1.0, heat="cold", access_count=6, cooled_at_count=5), {"heat": "warm"}),
        (used(1.0, heat="cold", access_count=7, cooled_at_count=5), {"heat": "warm"}),
        (used(1.0, heat="cold", access_count=8, cooled_at_count=5), {"heat": "hot"}),
        (used(1.0, access_count=2), {}),
        (used(1.0, access_count=3), {"heat": "hot"}),
        (used(1.0, access_count=5, cooled_at_count=3), {}),
        (used(7.0, access_count=3), {"heat": "hot"}),
        (used(7.1, access_count=3), {}),
        (used(30.0, heat="cold", access_count=6, cooled_at_count=5), {"heat": "warm"}),
        (used(31.0, heat="cold", access_count=6, cooled_at_count=5), {}),
        # Tier: short with 3 accesses on 2 days, or felt and accessed once -> long.
        (used(1.0, heat="hot", access_count=3, access_days=1), {}),
        (used(1.0, heat="hot", access_count=2, access_days=2), {}),
        (used(1.0, heat="hot", access_count=3, access_days=2), {"tier": "long"}),
        (used(1.0, emotion=0.7), {}),
        (used(180.0, heat="cold", emotion=0.7, access_count=1, cooled_at_count=1), {"tier": "long"}),
        (used(180.1, heat="cold", emotion=0.7, access_count=1, cooled_at_count=1), {}),
        (used(1.0, emotion=0.7, access_count=1), {"tier": "long"}),
        (used(1.0, emotion=0.69, access_count=1), {}),
        # Tier: long, unused for 180 days with R < 0.05 and no manual edge -> short; then its old accesses count no more.
        (used(180.0, heat="cold", tier="long"), {}),
        (used(181.0, heat="cold", tier="long"), {"tier": "short"}),
        (used(181.0, heat="cold", tier="long", access_count=20, cooled_at_count=20), {}),
        (used(181.0, heat="cold", tier="long", pinned=True), {}),
        (used(999.0, heat="cold", tier="core"), {}),
        (used(181.0, heat="cold", tier="short", access_count=9, access_days=9, cooled_at_count=9), {}),
        # Never down: pinned and core.
        (used(99.0, heat="hot", pinned=True), {}),
        (used(99.0, tier="core"), {}),
    ],
)  # fmt: skip
def test_the_table_of_moves(memory, fields) -> None:
    assert moved(memory) == fields


def test_a_person_s_edge_keeps_a_long_memory_long() -> None:
    assert moved(used(181.0, heat="cold", tier="long"), manual={"m"}) == {}


def test_time_asleep_makes_nobody_idle() -> None:
    asleep = Awake([(NOW - 60 * DAY, NOW - DAY)])

    assert moved(used(61.0), awake=asleep) == {}
    assert moved(used(61.0))["heat"] == "cold"


def test_a_scope_keeps_its_fifty_most_recent_hot() -> None:
    rows = [used(number / 100, f"m{number:03d}", heat="hot") for number in range(70)]
    others = [used(6.0, f"o{number}", heat="hot", scope="d") for number in range(50)]

    assert {patch.memory for patch, _ in plan([*rows, *others]).moves} == {f"m{number:03d}" for number in range(50, 70)}


def test_what_is_hot_and_pinned_stays_and_takes_of_the_fifty() -> None:
    pinned = [used(3.0, f"p{number:02d}", heat="hot", pinned=True) for number in range(45)]
    rows = [used(number / 100, f"m{number}", heat="hot") for number in range(9)]

    assert {patch.memory for patch, _ in plan([*pinned, *rows]).moves} == {f"m{number}" for number in range(5, 9)}


def test_nobody_becomes_hot_where_fifty_more_recent_are() -> None:
    rows = [used(1.0, f"m{number:02d}", heat="hot") for number in range(50)]
    latecomer = used(2.0, "x", access_count=3)

    assert plan([*rows, latecomer]).moves == ()


def test_c1_c2_a_newborn_is_not_idle(daemon: Daemon) -> None:
    """Never accessed, a second old: its idle time counts from its creation."""
    memory = daemon.remember("said this moment")
    daemon.clock.advance(1)
    run = daemon.call("run_job", name="demote")

    assert run["outcome"] == "unchanged"
    assert daemon.call("get", id=memory)["heat"] == "warm"


def test_c3_what_is_hot_does_not_stay_hot_for_ever(daemon: Daemon) -> None:
    ids = [daemon.remember(f"note {n}") for n in range(50)]
    for memory in ids:
        daemon.call("promote_heat", id=memory)
    daemon.beat(8)
    daemon.call("run_job", name="demote")
    assert {daemon.call("get", id=memory)["heat"] for memory in ids} == {"warm"}
    daemon.beat(30)
    daemon.call("run_job", name="demote")
    assert {daemon.call("get", id=memory)["heat"] for memory in ids} == {"cold"}


def test_a34_use_moves_a_memory_through_heats_and_tiers(daemon: Daemon) -> None:
    """Warm, recalled on two days: hot and long; unused for weeks: warm, then cold; recalled once: warm."""
    memory = daemon.remember("the harbour opens at six")

    def state(days: float, recalls: int) -> tuple[str, str]:
        daemon.beat(days)
        for _ in range(recalls):
            daemon.call("recall", query="harbour")
        daemon.call("run_job", name="hebbian")
        daemon.call("run_job", name="demote")
        now = daemon.call("get", id=memory)
        return now["heat"], now["tier"]

    assert state(0, 1) == ("warm", "short")
    assert state(1, 1) == ("warm", "short")
    assert state(0, 1) == ("hot", "long")
    assert state(7.5, 0) == ("warm", "long")
    assert state(20, 0) == ("warm", "long")
    assert state(4, 0) == ("cold", "long")
    assert state(0, 1) == ("warm", "long")


def test_a_run_counts_what_it_moved_and_an_undo_moves_it_back(daemon: Daemon) -> None:
    memory = daemon.remember("felt", emotion=0.9)
    other = daemon.remember("not felt", emotion=0.1)
    daemon.call("recall", query="felt")
    daemon.call("run_job", name="hebbian")
    dry = daemon.call("run_job", name="demote", dry_run=True)
    assert daemon.call("get", id=memory)["tier"] == "short"
    run = daemon.call("run_job", name="demote")

    assert run["counts"] == dry["counts"] == {"examined": 2, "to_long": 1, "skipped": 0}
    assert daemon.call("get", id=memory)["tier"] == "long"
    assert daemon.call("get", id=other)["tier"] == "short"
    assert daemon.call("undo", run_id=run["run_id"])["restored"] == [memory]
    assert daemon.call("get", id=memory)["tier"] == "short"


def test_whoever_a_person_connected_is_found_in_whichever_slice(daemon: Daemon) -> None:
    a, b, c, alone = (daemon.remember(f"{word} {word}", id=word) for word in ("fox", "mill", "harbour", "tea"))
    daemon.call("connect", a=a, b=b)
    daemon.call("connect", a=b, b=c)
    some = [f"nobody{n}" for n in range(2 * demote.BATCH)]

    for ids in ([a, alone, *some, c], [*some, a, alone, c], [*some[:-1], a, alone, c, *some[:1]]):
        assert demote.connected(context(daemon), ids) == {a, c}
    assert demote.connected(context(daemon), []) == set()


def test_in_a_store_too_a_person_s_edge_keeps_a_long_memory_long(daemon: Daemon) -> None:
    a, b, alone = (daemon.remember(f"{word} {word}", tier="long") for word in ("fox", "mill", "harbour"))
    daemon.call("connect", a=a, b=b)
    daemon.remember("harbour harbour fox", id="x", tier="core")
    later = format_instant(daemon.clock.now() + 200 * DAY)
    run = daemon.call("run_job", name="demote", dry_run=True, at=later)

    assert run["counts"]["to_short"] == 1
    assert [example["id"] for example in run["examples"] if example["to"].get("tier") == "short"] == [alone]
