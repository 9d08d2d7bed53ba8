"""Taking back: whole nights in reverse, an undo itself, and never what was changed since."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from daemon import reports
from jobs import undo
from jobs.context import BATCH
from jobs.undo import FOR_GOOD
from storage.changes import Patch
from storage.errors import Conflict, NotFound, Refused
from storage.ledger import Entry
from storage.model import point_id
from tests.harness import Daemon
from tests.jobs.by_hand import context
from tests.jobs.world import for_all


@st.composite
def journals(draw: st.DrawFn) -> list[Entry]:
    """Entries of one run, newest first; a thing may occur more than once."""
    keys = draw(st.lists(st.sampled_from("abcdefgh"), max_size=100))
    numbered = list(enumerate(keys))[::-1]
    return [Entry(number, "r", 0.0, "patch", key, "a", draw(st.booleans()), {}, {}) for number, key in numbered]


@for_all(journals())
def test_batches_hold_each_open_change_once_in_order_and_each_thing_once(entries) -> None:
    batches = undo.plan(entries)

    assert [entry for batch in batches for entry in batch] == [entry for entry in entries if not entry.undone]
    for batch in batches:
        assert 0 < len(batch) <= BATCH
        assert len({entry.key for entry in batch}) == len(batch)


@for_all(journals())
def test_what_was_taken_back_is_not_planned_again(entries) -> None:
    taken = {entry.number for batch in undo.plan(entries) for entry in batch}

    assert undo.plan([entry._replace(undone=entry.undone or entry.number in taken) for entry in entries]) == []


def test_batches_are_as_large_as_they_may_be() -> None:
    entries = [Entry(number, "r", 0.0, "patch", f"m{number}", "a", False, {}, {}) for number in range(3 * BATCH + 1)]

    assert [len(batch) for batch in undo.plan(entries[::-1])] == [BATCH, BATCH, BATCH, 1]


def state(daemon: Daemon) -> dict[str, object]:
    """All that a night can change."""

    def look() -> dict[str, object]:
        rows = {row.id: row for row in daemon.stores.catalogue.every()}
        kept = ("heat", "tier", "emotion", "accessed_at", "access_count", "access_days", "cooled_at_count", "state")
        memories = {one: [getattr(row, name) for name in kept] for one, row in rows.items()}
        return {"memories": memories, "edges": dict(daemon.stores.synapses.every())}

    return daemon.in_lane(look)


def busy(daemon: Daemon) -> list[str]:
    """A store in which every step of the next night has something to do."""
    ids = [daemon.remember(f"the red fox sleeps in barn {n}", emotion=n % 2, id=f"m{n:02d}") for n in range(20)]
    daemon.call("connect", a=ids[0], b=ids[1], weight=2.0)
    daemon.call("connect", a=ids[2], b=ids[3], weight=0.11)
    daemon.beat(17)
    for _ in range(3):
        daemon.call("recall", query="fox barn 4", k=3)
    return ids


def test_a_whole_night_is_taken_back_and_made_again(daemon: Daemon) -> None:
    busy(daemon)
    before = state(daemon)
    night = daemon.call("run_job", name="night")
    assert {step["job"] for step in night["steps"] if step["outcome"] == "changed"} == {
        "snapshot", "hebbian", "dream", "prune", "demote", "decay"
    }  # fmt: skip
    after = state(daemon)

    undone = daemon.call("undo", run_id=night["run_id"])
    assert undone["left"] == []
    assert state(daemon) == before

    again = daemon.call("undo", run_id=undone["run_id"])
    assert again["left"] == []
    assert state(daemon) == after


def test_a_run_is_undone_once_and_its_step_of_the_night_with_it(daemon: Daemon) -> None:
    busy(daemon)
    night = daemon.call("run_job", name="night")
    undone = daemon.call("undo", run_id=night["run_id"])

    for run in (night, *(step for step in night["steps"] if step["job"] not in FOR_GOOD)):
        with pytest.raises(Conflict) as error:
            daemon.call("undo", run_id=run["run_id"])
        assert error.value.extra["run_id"] == undone["run_id"]
        assert undone["run_id"] in error.value.hint


def test_what_was_made_again_can_be_taken_back_by_the_name_of_the_first_run(daemon: Daemon) -> None:
    busy(daemon)
    before = state(daemon)
    run = daemon.call("run_job", name="decay")
    first = daemon.call("undo", run_id=run["run_id"])
    daemon.call("undo", run_id=first["run_id"])
    assert state(daemon) != before

    assert len(daemon.call("undo", run_id=run["run_id"])["restored"]) == run["counts"]["decayed"]
    assert state(daemon) == before
    with pytest.raises(Conflict):
        daemon.call("undo", run_id=run["run_id"])


def test_a_step_that_was_undone_alone_is_passed_over_by_the_undo_of_its_night(daemon: Daemon) -> None:
    busy(daemon)
    before = state(daemon)
    night = daemon.call("run_job", name="night")
    step = next(step for step in night["steps"] if step["job"] == "decay")
    alone = daemon.call("undo", run_id=step["run_id"])
    rest = daemon.call("undo", run_id=night["run_id"])

    assert not set(rest["restored"]) & set(alone["restored"]) - set(before["memories"])
    assert state(daemon) == before
    runs = {run["run_id"]: run["undone_by"] for run in daemon.call("runs", limit=50)["runs"]}
    assert runs[step["run_id"]] == alone["run_id"]
    assert runs[night["run_id"]] == rest["run_id"]


def test_a_step_that_was_undone_and_made_again_is_taken_back_with_its_night(daemon: Daemon) -> None:
    busy(daemon)
    before = state(daemon)
    night = daemon.call("run_job", name="night")
    after = state(daemon)
    for job in ("demote", "decay", "demote"):
        step = next(step for step in night["steps"] if step["job"] == job)
        alone = daemon.call("undo", run_id=step["run_id"])
        daemon.call("undo", run_id=alone["run_id"])
    assert state(daemon) == after
    undone = daemon.call("undo", run_id=night["run_id"])

    assert undone["left"] == []
    assert state(daemon) == before
    daemon.call("undo", run_id=undone["run_id"])
    assert state(daemon) == after
    daemon.call("undo", run_id=night["run_id"])
    assert state(daemon) == before


def test_of_a_night_with_steps_that_ended_badly_what_they_did_is_taken_back(daemon: Daemon) -> None:
    for memory in "abc":
        daemon.remember(f"note {memory}", id=memory)
    record = daemon.parts.runner._stepper.record
    night = record("night", "manual", daemon.clock.now())
    ends = {"hebbian": "failed", "dedup": "skipped", "demote": "cancelled", "decay": "failed", "prune": "changed"}
    steps = {
        job: record(job, "manual", night.started_at + number * 1e-6)._replace(parent=night.id)
        for number, job in enumerate(ends)
    }

    def lived_through() -> None:
        ledger, changer, now = daemon.stores.ledger, daemon.stores.changer, daemon.clock.now()
        for run in (night, *steps.values()):
            ledger.start_run(run)
        for job, memory, became in (("demote", "a", "cold"), ("decay", "b", "hot"), ("prune", "a", "hot")):
            changer.apply(steps[job].id, [Patch(memory, daemon.stores.memories.row(memory).seq, {"heat": became})], now)
        for job, outcome in ends.items():
            ledger.end_run(steps[job].id, now, outcome, reason=None, counts={}, examples=[])
        ledger.end_run(night.id, now, "failed", reason="hebbian: internal", counts={}, examples=[])

    daemon.in_lane(lived_through)
    undone = daemon.call("undo", run_id=night.id)

    assert (sorted(undone["restored"]), undone["left"]) == (["a", "b"], [])
    assert {one["heat"] for one in daemon.call("list")["memories"]} == {"warm"}
    assert {job: undone_by(daemon, step.id) for job, step in steps.items()} == {
        **dict.fromkeys(ends, undone["run_id"]), "dedup": None
    }  # fmt: skip


def test_merges_of_a_night_are_taken_back_but_for_what_was_edited_since(daemon: Daemon) -> None:
    for pair in ("ab", "cd"):
        for memory, mark in zip(pair, ("", "."), strict=True):
            daemon.remember(f"the {'mill' if pair == 'ab' else 'ferry'} is closed on Sundays{mark}", id=memory)
    night = daemon.call("run_job", name="night")
    merged = next(step for step in night["steps"] if step["job"] == "dedup")
    assert merged["counts"]["merged"] == 2
    survivor, other = (one["id"] for one in daemon.call("list")["memories"])
    daemon.call("update", id=survivor, content="the mill burnt down", metadata={"seen": "yes"})
    undone = daemon.call("undo", run_id=night["run_id"])

    told = {one["id"]: one["content"] for one in daemon.call("list")["memories"]}
    assert set(told) == set("abcd")
    assert told[survivor] == "the mill burnt down"
    assert set(undone["restored"]) >= set("abcd") - {survivor}
    assert other not in undone["left"]


def undone_by(daemon: Daemon, run: str) -> str | None:
    return daemon.in_lane(daemon.stores.ledger.run, run).undone_by


def test_what_is_done_for_good_is_named_to_who_looks_at_a_run() -> None:
    assert set(reports.FOR_GOOD) == set(FOR_GOOD)


@pytest.mark.parametrize("job", FOR_GOOD)
def test_a_run_that_changed_no_memory_or_erased_for_good_is_not_taken_back(daemon: Daemon, job) -> None:
    daemon.remember("the fox sleeps")
    run = daemon.call("run_job", name=job)

    with pytest.raises(Refused, match=FOR_GOOD[job]) as error:
        daemon.call("undo", run_id=run["run_id"])
    assert error.value.hint == "dreamctl snapshots"
    assert undone_by(daemon, run["run_id"]) is None


def test_a_run_that_did_not_take_place_is_not_taken_back(daemon: Daemon) -> None:
    run = daemon.run(daemon.parts.runner.skip("decay", trigger="schedule", reason="ran 5 min ago"))

    with pytest.raises(Refused, match="did not take place"):
        daemon.call("undo", run_id=run.id)
    assert undone_by(daemon, run.id) is None


def test_the_undo_of_a_night_passes_over_what_it_did_for_good(daemon: Daemon) -> None:
    busy(daemon)
    night = daemon.call("run_job", name="night")
    undone = daemon.call("undo", run_id=night["run_id"])

    assert {step["job"]: undone_by(daemon, step["run_id"]) for step in night["steps"]} == {
        step["job"]: None if step["job"] in FOR_GOOD else undone["run_id"] for step in night["steps"]
    }


def test_what_was_changed_since_is_left_and_listed(daemon: Daemon) -> None:
    ids = busy(daemon)
    night = daemon.call("run_job", name="decay")
    first, second, third, *others = (example["id"] for example in night["examples"])
    daemon.call("restore", id=first)
    daemon.call("forget", id=second, hard=True)
    daemon.call("restore", id=third)
    daemon.call("forget", id=third)
    undone = daemon.call("undo", run_id=night["run_id"])

    erased = point_id(second)  # its own id may tell something
    assert set(undone["left"]) & {*ids, erased} == {first, erased, third}
    assert set(others) <= set(undone["restored"])
    assert first not in undone["restored"]
    assert [daemon.call("get", id=one)["state"] for one in (first, third)] == ["live", "forgotten"]
    daemon.call("restore", id=third)
    with pytest.raises(NotFound):
        daemon.call("get", id=second)
    assert set(ids) - {second} == {one["id"] for one in daemon.call("list", limit=50)["memories"]}


@pytest.mark.parametrize(
    ("outcome", "left"), [("changed", ["a", "b"]), ("cancelled", []), ("failed", [])]
)  # fmt: skip
def test_what_a_run_that_was_cut_short_never_came_to_is_not_mentioned(daemon: Daemon, outcome, left) -> None:
    """Of a run that came through the same says that somebody else took it back."""
    for memory in ("a", "b", "c"):
        daemon.remember(f"note {memory}", id=memory)
    run = daemon.parts.runner._stepper.record("demote", "manual", daemon.clock.now())

    def cut_short() -> None:
        ledger, changer = daemon.stores.ledger, daemon.stores.changer
        ledger.start_run(run)
        changer.apply(run.id, [Patch("c", daemon.stores.memories.row("c").seq, {"heat": "cold"})], daemon.clock.now())
        images = {"heat": "warm"}, {"heat": "cold"}
        ledger.write_journal(run.id, daemon.clock.now(), [("patch", one, "default", *images) for one in ("b", "a")])
        ledger.end_run(run.id, daemon.clock.now(), outcome, reason=None, counts={}, examples=[])

    daemon.in_lane(cut_short)
    undone = daemon.call("undo", run_id=run.id)

    assert (undone["restored"], undone["left"]) == (["c"], left)
    assert {one["heat"] for one in daemon.call("list")["memories"]} == {"warm"}


def test_of_a_memory_only_what_still_stands_is_taken_back(daemon: Daemon) -> None:
    """The run moved heat and tier; somebody set the tier since."""
    memory = daemon.remember("the fox sleeps", emotion=0.9)
    daemon.call("recall", query="fox")
    daemon.call("recall", query="fox")
    daemon.call("recall", query="fox")
    daemon.call("run_job", name="hebbian")
    run = daemon.call("run_job", name="demote")
    assert run["counts"] == {"examined": 1, "to_hot": 1, "to_long": 1, "skipped": 0}
    daemon.call("set_tier", id=memory, tier="core")
    undone = daemon.call("undo", run_id=run["run_id"])

    assert (undone["restored"], undone["left"]) == ([memory], [memory])
    now = daemon.call("get", id=memory)
    assert (now["heat"], now["tier"]) == ("warm", "core")


def test_an_undo_that_is_told_to_stop_is_gone_on_with_by_another(daemon: Daemon) -> None:
    items = [{"content": f"note {n}", "expires_at": "2020-01-01T00:00:00Z"} for n in range(3 * BATCH)]
    daemon.call("remember_many", items=items)
    run = daemon.call("run_job", name="decay")
    asked: list[None] = []

    def stopping() -> bool:
        asked.append(None)
        return len(asked) > 1

    ctx, first = context(daemon, stopping=stopping), undo.Undone()
    undo.run(ctx, [run["run_id"]], first)
    second = daemon.call("undo", run_id=run["run_id"])

    assert ctx.cut_short
    assert (len(first.restored), len(second["restored"]), second["left"]) == (BATCH, 2 * BATCH, [])


def test_an_edge_that_grew_since_is_left_as_it_is(daemon: Daemon) -> None:
    a, b = daemon.remember("the red fox sleeps in barn one"), daemon.remember("the red fox sleeps in barn two")
    run = daemon.call("run_job", name="dream")
    daemon.call("connect", a=a, b=b, weight=1.0)
    (edge,) = daemon.in_lane(lambda: list(daemon.stores.synapses.every()))

    undone = daemon.call("undo", run_id=run["run_id"])
    assert (undone["restored"], undone["left"]) == ([], [edge[0]])
    assert daemon.call("neighbors", id=a)["neighbors"][0]["kind"] == "manual"


def test_an_edge_whose_memory_was_erased_for_good_is_left(daemon: Daemon) -> None:
    a, b = daemon.remember("the fox"), daemon.remember("the mill")
    daemon.call("connect", a=a, b=b, weight=0.101)
    daemon.beat(1)
    run = daemon.call("run_job", name="prune")
    assert run["counts"]["pruned"] == 1
    daemon.call("forget", id=a, hard=True)
    undone = daemon.call("undo", run_id=run["run_id"])

    assert (undone["restored"], len(undone["left"])) == ([], 1)


def test_b20_hundreds_of_moves_go_and_come_back_in_batches(daemon: Daemon) -> None:
    items = [{"content": f"note {n}", "expires_at": "2020-01-01T00:00:00Z"} for n in range(5 * BATCH)]
    daemon.call("remember_many", items=items)
    run = daemon.call("run_job", name="decay")
    assert run["counts"]["expired"] == 5 * BATCH

    assert len(daemon.call("undo", run_id=run["run_id"])["restored"]) == 5 * BATCH
    assert daemon.in_lane(daemon.stores.engine.count, "bin") == 0


def test_only_a_run_that_is_known_over_and_real_can_be_undone(daemon: Daemon) -> None:
    busy(daemon)
    with pytest.raises(NotFound):
        daemon.call("undo", run_id="nope")
    dry = daemon.call("run_job", name="decay", dry_run=True)
    with pytest.raises(Refused, match="dry run"):
        daemon.call("undo", run_id=dry["run_id"])


def test_after_the_days_for_it_a_run_cannot_be_undone(daemon: Daemon) -> None:
    busy(daemon)
    run = daemon.call("run_job", name="decay")
    daemon.beat(30.1)

    with pytest.raises(Refused, match="before-images"):
        daemon.call("undo", run_id=run["run_id"])


def test_an_undo_is_a_run_and_says_what_it_took_back(daemon: Daemon) -> None:
    busy(daemon)
    decayed = daemon.call("run_job", name="decay")
    undone = daemon.call("undo", run_id=decayed["run_id"])
    (run, *_) = daemon.call("runs", limit=1)["runs"]

    assert (run["run_id"], run["job"], run["undo_of"]) == (undone["run_id"], "undo", decayed["run_id"])
    assert run["counts"] == {"restored": len(undone["restored"]), "left": 0}


def test_an_undo_that_a_stop_cut_short_and_another_finished_is_taken_back_whole(daemon: Daemon) -> None:
    """What the first of them had brought back goes again too."""
    items = [{"id": f"x{n}", "content": f"note {n}", "expires_at": "2020-01-01T00:00:00Z"} for n in range(3 * BATCH)]
    daemon.call("remember_many", items=items)
    decayed = daemon.call("run_job", name="decay")
    stepper = daemon.parts.runner._stepper
    cut = stepper.record("undo", "manual", daemon.clock.now())._replace(undo_of=decayed["run_id"])
    undone = undo.Undone()

    def begin() -> None:
        ledger = daemon.stores.ledger
        ledger.start_run(cut)
        entries = undo.plan(ledger.journal_of(decayed["run_id"]))[0]
        undo._take_back(context(daemon, run_id=cut.id), entries, undone, True)
        ledger.end_run(cut.id, cut.started_at, "cancelled", reason="cut_off", counts={}, examples=[])

    daemon.in_lane(begin)
    daemon.clock.advance(60)
    rest = daemon.call("undo", run_id=decayed["run_id"])
    assert (len(undone.restored), len(rest["restored"])) == (BATCH, 2 * BATCH)
    daemon.clock.advance(60)
    back = daemon.call("undo", run_id=rest["run_id"])

    assert (len(back["restored"]), back["left"]) == (3 * BATCH, [])
    assert daemon.in_lane(daemon.stores.engine.count, "bin") == 3 * BATCH
