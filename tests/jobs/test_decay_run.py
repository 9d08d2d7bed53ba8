"""Decay on a real store: what goes, what a touch in the last moment saves, what the report says."""

from __future__ import annotations

import pytest

from jobs import decay
from jobs.context import BATCH
from storage.errors import DreamdError
from storage.model import DAY
from tests.harness import Daemon
from tests.jobs.by_hand import context


def fill(daemon: Daemon, count: int, **fields: object) -> list[str]:
    items = [{"content": f"thing {fields.get('scope', '')} {number}", **fields} for number in range(count)]
    return [result["id"] for result in daemon.call("remember_many", items=items)["results"]]


def live(daemon: Daemon, scope: str = "*") -> set[str]:
    return {memory["id"] for memory in daemon.call("list", scope=scope, limit=500)["memories"]}


def test_b15_a_dry_run_says_what_the_run_then_does_and_does_nothing(daemon: Daemon) -> None:
    fill(daemon, 30)
    daemon.beat(17)
    expiring = daemon.remember("only for a day", expires_at="2020-01-01T00:00:00Z")
    before = live(daemon)

    dry = daemon.call("run_job", name="decay", dry_run=True)
    assert live(daemon) == before
    wet = daemon.call("run_job", name="decay")
    assert dry["counts"] == wet["counts"]
    assert dry["examples"] == wet["examples"]
    assert wet["counts"] == {"expired": 1, "decayed": 10, "total": 31, "remaining": 20, "deferred": 20, "skipped": 0}
    assert "20 more wait" in wet["reason"]
    assert daemon.call("get", id=expiring)["forgotten_reason"] == "expired"


def test_e3_the_report_counts_what_the_store_holds(daemon: Daemon) -> None:
    fill(daemon, 12, scope="a/x")
    fill(daemon, 5, scope="b")
    daemon.beat(17)

    run = daemon.call("run_job", name="decay", scope="a")
    assert run["counts"]["total"] == 12
    assert run["counts"]["remaining"] == daemon.call("stats", scope="a")["total"] == 2
    assert daemon.call("stats", scope="b")["total"] == 5


def test_a_store_that_lost_a_memory_makes_the_run_fail(daemon: Daemon) -> None:
    """The counts of a report come from the store; where it and the catalogue disagree, the run says so."""
    lost, *_ = fill(daemon, 5)
    daemon.beat(17)
    point = daemon.in_lane(daemon.stores.catalogue.point, lost)
    daemon.in_lane(daemon.stores.engine.delete, "memories", [point])

    run = daemon.call("run_job", name="decay")
    assert (run["outcome"], run["reason"]) == ("failed", "corrupt")


def test_b13_what_was_touched_between_plan_and_write_is_skipped(daemon: Daemon) -> None:
    kept, gone, *_ = fill(daemon, 5)
    daemon.beat(17)
    ctx = context(daemon)
    rows = ctx.read(lambda: list(ctx.stores.catalogue.rows()))
    planned = decay.plan(rows, ctx.now, ctx.stores.awake, ctx.settings.retention, ceiling=0.05, moved={})
    daemon.call("update", id=kept, tags=["touched"])

    applied = ctx.apply(planned.decayed)
    assert [change.memory for change in applied.skipped] == [kept]
    assert daemon.call("get", id=kept)["state"] == "live"
    assert daemon.call("get", id=gone)["state"] == "forgotten"


def test_what_was_recalled_a_moment_ago_is_in_use_though_nothing_was_stored_yet(daemon: Daemon) -> None:
    """Accesses wait in the buffer for up to a second; a memory must not go in that second."""
    ids = fill(daemon, 5)
    daemon.beat(17)
    hits = {hit["id"] for hit in daemon.call("recall", query="thing 3", k=1)["hits"]}

    run = daemon.call("run_job", name="decay")
    assert run["counts"]["skipped"] == 1
    assert live(daemon) == hits < set(ids)


