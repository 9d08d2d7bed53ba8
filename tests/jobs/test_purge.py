"""The bin's end of life, on the day and not before, in time awake, with all that hangs on a memory."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from jobs import purge
from storage.errors import NotFound
from storage.fading import Awake
from storage.instants import format_instant
from storage.lane import Stopping
from storage.ledger import SLICE
from storage.model import DAY
from storage.proposals import Proposal
from storage.talk import Turn
from tests.daemon.methods.asking import refused
from tests.harness import Daemon
from tests.jobs import world
from tests.jobs.by_hand import context
from tests.jobs.world import NOW, for_all, row


@st.composite
def gone(draw: st.DrawFn) -> list:
    """Rows in the bin: forgotten, or superseded, at some time."""
    rows = draw(world.rows)
    at = [draw(world.past) for _ in rows]
    forgotten = [draw(st.booleans()) for _ in rows]
    return [
        row(one.id, forgotten_at=when) if bin_ else row(one.id, invalid_at=when, superseded_by="x")
        for one, when, bin_ in zip(rows, at, forgotten, strict=True)
    ]


ALWAYS = Awake()


def plan(rows, now=NOW, awake=ALWAYS, bin_days=30.0, history_days=365.0, turns=()) -> purge.Plan:
    return purge.plan(rows, turns, now, awake, bin_days=bin_days, history_days=history_days)


def names(planned: purge.Plan) -> set[str]:
    return {change.memory for change in planned.erase}


@for_all(gone(), st.floats(0.0, 400.0))
def test_the_same_bin_gives_the_same_plan(rows, days) -> None:
    assert plan(rows, bin_days=days) == plan(rows[::-1], bin_days=days)


@for_all(gone(), st.floats(0.0, 400.0))
def test_a_second_pass_at_the_same_instant_finds_nothing(rows, days) -> None:
    left = [one for one in rows if one.id not in names(plan(rows, bin_days=days))]

    assert plan(left, bin_days=days).erase == ()


@for_all(gone(), st.lists(st.floats(0.0, 20 * DAY), min_size=1, max_size=8), world.absences())
def test_any_passes_before_leave_what_the_last_alone_would(rows, steps, awake) -> None:
    now, left = NOW, rows
    for step in steps:
        now += step
        going = names(plan(left, now, awake))
        left = [one for one in left if one.id not in going]

    assert {one.id for one in rows} - {one.id for one in left} == names(plan(rows, now, awake))


@for_all(gone(), world.absences(), st.floats(1.0, 400.0))
def test_what_goes_was_in_the_bin_for_so_many_days_awake(rows, awake, days) -> None:
    going = names(plan(rows, awake=awake, bin_days=days, history_days=days))

    for one in rows:
        waited = awake.seconds(max(one.forgotten_at or 0.0, one.invalid_at or 0.0), NOW) / DAY
        assert abs(waited - days) < 1e-6 or (one.id in going) is (waited > days)


@for_all(gone(), world.absences(), st.floats(1.0, 400 * DAY))
def test_c17_a_clock_that_jumps_ahead_makes_nothing_go(rows, awake, jump) -> None:
    """The jump is an absence: what goes after it is what would have gone without it."""
    jumped = Awake([*awake.absences, (NOW, NOW + jump)])

    assert names(plan(rows, NOW + jump, jumped)) <= names(plan(rows, NOW + 1e-3, awake))
    assert names(plan(rows, NOW, awake)) <= names(plan(rows, NOW + jump + 1e-3, jumped))


@pytest.mark.parametrize(
    ("fields", "goes"),
    [
        ({"forgotten_at": NOW - 30 * DAY}, True),
        ({"forgotten_at": NOW - 30 * DAY + 1.0}, False),
        ({"invalid_at": NOW - 364 * DAY, "superseded_by": "x"}, False),
        ({"invalid_at": NOW - 365 * DAY, "superseded_by": "x"}, True),
        ({"forgotten_at": NOW + DAY}, False),
        ({"forgotten_at": NOW - 31 * DAY, "tier": "core", "pinned": True}, True),
    ],
)
def test_what_was_forgotten_waits_thirty_days_and_what_was_superseded_a_year(fields, goes) -> None:
    assert bool(plan([row("m", **fields)]).erase) is goes


def test_a_memory_goes_for_good_with_its_edges_and_versions(daemon: Daemon) -> None:
    gone_one, kept = daemon.remember("the fox sleeps"), daemon.remember("the fox hunts")
    daemon.call("connect", a=gone_one, b=kept)
    daemon.call("update", id=gone_one, content="the fox dreams")
    daemon.call("forget", id=gone_one)
    daemon.beat(29.9)
    assert daemon.call("run_job", name="purge")["outcome"] == "unchanged"
    daemon.beat(0.2)
    dry = daemon.call("run_job", name="purge", dry_run=True)
    assert daemon.call("get", id=gone_one)["state"] == "forgotten"
    run = daemon.call("run_job", name="purge")

    assert run["counts"] == dry["counts"] == {"purged": 1, "turns": 0, "waiting": 0, "skipped": 0}
    with pytest.raises(NotFound):
        daemon.call("get", id=gone_one)
    assert daemon.call("graph_stats")["edges"] == 0
    assert daemon.in_lane(daemon.stores.records.versions, gone_one) == []
    assert daemon.in_lane(daemon.stores.engine.count, "bin") == 0
    assert daemon.call("get", id=kept)["state"] == "live"


def test_case4_two_months_off_erase_nothing(daemon: Daemon) -> None:
    """Neither a forgotten memory, nor a turn, nor what an undo needs, nor the record of the run."""
    forgotten, felt = daemon.remember("the fox sleeps"), daemon.remember("the fox hunts", emotion=0.9)
    daemon.call("recall", query="hunts", k=1)
    daemon.call("run_job", name="hebbian")
    run = daemon.call("run_job", name="demote")
    assert run["counts"]["to_long"] == 1
    daemon.call("add_turn", session="s", content="a turn")
    daemon.call("end_session", session="s", extract=False)
    daemon.call("forget", id=forgotten)
    daemon.beat(1)
    for _ in range(3):
        daemon.clock.advance(500 * DAY)
        daemon.run(daemon.app.background.heartbeat())
        assert daemon.call("run_job", name="purge")["outcome"] == "unchanged"

    assert len(daemon.call("context", session="s")["items"]) == 1
    assert daemon.in_lane(daemon.stores.ledger.journal_of, run["run_id"]) != []
    assert run["run_id"] in {one["run_id"] for one in daemon.call("runs", limit=500)["runs"]}
    assert daemon.call("restore", id=forgotten)["state"] == "live"
    assert daemon.call("get", id=felt)["tier"] == "long"


def test_the_undo_of_a_purge_says_what_cannot_come_back(daemon: Daemon) -> None:
    memory = daemon.remember("the fox sleeps")
    daemon.call("forget", id=memory)
    daemon.beat(31)
    run = daemon.call("run_job", name="purge")

    assert "what was purged is gone" in refused(daemon, "refused", "undo", run_id=run["run_id"]).detail


def test_without_a_bin_what_faded_is_purged_the_same_night(daemon: Daemon) -> None:
    from jobs import decay

    memory = daemon.remember("the fox sleeps")
    daemon.beat(17)
    decay.run(context(daemon))
    assert purge.run(context(daemon, settings={"bin_days": 0})).counts["purged"] == 1

    with pytest.raises(NotFound):
        daemon.call("get", id=memory)


def test_e11_what_came_out_of_the_bin_meanwhile_is_skipped(daemon: Daemon) -> None:
    memory = daemon.remember("the fox sleeps")
    daemon.call("forget", id=memory)
    daemon.beat(31)
    ctx = context(daemon)
    planned = plan(ctx.read(lambda: list(ctx.stores.catalogue.gone())), ctx.now, ctx.stores.awake)
    daemon.call("restore", id=memory)

    assert ctx.apply(planned.erase).done == []
    assert daemon.call("get", id=memory)["state"] == "live"


def test_a31_the_journal_goes_after_the_days_in_which_a_run_can_be_undone(daemon: Daemon) -> None:
    daemon.remember("the fox sleeps", emotion=0.9)
    daemon.call("recall", query="fox")
    daemon.call("run_job", name="hebbian")
    run = daemon.call("run_job", name="demote")
    daemon.beat(29)
    daemon.call("run_job", name="purge")
    assert daemon.in_lane(daemon.stores.ledger.journal_of, run["run_id"]) != []
    daemon.beat(2)
    daemon.call("run_job", name="purge")

    assert daemon.in_lane(daemon.stores.ledger.journal_of, run["run_id"]) == []
    assert run["run_id"] in {one["run_id"] for one in daemon.call("runs", limit=500)["runs"]}


def test_a_long_journal_goes_in_slices_and_a_stop_between_two_leaves_the_rest_to_the_next_run(daemon: Daemon) -> None:
    ledger = daemon.stores.ledger
    entries = [("patch", f"m{n}", "a", {}, {}) for n in range(2 * SLICE + 1)]
    daemon.in_lane(ledger.write_journal, "long", daemon.clock.now(), entries)
    daemon.beat(31)

    cut = context(daemon, stopping=lambda: True)
    purge.run(cut)
    left = len(daemon.in_lane(ledger.journal_of, "long"))
    whole = context(daemon)
    purge.run(whole)

    assert (cut.cut_short, left) == (True, SLICE + 1)
    assert (whole.cut_short, daemon.in_lane(ledger.journal_of, "long")) == (False, [])


def test_case27_a_purge_that_was_given_up_lets_nothing_go(daemon: Daemon) -> None:
    ledger = daemon.stores.ledger
    daemon.in_lane(ledger.write_journal, "long", daemon.clock.now(), [("patch", "m", "a", {}, {})])
    daemon.beat(31)
    ctx = context(daemon)
    ctx.give_up()
    with pytest.raises(Stopping):
        purge._trim(ctx)

    assert len(daemon.in_lane(ledger.journal_of, "long")) == 1


def test_a_bin_that_lost_a_memory_makes_the_run_fail(daemon: Daemon) -> None:
    memory = daemon.remember("the fox sleeps")
    daemon.call("forget", id=memory)
    point = daemon.in_lane(daemon.stores.catalogue.point, memory)
    daemon.in_lane(daemon.stores.engine.delete, "bin", [point])

    assert daemon.call("run_job", name="purge")["reason"] == "corrupt"


def test_the_answers_to_retries_are_kept_for_a_day(daemon: Daemon) -> None:
    def kept() -> int:
        daemon.call("run_job", name="purge")
        return daemon.in_lane(daemon.stores.ledger._db.one, "SELECT COUNT(*) FROM requests")[0]

    daemon.beat(1.1)
    assert kept() == 0
    daemon.call("remember", content="the fox sleeps", request_id="r")
    daemon.beat(0.9)
    daemon.clock.advance(30 * DAY)
    assert kept() == 1
    daemon.beat(0.2)
    assert kept() == 0


@pytest.mark.parametrize(
    ("extracted_at", "goes"), [(None, False), (NOW - 90 * DAY + 1.0, False), (NOW - 90 * DAY, True), (NOW + DAY, False)]
)
def test_a_turn_goes_ninety_days_after_no_job_needed_it(extracted_at, goes) -> None:
    turn = Turn(id="t", scope="a", session="s", role="user", at=NOW - 400 * DAY, extracted_at=extracted_at)

    assert bool(plan([], turns=[turn]).turns) is goes


def test_turns_that_wait_for_extraction_stay_and_the_others_go_with_their_session(daemon: Daemon) -> None:
    for session in ("told", "waiting"):
        for n in range(3):
            daemon.call("add_turn", session=session, content=f"{session} {n}")
        daemon.call("end_session", session=session, extract=session == "waiting")
    daemon.beat(90)

    dry = daemon.call("run_job", name="purge", dry_run=True)
    run = daemon.call("run_job", name="purge")

    assert (dry["counts"]["turns"], run["counts"]["turns"], run["outcome"]) == (3, 3, "changed")
    assert daemon.call("run_job", name="purge")["counts"]["turns"] == 0
    refused(daemon, "not_found", "end_session", session="told")
    assert len(daemon.call("context", session="waiting")["items"]) == 3


def test_what_waits_for_a_memory_or_asked_for_it_goes_with_it(daemon: Daemon) -> None:
    """A pair that was proposed, and a real question that returned it."""
    daemon.in_lane(daemon.stores.ledger.canaries.clear)
    end = format_instant(daemon.clock.now() + DAY)
    a, b = (daemon.remember(f"the garden in spring {n}", expires_at=end) for n in "xy")
    daemon.call("recall", query="the garden in spring", k=3)
    daemon.run(daemon.app.background.fold())
    ledger = daemon.stores.ledger
    daemon.in_lane(ledger.proposals.add, [Proposal(*sorted((a, b)), "default", 0.9, daemon.clock.now(), "run")])
    assert (len(ledger.proposals.waiting()), len(ledger.canaries.every())) == (1, 1)
    daemon.beat(2)
    daemon.call("run_job", name="decay")
    daemon.beat(31)
    assert daemon.call("run_job", name="purge")["counts"]["purged"] == 2

    assert (ledger.proposals.waiting(), ledger.canaries.every()) == ([], [])
