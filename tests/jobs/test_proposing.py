"""Near pairs: the nearest of a run are proposed, each once; what is new or changed is compared, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from jobs import dedup
from jobs.context import Context
from jobs.matching import LOOKED_AT
from jobs.proposing import A_RUN, IN_ALL, NAME, PROPOSED, Proposing
from storage.model import EVERY_SCOPE
from storage.nearness import Found
from storage.proposals import Proposal
from tests.harness import Daemon
from tests.jobs.by_hand import context

BARN = "the red fox sleeps in the old barn on the hill"


@pytest.fixture
def daemon(daemon: Daemon) -> Daemon:
    """A daemon that has looked at nothing, and where no pair waits."""

    def empty() -> None:
        ledger = daemon.stores.ledger
        ledger.proposals.settle([(one.a, one.b) for one in ledger.proposals.waiting()])
        for name in (NAME, PROPOSED, LOOKED_AT):
            ledger.examined.drop(name, ledger.examined.of(name))

    daemon.in_lane(empty)
    return daemon


def run(daemon: Daemon, **options: Any) -> dict[str, int]:
    counts: dict[str, int] = daemon.call("run_job", name="dedup", **options)["counts"]
    return counts


def waiting(daemon: Daemon) -> list[Proposal]:
    found: list[Proposal] = daemon.in_lane(daemon.stores.ledger.proposals.waiting)
    return found


def ends(daemon: Daemon) -> set[tuple[str, str]]:
    return {(one.a, one.b) for one in waiting(daemon)}


def settle(daemon: Daemon, *pairs: tuple[str, str]) -> None:
    daemon.in_lane(daemon.stores.ledger.proposals.settle, pairs)


def marks(daemon: Daemon, name: str = NAME) -> int:
    return len(daemon.in_lane(daemon.stores.ledger.examined.of, name))


def barns(daemon: Daemon, count: int, scope: str = "default", prefix: str = "m") -> list[str]:
    """Memories that are all near to each other, and no twins."""
    items = [{"content": f"{BARN} number {n}", "id": f"{prefix}{n:02}", "scope": scope} for n in range(count)]
    daemon.call("remember_many", items=items)
    return [item["id"] for item in items]


def forgetting(daemon: Daemon, memory: str, turns: list[None]) -> Callable[[], None]:
    """Forgets a memory of a run whose texts were read and whose vectors were not; the turns since the former."""
    every = len(daemon.in_lane(lambda: list(daemon.stores.catalogue.rows())))

    def pace() -> None:
        if turns or marks(daemon, LOOKED_AT) == every:
            turns.append(None)
        if len(turns) == 2:
            daemon.call("forget", id=memory)

    return pace


def by_hand(ctx: Context, *, window: int) -> list[Found]:
    """What is proposed by windows of so many rows."""
    rows = ctx.read(lambda: list(ctx.stores.catalogue.rows()))
    proposing = Proposing(ctx, rows, frozenset(row.id for row in rows), window=window)
    for scope in sorted({row.scope for row in rows}):
        proposing.compare(scope, [row for row in rows if row.scope == scope])
    return proposing.finish()


def test_a_near_pair_waits_with_its_cosine_and_a_far_one_does_not(daemon: Daemon) -> None:
    a, b = daemon.remember(f"{BARN} today", id="b"), daemon.remember(f"{BARN} again", id="a")
    daemon.remember("quarterly budget figures")
    done = daemon.call("run_job", name="dedup")
    (pair,) = waiting(daemon)

    vectors = daemon.parts.gate.vectors([f"{BARN} today", f"{BARN} again"])
    assert (pair.a, pair.b, pair.scope, pair.run) == (b, a, "default", done["run_id"])
    assert pair.cosine == pytest.approx(float(np.dot(vectors[0].dense, vectors[1].dense)), abs=1e-3)
    assert done["examples"] == [{"pair": ["a", "b"], "cosine": pair.cosine}]
    assert (done["outcome"], done["counts"]["proposed"], done["counts"]["examined"]) == ("unchanged", 1, 3)


def test_b13_a_template_gives_no_more_than_the_cap_and_the_rest_is_not_lost(daemon: Daemon) -> None:
    """Twenty-five of a kind are three hundred pairs: the nearest come first, the others in the nights that follow."""
    every = set(combinations(barns(daemon, 25), 2))
    first = run(daemon)
    assert (first["proposed"], first["left_out"]) == (A_RUN, len(every) - A_RUN)
    nearest = waiting(daemon)
    second = run(daemon)
    assert (second["proposed"], second["left_out"]) == (len(every) - A_RUN, 0)
    later = [one for one in waiting(daemon) if one not in nearest]

    assert ends(daemon) == every
    assert min(one.cosine for one in nearest) >= max(one.cosine for one in later)
    assert run(daemon) == dict.fromkeys(first, 0)


def test_the_nearest_are_chosen_across_all_scopes(daemon: Daemon) -> None:
    """A scope that comes later, with nearer pairs, is not left out for one that fills the run by itself."""
    barns(daemon, 25, scope="a", prefix="a")
    twice = [daemon.remember(f"{BARN} " * 3 + word, scope="b", id=f"b-{word}") for word in ("first", "second")]
    run(daemon)

    assert tuple(twice) in ends(daemon)
    assert len(waiting(daemon)) == A_RUN


def test_no_more_wait_than_there_is_room_for_in_all(daemon: Daemon) -> None:
    others = [daemon.remember(" ".join(f"word{n}x{part}" for part in range(9)), id=f"x{n:02}") for n in range(64)]
    some = [
        Proposal(a, b, "default", 0.76, 1.0, "former") for a, b in list(combinations(sorted(others), 2))[: IN_ALL - 3]
    ]
    daemon.in_lane(daemon.stores.ledger.proposals.add, some)
    fresh = barns(daemon, 4, scope="a")
    counts = run(daemon)
    assert (counts["proposed"], counts["left_out"], len(waiting(daemon))) == (3, 3, IN_ALL)
    assert len([one for one in waiting(daemon) if one.scope == "a"]) == 3

    full = daemon.call("run_job", name="dedup")
    assert full["counts"]["examined"] == full["counts"]["proposed"] == 0
    assert full["reason"] == "2,000 near pairs wait to be judged: no others were looked for"
    settle(daemon, *((one.a, one.b) for one in some))
    run(daemon)
    assert {pair for pair in ends(daemon) if pair[0] in fresh} == set(combinations(fresh, 2))


def test_only_what_is_new_or_changed_is_compared_with_its_scope(daemon: Daemon) -> None:
    barns(daemon, 6)
    daemon.remember(f"{BARN} elsewhere", scope="other")
    assert run(daemon)["examined"] == 7
    assert run(daemon)["examined"] == 0

    daemon.remember(f"{BARN} as well", id="new")
    counts = run(daemon)
    assert (counts["examined"], counts["proposed"]) == (1, 6)
    daemon.call("update", id="m03", content="something else altogether")
    counts = run(daemon)
    assert (counts["examined"], counts["proposed"]) == (1, 0)


def test_what_does_not_change_the_judgement_is_no_reason_to_look_again(daemon: Daemon) -> None:
    barns(daemon, 3)
    run(daemon)
    daemon.call("update", id="m00", tags=["a"])
    daemon.call("set_emotion", id="m01", emotion=0.9)
    daemon.call("connect", a="m00", b="m01")

    assert run(daemon)["examined"] == 0


@pytest.mark.parametrize("changed", [{"metadata": {"team": "a"}}, {"sensitivity": "secret"}, {"pinned": True}], ids=str)
def test_what_changes_the_judgement_is(daemon: Daemon, changed: dict[str, Any]) -> None:
    barns(daemon, 3)
    run(daemon)
    daemon.call("update", id="m00", **changed)

    assert run(daemon)["examined"] == 1


def test_another_threshold_or_embedder_is_a_reason_to_look_at_all_of_it_again(daemon: Daemon) -> None:
    barns(daemon, 5)
    run(daemon)

    assert dedup.run(context(daemon, settings={"propose": 0.5})).counts["examined"] == 5
    assert run(daemon)["examined"] == 5
    assert marks(daemon) == 5


def test_the_same_two_texts_are_proposed_once(daemon: Daemon) -> None:
    """Also where the pair was judged meanwhile and something else of one changed; another text is another pair."""
    daemon.remember(f"{BARN} today", id="a")
    daemon.remember(f"{BARN} again", id="b")
    run(daemon)
    daemon.call("update", id="a", metadata={"seen": True})
    assert (run(daemon)["proposed"], len(waiting(daemon))) == (0, 1)
    settle(daemon, ("a", "b"))
    daemon.call("update", id="a", metadata={"seen": False})
    assert (run(daemon)["proposed"], waiting(daemon)) == (0, [])

    daemon.call("update", id="a", content=f"{BARN} yesterday")
    assert (run(daemon)["proposed"], ends(daemon)) == (1, {("a", "b")})


def test_a_pair_that_waits_is_not_proposed_again_though_its_text_is_another(daemon: Daemon) -> None:
    """Whoever takes it up looks at what the two say then."""
    daemon.remember(f"{BARN} today", id="a")
    daemon.remember(f"{BARN} again", id="b")
    run(daemon)
    before = waiting(daemon)
    daemon.call("update", id="a", content=f"{BARN} tomorrow")

    assert (run(daemon)["proposed"], waiting(daemon)) == (0, before)


def test_a_pair_of_which_one_is_gone_waits_no_more_and_leaves_no_mark(daemon: Daemon) -> None:
    barns(daemon, 3)
    run(daemon)
    assert (len(waiting(daemon)), marks(daemon), marks(daemon, PROPOSED)) == (3, 3, 3)
    daemon.call("forget", id="m00")
    run(daemon, dry_run=True)
    assert len(waiting(daemon)) == 3
    run(daemon)
    assert (ends(daemon), marks(daemon), marks(daemon, PROPOSED)) == ({("m01", "m02")}, 2, 1)

    daemon.call("restore", id="m00")
    assert run(daemon)["proposed"] == 2


def test_a_memory_that_goes_while_it_is_looked_at_is_skipped_and_counted(daemon: Daemon) -> None:
    barns(daemon, 3)
    report = dedup.run(context(daemon, pace=forgetting(daemon, "m01", [])))

    assert report.counts == {"examined": 3, "merged": 0, "proposed": 1, "deferred": 0, "left_out": 0, "skipped": 1}
    assert (ends(daemon), marks(daemon)) == ({("m00", "m02")}, 2)


def test_for_the_sake_of_one_without_a_vector_no_other_is_read(daemon: Daemon) -> None:
    barns(daemon, 3)
    run(daemon)
    daemon.remember(f"{BARN} as well", id="new")
    turns: list[None] = []
    report = dedup.run(context(daemon, pace=forgetting(daemon, "new", turns)))

    assert (report.counts["examined"], report.counts["skipped"], report.counts["proposed"]) == (1, 1, 0)
    assert len(turns) == 3  # the rows as they are, the vector, the end


@pytest.mark.parametrize("window", [1, 2, 5, 7, 40])
def test_windows_of_any_size_find_the_same(daemon: Daemon, window: int) -> None:
    """First of all that is there, then of what was added, among what was not."""
    barns(daemon, 9)
    barns(daemon, 4, scope="a", prefix="a")
    every = [*combinations([f"a{n:02}" for n in range(4)], 2), *combinations([f"m{n:02}" for n in range(9)], 2)]
    found = by_hand(context(daemon), window=window)
    assert sorted((one.a, one.b) for one in found) == every
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    assert marks(daemon) == 13

    daemon.remember(f"{BARN} in between", id="m04x")
    daemon.remember(f"{BARN} at the end", id="n")
    found = by_hand(context(daemon), window=window)
    assert len(found) == 2 * 9 + 1
    assert all({one.a, one.b} & {"m04x", "n"} for one in found)


@pytest.mark.parametrize("asked", [3, 8, 14, 20])
def test_a_run_that_is_cut_short_keeps_what_it_looked_at_and_the_next_finds_the_rest(
    daemon: Daemon, asked: int
) -> None:
    every = set(combinations(barns(daemon, 9), 2))
    times: list[None] = []

    def stopping() -> bool:
        times.append(None)
        return len(times) > asked

    ctx = context(daemon, stopping=stopping)
    by_hand(ctx, window=2)
    kept = marks(daemon)
    assert ctx.cut_short
    assert kept < 9
    assert run(daemon)["examined"] == 9 - kept

    assert ends(daemon) == every


def test_nothing_is_lost_where_the_run_never_came_to_its_end(daemon: Daemon) -> None:
    """Killed before its pairs were written: whoever they were found for is looked at again."""
    every = set(combinations(barns(daemon, 7), 2))
    daemon.remember("quarterly budget figures", id="far")
    ctx = context(daemon)
    rows = daemon.in_lane(lambda: list(daemon.stores.catalogue.rows()))
    Proposing(ctx, rows, frozenset(row.id for row in rows), window=3).compare("default", rows)

    assert waiting(daemon) == []
    run(daemon)
    assert ends(daemon) == every


def test_a_dry_run_notes_nothing(daemon: Daemon) -> None:
    barns(daemon, 5)
    dry = run(daemon, dry_run=True)

    assert (marks(daemon), marks(daemon, PROPOSED), waiting(daemon)) == (0, 0, [])
    assert run(daemon) == dry


def test_the_scope_of_a_proposal_is_an_exact_one(daemon: Daemon) -> None:
    barns(daemon, 2, scope="a/b")
    run(daemon)

    assert [one.scope for one in waiting(daemon)] == ["a/b"] != [EVERY_SCOPE]