def test_b1_an_access_saves_a_memory(daemon: Daemon) -> None:
    fill(daemon, 3)
    daemon.beat(10)
    (saved,) = (hit["id"] for hit in daemon.call("recall", query="thing 1", k=1)["hits"])
    daemon.call("run_job", name="hebbian")
    daemon.beat(7)
    daemon.call("run_job", name="decay")

    assert live(daemon) == {saved}


def test_case4_weeks_awake_take_what_nobody_recalled_and_an_undo_brings_it_back_with_its_edges(daemon: Daemon) -> None:
    ids = fill(daemon, 60)
    kept = fill(daemon, 10, tier="long", scope="k") + fill(daemon, 10, pinned=True, scope="p")
    daemon.call("connect", a=ids[0], b=ids[1], weight=10.0)
    runs = []
    for _ in range(45):
        daemon.beat(1)
        runs.append(daemon.call("run_job", name="decay"))
    assert live(daemon) == set(kept)
    assert daemon.call("recall", query="thing 1", scope="default")["hits"] == []
    with pytest.raises(DreamdError):
        daemon.call("connect", a=ids[0], b=ids[1])

    for run in runs:
        if run["outcome"] == "changed":
            undone = daemon.call("undo", run_id=run["run_id"])
            assert len(undone["restored"]) == run["counts"]["decayed"]
            assert undone["left"] == []
    assert live(daemon) == {*kept, *ids}
    (neighbour,) = daemon.call("neighbors", id=ids[0])["neighbors"]
    assert (neighbour["id"], neighbour["weight"]) == (ids[1], pytest.approx(10.0 * 0.95**45, abs=1e-4))


def test_case17_a_stale_memory_goes_once_and_comes_back_whole(daemon: Daemon) -> None:
    """Three monthly runs: it leaves recall at the first, and the others find nothing to do."""
    stale = daemon.remember("the password is a fish", tags=["Old"])
    fresh = daemon.call("get", id=stale)
    daemon.beat(17)
    assert daemon.call("run_job", name="decay")["counts"]["decayed"] == 1
    for _ in range(2):
        daemon.beat(1)
        assert daemon.call("run_job", name="decay")["outcome"] == "unchanged"
    assert daemon.call("recall", query="password fish")["hits"] == []

    back = daemon.call("restore", id=stale)
    changed = {"accessed_at", "retention", "context"}  # to restore is to use
    assert {name: back[name] for name in back.keys() - changed} == {
        name: fresh[name] for name in fresh.keys() - changed
    }
    assert [hit["id"] for hit in daemon.call("recall", query="password fish")["hits"]] == [stale]
    assert daemon.call("run_job", name="decay")["outcome"] == "unchanged"


def test_a1_b21_nothing_of_a_forgotten_memory_haunts_recall(daemon: Daemon) -> None:
    """Point and edges leave together: its twin is found alone, learns alone, and a restart finds nothing to mend."""
    faded = daemon.remember("the fox sleeps in the barn")
    daemon.beat(17)
    kept = daemon.remember("the fox sleeps in the old barn")
    daemon.call("connect", a=faded, b=kept)
    daemon.call("run_job", name="decay")
    for _ in range(3):
        assert [hit["id"] for hit in daemon.call("recall", query="fox sleeps barn")["hits"]] == [kept]
    assert daemon.call("run_job", name="hebbian")["counts"] == {"pairs": 0, "accesses": 1, "skipped": 0}
    assert daemon.call("neighbors", id=kept)["neighbors"] == []
    assert daemon.call("get", id=faded)["access_count"] == 0

    daemon.restart()
    assert [hit["id"] for hit in daemon.call("recall", query="fox sleeps barn")["hits"]] == [kept]
    assert daemon.call("get", id=faded)["state"] == "forgotten"


def test_two_runs_at_one_instant_are_one(daemon: Daemon) -> None:
    fill(daemon, 30)
    daemon.beat(17)
    daemon.call("run_job", name="decay")
    after_one = live(daemon)

    assert daemon.call("run_job", name="decay")["counts"]["decayed"] == 0
    assert live(daemon) == after_one


