"""Forgetting by a rule: what goes, what is protected, and never more than decay's ceiling lets go."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import strategies as st

from jobs import decay, forget_where
from jobs.forget_where import Outcome, Plan, Rule
from storage.fading import Awake
from storage.model import DAY, Memory, covers, prefixes
from tests.harness import Daemon
from tests.jobs import world
from tests.jobs.by_hand import context
from tests.jobs.world import NOW, for_all, row

ASLEEP_NEVER = Awake()
STRATEGIES = ("importance", "age", "capacity")


def plan(rows, rule: Rule, now: float = NOW, awake: Awake = ASLEEP_NEVER, *, ceiling: float = 1.0, moved=None) -> Plan:
    return forget_where.plan(rows, rule, now, awake, ceiling=ceiling, moved=moved or {})


def rule(strategy: str = "importance", **fields: object) -> Rule:
    return Rule(strategy=strategy, **fields)


def old(name: str, days: float = 100.0, **fields: object) -> Memory:
    return row(name, **{"created_at": NOW - days * DAY, "updated_at": NOW - days * DAY, **fields})


def ids(planned: Plan) -> list[str]:
    return [move.memory for move in planned.moves]


rules = st.builds(
    Rule, strategy=st.sampled_from(STRATEGIES), threshold=world.shares, max_age_days=st.floats(0.0, 400.0),
    keep=st.integers(0, 20), scope=st.sampled_from(("*", *world.SCOPES)), clearance=st.sampled_from(["public", "secret"]),
)  # fmt: skip


@for_all(world.rows, rules, world.absences())
def test_the_same_rows_in_any_order_give_the_same_plan(rows, some, awake) -> None:
    shuffled = random.Random(1).sample(rows, len(rows))

    one, other = plan(rows, some, awake=awake), plan(shuffled, some, awake=awake)
    assert one.moves == other.moves
    assert one.reasons == other.reasons


@for_all(world.rows, rules, world.absences(), st.floats(0.0, 1.0))
def test_a8_d10_only_what_is_seen_and_unprotected_ever_goes_and_each_with_a_reason(rows, some, awake, ceiling) -> None:
    rows_by_id = world.by_id(rows)
    planned = plan(rows, some, awake=awake, ceiling=ceiling)

    for move in planned.moves:
        one = rows_by_id[move.memory]
        assert (one.tier == "core", one.pinned) == (False, False)
        assert NOW - one.created_at >= DAY
        assert covers(some.scope, one.scope)
        assert some.clearance == "secret" or one.sensitivity == "public"
        assert one.expires_at is None or one.expires_at > NOW
        assert (move.seq, move.op, move.fields) == (
            one.seq,
            decay.FADED,
            {"forgotten_at": NOW, "forgotten_reason": "request"},
        )
        assert planned.reasons[one.id]
    assert planned.reasons.keys() == set(ids(planned))
    assert len(set(ids(planned))) == len(planned.moves)


@for_all(world.rows, rules, world.absences(), st.floats(0.0, 1.0), st.dictionaries(world.scopes, st.integers(0, 30)))
def test_at_every_level_the_ceiling_of_decay_holds_and_the_rest_is_told(rows, some, awake, ceiling, moved) -> None:
    planned = plan(rows, some, awake=awake, ceiling=ceiling, moved=moved)
    unbound = plan(rows, some, awake=awake, ceiling=1e9)

    assert planned.deferred == len(unbound.moves) - len(planned.moves)
    scope_of = {one.id: one.scope for one in rows}
    room = decay.room(Counter(scope_of.values()), moved, ceiling)
    taken = Counter(level for memory in ids(planned) for level in prefixes(scope_of[memory]))
    assert all(count <= room[level] for level, count in taken.items())


@for_all(world.rows, rules, world.absences())
def test_what_went_does_not_go_again_and_what_waits_is_the_rest(rows, some, awake) -> None:
    first = plan(rows, some, awake=awake)
    left = world.after(rows, first.moves)

    second = plan(left, some, awake=awake)
    assert not set(ids(first)) & set(ids(second))
    if some.strategy != "capacity":
        assert len(second.moves) == first.deferred == 0


@for_all(world.rows, world.shares)
def test_below_the_threshold_and_not_at_it(rows, threshold) -> None:
    free = {one.id for one in rows if forget_where.may_go(one, NOW) and not decay.has_expired(one, NOW)}
    expected = {one.id for one in rows if one.importance < threshold} & free

    assert set(ids(plan(rows, rule(threshold=threshold)))) == expected


@for_all(world.rows, st.integers(0, 30))
def test_of_any_size_the_first_stay_and_only_what_is_protected_beyond_them(rows, keep) -> None:
    seen = [one for one in rows if not decay.has_expired(one, NOW)]
    gone = set(ids(plan(rows, rule("capacity", keep=keep))))
    left = [one for one in seen if one.id not in gone]

    ranked = sorted(seen, key=lambda one: (-one.importance, -one.used_at, one.id))
    assert gone.isdisjoint(one.id for one in ranked[:keep])
    assert all(one in ranked[:keep] or not forget_where.may_go(one, NOW) for one in left)


def test_the_least_important_go_first_of_equals_what_was_used_longest_ago() -> None:
    rows = [old("a", importance=0.2), old("b", importance=0.1), old("c", importance=0.2, accessed_at=NOW - DAY),
            old("d", importance=0.3)]  # fmt: skip

    assert ids(plan(rows, rule())) == ["b", "a", "c"]
    assert plan(rows, rule()).reasons["b"] == "importance 0.1"
    assert ids(plan(rows, rule("capacity", keep=1))) == ["b", "a", "c"]
    assert ids(plan(rows, rule("capacity", keep=2))) == ["b", "a"]


def test_d10_a_newborn_stays_whatever_the_rule() -> None:
    rows = [old("newborn", 1.0 - 1e-6, importance=0.0), old("grown", 1.0, importance=0.0)]

    for some in (rule(), rule("age", max_age_days=0.0), rule("capacity", keep=0)):
        assert ids(plan(rows, some)) == ["grown"]


@pytest.mark.parametrize("use", [{"accessed_at": NOW - DAY, "access_count": 1}, {"updated_at": NOW - DAY}])
def test_d11_age_runs_from_the_last_use_or_edit(use) -> None:
    rows = [old("used", 400.0, **use), old("unused", 400.0)]

    assert ids(plan(rows, rule("age", max_age_days=30.0))) == ["unused"]


def test_an_age_is_counted_in_awake_days_and_must_be_more_than_the_limit() -> None:
    rows = [old("a", 40.0), old("b", 30.0)]
    away = Awake([(NOW - 20 * DAY, NOW - 5 * DAY)])

    assert ids(plan(rows, rule("age", max_age_days=30.0))) == ["a"]
    assert ids(plan(rows, rule("age", max_age_days=29.9))) == ["a", "b"]
    assert ids(plan(rows, rule("age", max_age_days=30.0), awake=away)) == []


def test_row_9_only_the_scope_that_was_named_and_what_lies_below_it() -> None:
    rows = [old(scope, scope=scope, importance=0.0) for scope in ("a", "a/b", "a/b/c", "ab", "d")]

    for scope, gone in (
        ("a/b", ["a/b", "a/b/c"]),
        ("a", ["a", "a/b", "a/b/c"]),
        ("*", ["a", "a/b", "a/b/c", "ab", "d"]),
    ):
        assert sorted(ids(plan(rows, rule(scope=scope)))) == gone


def test_the_number_to_keep_counts_what_the_caller_sees_in_the_scope_and_no_other() -> None:
    rows = [old("best", importance=0.9, sensitivity="secret"), old("other", importance=0.8, scope="d"),
            old("good", importance=0.5, sensitivity="public"), old("poor", importance=0.4, sensitivity="public")]  # fmt: skip

    assert ids(plan(rows, rule("capacity", keep=1, scope="a", clearance="public"))) == ["poor"]


def test_the_ceiling_counts_what_decay_took() -> None:
    rows = [old(f"m{n:03d}", importance=0.0) for n in range(380)]

    assert len(plan(rows, rule(), ceiling=0.05).moves) == 19
    assert len(plan(rows, rule(), ceiling=0.05, moved={"a": 12}).moves) == 7  # of 392, 19
    assert plan(rows, rule(), ceiling=0.05, moved={"a": 12}).deferred == 373


# -- runs


def filled(daemon: Daemon, count: int, **fields: object) -> list[str]:
    made = [daemon.remember(f"note {n}", id=f"m{n:02d}", **fields) for n in range(count)]
    daemon.beat(2)
    return made


def run(daemon: Daemon, some: Rule, **options: object):
    outcome = Outcome()
    return forget_where.run(context(daemon, **options), some, outcome), outcome


def test_a_dry_run_tells_what_the_run_would_do_and_does_nothing(daemon: Daemon) -> None:
    made = filled(daemon, 5, importance=0.1)

    report, outcome = run(daemon, rule(), dry_run=True)
    assert (sorted(outcome.ids), outcome.deferred) == (made, 0)
    assert report.counts == {"forgotten": 5, "deferred": 0, "skipped": 0, "total": 5}
    assert daemon.call("stats")["total"] == 5

    report, again = run(daemon, rule())
    assert again == outcome
    assert report.changed == 5
    assert daemon.call("stats")["total"] == 0


def test_b13_what_was_used_or_edited_meanwhile_stays(daemon: Daemon) -> None:
    """Between the plan and the write one memory is edited, another recalled and not yet folded."""
    filled(daemon, 4, importance=0.1)
    ctx = context(daemon)
    rows = list(daemon.in_lane(lambda: list(daemon.stores.catalogue.rows())))
    planned = plan(rows, rule(), daemon.clock.now())
    daemon.call("update", id="m00", importance=0.9)
    daemon.parts.learn.note(["m01"], daemon.clock.now())
    applied = ctx.apply(planned.moves)

    assert sorted(move.memory for move in applied.done) == ["m02", "m03"]
    assert len(applied.skipped) == 2
    assert {one["id"] for one in daemon.call("list")["memories"]} == {"m00", "m01"}


def test_decay_and_a_rule_share_one_day_s_room(daemon: Daemon) -> None:
    filled(daemon, 30, importance=0.0)
    daemon.beat(30)

    assert len(run(daemon, rule())[1].ids) == 10
    report, outcome = run(daemon, rule())
    assert (outcome.ids, outcome.deferred) == ((), 20)
    assert report.reason.startswith("20 more wait: at most max(5%, 10)")
    assert daemon.call("run_job", name="decay")["counts"]["decayed"] == 0
    daemon.beat(1.1)
    assert len(run(daemon, rule())[1].ids) == 10


def test_a_run_that_is_told_to_stop_says_what_it_did(daemon: Daemon) -> None:
    filled(daemon, 3, importance=0.1)

    report, outcome = run(daemon, rule(), stopping=lambda: True)
    assert (outcome.ids, report.changed) == ((), 0)
    assert daemon.call("stats")["total"] == 3