def test_the_ceiling_is_counted_from_the_journal_over_24_hours_at_every_level(daemon: Daemon) -> None:
    fill(daemon, 150, scope="a/x")
    fill(daemon, 150, scope="a/y")
    daemon.beat(17)

    def went() -> int:
        return daemon.call("run_job", name="decay")["counts"]["decayed"]

    assert went() == 15  # of 300 in `a`, though `a/x` and `a/y` could lose 10 each
    daemon.beat(0.5)
    assert went() == 0
    daemon.beat(0.5)
    assert went() == 14  # of 285


def test_an_undone_move_gives_its_share_back(daemon: Daemon) -> None:
    fill(daemon, 30)
    daemon.beat(17)
    first = daemon.call("run_job", name="decay")
    assert daemon.call("run_job", name="decay")["counts"]["decayed"] == 0
    daemon.call("undo", run_id=first["run_id"])

    assert daemon.call("run_job", name="decay")["counts"]["decayed"] == 10


def test_case14_case80_one_function_computes_retention_for_all_who_tell_it(daemon: Daemon) -> None:
    memory = daemon.remember("fades", importance=0.6, emotion=0.2)
    daemon.beat(20)
    told = daemon.call("get", id=memory)["retention"]
    (fading,) = daemon.call("fading", days=60)["memories"]
    (example,) = daemon.call("run_job", name="decay", dry_run=True, params={"threshold": 1.0})["examples"]

    assert told == pytest.approx(fading["retention"])
    assert example["reason"] == f"retention {told:.3f}"


def test_b16_case30_a_run_that_is_told_to_stop_ends_after_its_batch_and_moves_nothing_by_half(daemon: Daemon) -> None:
    fill(daemon, 900)
    daemon.beat(17)
    asked = []

    def stopping() -> bool:
        asked.append(None)
        return len(asked) > 1

    ctx = context(daemon, stopping=stopping)
    report = decay.run(ctx)
    assert ctx.cut_short
    assert report.counts["decayed"] == BATCH < 45
    assert daemon.call("stats")["total"] == 900 - BATCH
    assert daemon.in_lane(daemon.stores.engine.count, "bin") == BATCH

    assert decay.run(context(daemon)).counts["decayed"] == 45 - BATCH


def test_expired_memories_alone_or_faded_ones_alone(daemon: Daemon) -> None:
    fill(daemon, 3)
    daemon.beat(17)
    daemon.remember("over", expires_at="2020-01-01T00:00:00Z")

    run = daemon.call("run_job", name="decay", params={"only": "expired"})
    assert (run["counts"]["expired"], run["counts"]["decayed"]) == (1, 0)
    assert [example["reason"] for example in run["examples"]] == ["expired"]
    run = daemon.call("run_job", name="decay", params={"only": "decayed"})
    assert (run["counts"]["expired"], run["counts"]["decayed"]) == (0, 3)


def test_c17_a_clock_that_jumps_ahead_makes_no_room_under_the_ceiling(daemon: Daemon) -> None:
    """The day in which no more may go is a day awake."""
    fill(daemon, 40)
    daemon.beat(17)
    gone = [daemon.call("run_job", name="decay")["counts"]["decayed"]]
    for days in (2, 700):
        daemon.clock.set(daemon.clock.now() + days * DAY)
        gone.append(daemon.call("run_job", name="decay")["counts"]["decayed"])
    daemon.beat(1)
    gone.append(daemon.call("run_job", name="decay")["counts"]["decayed"])

    assert gone == [10, 0, 0, 10]


def test_c17_what_went_in_a_future_that_did_not_come_takes_no_room_for_years(daemon: Daemon) -> None:
    fill(daemon, 40)
    daemon.beat(17)
    now = daemon.clock.now()
    daemon.clock.set(now + 700 * DAY)
    gone = [daemon.call("run_job", name="decay")["counts"]["decayed"]]
    daemon.clock.set(now)
    gone.append(daemon.call("run_job", name="decay")["counts"]["decayed"])
    daemon.clock.set(now - 3_000)  # a little back makes no more room
    gone.append(daemon.call("run_job", name="decay")["counts"]["decayed"])

    assert gone == [10, 10, 0]
