"""A night: in order, with a copy to go back to, measured by real questions, gone on with where it was cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from daemon.night import NO_SNAPSHOT, steps_done
from jobs.table import JOBS, NIGHT
from storage.errors import Unavailable
from storage.instants import format_instant
from storage.ledger import CUT_OFF, Run
from storage.snapshots import SNAPSHOTS
from tests.fakes import MortalEngine
from tests.harness import BY_HAND, Daemon, started

DESTRUCTIVE = [name for name in NIGHT if JOBS[name].destructive]
UNDOING = BY_HAND | {"DREAMD_CANARY__UNDO": "true"}
NO_COPIES = BY_HAND | {"DREAMD_SCHEDULE__SNAPSHOT": "off"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        yield daemon


def night(daemon: Daemon, trigger: str = "manual") -> Run:
    return daemon.run(daemon.parts.runner.run("night", trigger=trigger))


def steps(daemon: Daemon, of: Run) -> dict[str, str | None]:
    """The outcome of each step, in their order."""
    return {step.job: step.outcome for step in daemon.in_lane(daemon.stores.ledger.steps_of, of.id)}


# -- a copy to go back to


def test_a_night_begins_with_a_snapshot_that_can_be_restored(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    faded = daemon.remember("an old note", expires_at="2026-01-02T00:00:00Z")
    daemon.beat(2)
    ran = night(daemon)
    assert list(steps(daemon, ran)) == list(NIGHT)
    assert daemon.call("get", id=faded)["state"] == "forgotten"

    (kept,) = daemon.call("snapshots")["snapshots"]
    daemon.call("restore_snapshot", name=kept["name"])
    assert daemon.in_lane(daemon.stores.catalogue.get, faded).state == "live"


def test_without_a_fresh_snapshot_a_night_does_nothing_destructive_and_says_why(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=NO_COPIES).start()
    daemon.remember("an old note", expires_at="2026-01-02T00:00:00Z")
    daemon.beat(2)
    ran = night(daemon)

    assert [job for job, outcome in steps(daemon, ran).items() if outcome == "skipped"] == DESTRUCTIVE
    assert ran.reason == f"{NO_SNAPSHOT}: {', '.join(DESTRUCTIVE)} did not run"
    assert daemon.in_lane(lambda: daemon.stores.catalogue.gone_count) == 0
    assert daemon.call("run_job", name="decay")["counts"]["expired"] == 1  # by hand it needs none: undo covers it


def test_any_snapshot_of_the_last_day_will_do_and_an_older_one_will_not(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=NO_COPIES).start()
    daemon.remember("a note")
    daemon.call("snapshot", label="mine")
    daemon.beat(0.9)
    assert "skipped" not in steps(daemon, night(daemon)).values()
    daemon.beat(0.2)
    assert [job for job, outcome in steps(daemon, night(daemon)).items() if outcome == "skipped"] == DESTRUCTIVE


def test_a_damaged_snapshot_is_no_copy_to_go_back_to(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=NO_COPIES).start()
    name = daemon.call("snapshot")["name"]
    manifest = daemon.folder / "state" / SNAPSHOTS / name / "manifest.json"
    manifest.write_text(manifest.read_text()[:-20])

    assert [job for job, outcome in steps(daemon, night(daemon)).items() if outcome == "skipped"] == DESTRUCTIVE


@pytest.mark.parametrize(("options", "goes"), [(BY_HAND, 1), (NO_COPIES, None)])
def test_a_dry_night_tells_what_a_night_would_do_and_takes_no_snapshot_for_it(
    daemons: Callable[..., Daemon], options, goes
) -> None:
    daemon = daemons(options=options).start()
    daemon.remember("an old note", expires_at="2026-01-02T00:00:00Z")
    daemon.beat(2)
    dry = daemon.call("run_job", name="night", dry_run=True, at="2026-01-10T00:00:00Z")

    assert dry["counts"].get("decay") == goes
    assert dry["reason"].startswith("as of 2026-01-10 00:00 UTC")
    assert (NO_SNAPSHOT in dry["reason"]) == (goes is None)
    assert not (daemon.folder / "state" / SNAPSHOTS).exists()
    assert daemon.call("health")["status"] == "ok"


def test_a_copy_of_another_store_is_none_of_this_one(daemons: Callable[..., Daemon]) -> None:
    """What a restoration put aside, or took the store from, was never what the store holds now."""
    daemon = daemons(options=NO_COPIES).start()
    daemon.remember("a note")
    name = daemon.call("snapshot", label="mine")["name"]
    daemon.clock.advance(60)
    daemon.call("restore_snapshot", name=name)
    daemon.clock.advance(60)
    assert [job for job, outcome in steps(daemon, night(daemon)).items() if outcome == "skipped"] == DESTRUCTIVE
    (reason,) = daemon.call("health")["reasons"]
    assert (reason["name"], reason["hint"]) == ("snapshot", "dreamctl run snapshot")

    daemon.call("run_job", name="snapshot")
    daemon.clock.advance(60)
    assert "skipped" not in steps(daemon, night(daemon)).values()
    assert daemon.call("health")["status"] == "ok"


def test_a_destructive_job_with_a_line_of_its_own_needs_a_snapshot_too(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=NO_COPIES).start()
    daemon.remember("an old note", expires_at="2026-01-02T00:00:00Z")
    daemon.beat(2)
    alone = daemon.run(daemon.parts.runner.run("decay", trigger="schedule"))

    assert (alone.outcome, alone.reason) == ("skipped", NO_SNAPSHOT)
    assert daemon.run(daemon.parts.runner.run("demote", trigger="schedule")).outcome != "skipped"
    assert daemon.run(daemon.parts.runner.run("decay", trigger="manual")).counts["expired"] == 1


# -- going on


def recorded(daemon: Daemon, outcome: str, reason: str | None, done: dict[str, str], **fields: Any) -> Run:
    """A night in the ledger that began now, with steps that ended as told."""
    stepper, ledger = daemon.parts.runner._stepper, daemon.stores.ledger
    run = stepper.record("night", "schedule", daemon.clock.now())._replace(outcome=outcome, reason=reason, **fields)

    def write() -> None:
        ledger.start_run(run)
        for number, (job, ended) in enumerate(done.items(), 1):
            step = stepper.record(job, "schedule", run.started_at + number * 1e-6)
            ledger.start_run(step._replace(parent=run.id, outcome=ended))

    daemon.in_lane(write)
    daemon.clock.advance(60)
    return run


@pytest.mark.parametrize("reason", ["stopping", CUT_OFF])
def test_a_night_that_was_cut_short_goes_on_with_what_had_not_ended_well(shared: Daemon, reason) -> None:
    shared.clock.advance(2 * 86_400)
    """With a new snapshot, for what follows is to be taken back to what is there now."""
    done = {"snapshot": "changed", "hebbian": "unchanged", "dream": "failed", "prune": "cancelled"}
    recorded(shared, "cancelled", reason, done)
    rest = [name for name in NIGHT if name != "hebbian"]

    assert list(steps(shared, night(shared, "catch_up"))) == rest
    assert list(steps(shared, night(shared, "catch_up"))) == list(NIGHT)  # that one was through


def test_a_night_that_was_cut_short_twice_goes_on_with_what_neither_did(shared: Daemon) -> None:
    shared.clock.advance(2 * 86_400)
    recorded(shared, "cancelled", "stopping", {"snapshot": "changed", "hebbian": "changed"})
    recorded(shared, "cancelled", CUT_OFF, {"dream": "changed", "prune": "cancelled"})

    rest = [name for name in NIGHT if name not in ("hebbian", "dream")]
    assert list(steps(shared, night(shared, "catch_up"))) == rest


def test_a_night_by_hand_or_a_day_later_begins_anew(shared: Daemon) -> None:
    shared.clock.advance(2 * 86_400)
    recorded(shared, "cancelled", "stopping", {"snapshot": "changed", "hebbian": "changed"})
    assert list(steps(shared, night(shared, "manual"))) == list(NIGHT)

    recorded(shared, "cancelled", "stopping", {"snapshot": "changed", "hebbian": "changed"})
    shared.clock.advance(86_400)
    assert list(steps(shared, night(shared, "catch_up"))) == list(NIGHT)


def test_what_was_undone_since_is_done_again(shared: Daemon) -> None:
    shared.clock.advance(2 * 86_400)
    cut = recorded(shared, "cancelled", "stopping", {"hebbian": "changed", "dream": "changed"})
    now = shared.parts.runner._stepper.record("night", "catch_up", shared.clock.now())
    ledger = shared.stores.ledger
    dream = next(step for step in shared.in_lane(ledger.steps_of, cut.id) if step.job == "dream")
    shared.in_lane(ledger.mark_undone, dream.id, "by hand")
    assert shared.in_lane(steps_done, ledger, now) == {"hebbian"}

    shared.in_lane(ledger.mark_undone, cut.id, "by hand")
    assert shared.in_lane(steps_done, ledger, now) == set()


def test_a7_nights_of_a_future_that_did_not_come_hide_neither_the_last_one_nor_what_it_had_done(
    daemons: Callable[..., Daemon],
) -> None:
    """Two nights while the clock was ten days ahead, and one after it was right again, cut short by a stop."""
    daemon = daemons(options=BY_HAND).start()
    daemon.clock.advance(10 * 86_400)
    ahead = [recorded(daemon, "changed", None, {"dream": "changed"}) for _ in range(2)]
    daemon.clock.advance(-10 * 86_400)
    last = recorded(daemon, "cancelled", "stopping", {"hebbian": "changed", "dream": "cancelled"})
    now = daemon.parts.runner._stepper.record("night", "catch_up", daemon.clock.now())

    told = [run["run_id"] for run in daemon.call("runs", job="night")["runs"]]
    (listed,) = (job for job in daemon.call("jobs")["jobs"] if job["name"] == "night")
    assert told == [last.id, ahead[1].id, ahead[0].id]
    assert daemon.call("runs", limit=1)["runs"][0]["job"] == "dream"
    assert listed["last_run"] == daemon.call("health")["last_night"] == format_instant(last.started_at)
    assert daemon.call("health")["last_night_outcome"] == "cancelled"
    assert daemon.in_lane(steps_done, daemon.stores.ledger, now) == {"hebbian"}


def test_what_a_dry_or_a_skipped_night_says_does_not_count(shared: Daemon) -> None:
    shared.clock.advance(2 * 86_400)
    recorded(shared, "cancelled", "stopping", {"hebbian": "changed"})
    recorded(shared, "unchanged", None, {"dream": "unchanged"}, dry_run=True)
    recorded(shared, "skipped", "ran 1 h ago", {})
    now = shared.parts.runner._stepper.record("night", "catch_up", shared.clock.now())

    assert shared.in_lane(steps_done, shared.stores.ledger, now) == {"hebbian"}


# -- measured by real questions


def crowd(daemon: Daemon, count: int = 10) -> list[str]:
    """Memories that a question finds alike, so that a little use decides."""
    return [daemon.remember(f"the garden in spring {n}") for n in range(count)]


def ask(daemon: Daemon, *, more: int = 0) -> list[str]:
    """Ask once, and `more` times in other words that mean the same."""
    for number in range(more):
        daemon.call("recall", query="the garden in spring " + "in " * (number + 1), k=5)
    found = [hit["id"] for hit in daemon.call("recall", query="the garden in spring", k=5)["hits"]]
    daemon.parts.learn.take()
    return found


def upset(daemon: Daemon, ids: list[str], found: list[str]) -> None:
    """Let all that was not found be used so much that the night's first fold puts it first."""
    others = [memory for memory in ids if memory not in found]
    for _ in range(8):
        for memory in others:
            daemon.parts.learn.note([memory], daemon.clock.now())


def gauge(daemon: Daemon, name: str) -> float:
    metrics = daemon.run(daemon.app.service.metrics("text/plain"))[0].decode()
    return next(float(line.split()[1]) for line in metrics.splitlines() if line.startswith(f"{name} "))


def events(daemon: Daemon) -> list[str]:
    return [event.type for event in daemon.parts.events._ring]


def test_a_night_that_changes_nothing_measures_the_whole_overlap(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    crowd(daemon)
    ask(daemon)
    ran = daemon.call("run_job", name="night")

    assert ran["canary"] == {"questions": 1, "overlap": 1.0, "rank": 3.0, "rank_before": 3.0, "alarm": False}
    assert daemon.call("runs", job="night")["runs"][0]["canary"] == ran["canary"]
    assert (gauge(daemon, "dreamd_canary_overlap"), gauge(daemon, "dreamd_canary_rank")) == (1.0, 3.0)
    assert daemon.call("health")["status"] == "ok"


def test_without_a_question_there_is_no_measure(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    crowd(daemon)

    assert daemon.call("run_job", name="night")["canary"] is None
    assert gauge(daemon, "dreamd_canary_overlap") != gauge(daemon, "dreamd_canary_overlap")  # not a number


def test_a_night_that_upsets_what_is_found_raises_an_alarm_until_a_better_one(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    ids = crowd(daemon)
    upset(daemon, ids, ask(daemon))
    ran = daemon.call("run_job", name="night")

    assert (ran["canary"]["overlap"], ran["canary"]["alarm"]) == (0.0, True)
    assert ran["canary"]["rank"] > ran["canary"]["rank_before"]
    assert events(daemon).count("canary_alarm") == 1
    (reason,) = daemon.call("health")["reasons"]
    assert (reason["name"], reason["hint"]) == ("canary", f"dreamctl undo {ran['run_id']}")
    daemon.restart()
    assert [one["name"] for one in daemon.call("health")["reasons"]] == ["canary"]
    assert gauge(daemon, "dreamd_canary_overlap") == 0.0

    assert daemon.call("run_job", name="night")["canary"]["overlap"] == 1.0
    assert daemon.call("health")["status"] == "ok"


def test_a_night_that_did_harm_is_taken_back_where_the_owner_wants_it(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=UNDOING).start()
    ids = crowd(daemon)
    before = ask(daemon, more=7)
    upset(daemon, ids, before)
    ran = daemon.call("run_job", name="night")
    assert ran["canary"]["alarm"] is True
    assert daemon.call("health")["last_night_undone"] is True

    (undo,) = daemon.call("runs", job="undo")["runs"]
    assert (undo["trigger"], ran["undone_by"]) == ("canary", undo["run_id"])
    assert undo["reason"].startswith("8 real questions find ")
    (told,) = daemon.call("runs", job="night")["runs"]
    assert (undo["undo_of"], told["undone_by"]) == (ran["run_id"], undo["run_id"])
    assert ask(daemon) == before
    assert daemon.call("health")["status"] == "ok"
    assert events(daemon).count("canary_alarm") == 1


def test_of_few_questions_chance_moves_one_and_nothing_is_taken_back_for_it(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=UNDOING).start()
    ids = crowd(daemon)
    upset(daemon, ids, ask(daemon, more=6))
    ran = daemon.call("run_job", name="night")

    assert (ran["canary"]["questions"], ran["canary"]["alarm"], ran["undone_by"]) == (7, True, None)
    assert daemon.call("health")["status"] == "degraded"


def test_an_undo_that_fails_leaves_the_alarm_and_the_night_as_they_are(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=UNDOING).start()
    ids = crowd(daemon)
    upset(daemon, ids, ask(daemon, more=7))
    engine = daemon.stores.memories._engine
    mortal = MortalEngine(engine, Unavailable("The disk is full.", hint="df -h"))
    daemon.stores.memories._engine = mortal

    telling = daemon.parts.canaries.tell

    def tell(ran: Run) -> str | None:
        mortal.writes_left = 0
        return telling(ran)

    daemon.parts.runner._canaries.tell = tell
    ran = daemon.call("run_job", name="night")
    daemon.stores.memories._engine = engine

    assert (ran["canary"]["alarm"], ran["undone_by"]) == (True, None)
    assert daemon.call("runs", job="undo")["runs"][0]["outcome"] == "failed"
    assert [one["name"] for one in daemon.call("health")["reasons"]] == ["canary"]


def test_the_alarm_goes_with_the_night_and_comes_back_with_it(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    ids = crowd(daemon)
    upset(daemon, ids, ask(daemon))
    ran = daemon.call("run_job", name="night")
    undo = daemon.call("undo", run_id=ran["run_id"])
    assert daemon.call("health")["status"] == "ok"
    assert gauge(daemon, "dreamd_canary_overlap") != 0.0

    daemon.call("undo", run_id=undo["run_id"])
    assert [one["name"] for one in daemon.call("health")["reasons"]] == ["canary"]
    daemon.restart()
    assert [one["name"] for one in daemon.call("health")["reasons"]] == ["canary"]


def test_a_measure_that_cannot_be_taken_keeps_no_night_from_taking_place(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    crowd(daemon)
    ask(daemon)
    daemon.run(daemon.app.background.fold())
    daemon.in_lane(daemon.stores.ledger._db.execute, "UPDATE canaries SET terms = x'00', ids = 'no list'")
    ran = daemon.call("run_job", name="night")

    assert (ran["outcome"], ran["canary"]) == ("changed", None)
    assert [step["job"] for step in ran["steps"]] == list(NIGHT)


def test_a_night_that_a_bug_ends_is_recorded_as_failed(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    daemon.parts.runner._nights._canaries = None
    with pytest.raises(AttributeError):
        daemon.run(daemon.parts.runner.run("night", trigger="manual"))

    (told,) = daemon.call("runs", job="night")["runs"]
    assert (told["outcome"], told["reason"]) == ("failed", "internal")


@pytest.mark.parametrize("scope", [False, True])
def test_what_is_erased_before_its_question_was_kept_leaves_no_question(shared: Daemon, scope) -> None:
    shared.in_lane(shared.stores.ledger.canaries.clear)
    memory = shared.remember("a telling note", scope="doomed")
    shared.call("recall", query="a telling note", scope="doomed")
    if scope:
        shared.call("forget_scope", scope="doomed", confirm="doomed", hard=True)
    else:
        shared.call("forget", id=memory, hard=True)
    shared.run(shared.app.background.fold())

    assert shared.in_lane(shared.stores.ledger.canaries.every) == []


def test_canaries_can_be_turned_off_and_what_was_kept_goes(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    crowd(daemon)
    ask(daemon)
    daemon.stop()
    daemon._options = {**daemon._options, "DREAMD_CANARY__ENABLED": "false"}
    daemon.start()
    ask(daemon)
    assert daemon.call("run_job", name="night")["canary"] is None
    assert daemon.in_lane(daemon.stores.ledger.canaries.every) == []


@pytest.mark.parametrize(
    "options", [{"learn": False}, {"tags": ["a"]}, {"min_confidence": 0.5}, {"since": "2020-01-01T00:00:00Z"}]
)
def test_only_plain_questions_that_teach_become_canaries(shared: Daemon, options) -> None:
    shared.in_lane(shared.stores.ledger.canaries.clear)
    shared.remember("a plain note", tags=["a"])
    shared.call("recall", query="a plain note", **options)
    shared.call("recall_multi", queries=["a plain note", "another"])
    shared.run(shared.app.background.fold())
    assert shared.in_lane(shared.stores.ledger.canaries.every) == []

    shared.call("recall", query="a plain note", scope="default", clearance="personal")
    shared.run(shared.app.background.fold())
    assert [(one.scope, one.clearance) for one in shared.in_lane(shared.stores.ledger.canaries.every)] == [
        ("default", "personal")
    ]


def test_no_word_of_a_question_is_in_any_file(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    daemon.remember("the fox sleeps")
    daemon.call("recall", query="where does the zebracorn sleep")
    daemon.call("run_job", name="night")
    daemon.stop()
    files = [path for path in (daemon.folder / "state").rglob("*") if path.is_file()]

    assert files
    assert not any(b"zebracorn" in path.read_bytes() for path in files)


def test_the_measure_is_taken_without_teaching_anything(shared: Daemon) -> None:
    memory = shared.remember("the owl hunts at night")
    shared.call("recall", query="when does the owl hunt", k=1)
    shared.run(shared.app.background.fold())
    count = shared.call("get", id=memory)["access_count"]
    shared.call("run_job", name="night")

    assert shared.call("get", id=memory)["access_count"] == count
    assert len(shared.parts.learn) == 0


def test_a_night_that_was_stopped_is_not_measured(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options=BY_HAND).start()
    crowd(daemon)
    ask(daemon)

    def stop_at(progress: dict[str, Any]) -> None:
        daemon.parts.runner._current.stop.set()

    running = asyncio.run_coroutine_threadsafe(
        daemon.parts.runner.run("night", trigger="manual", listener=stop_at), daemon._loop
    )
    ran = running.result(20)

    assert (ran.outcome, ran.reason, ran.canary) == ("cancelled", "stopping", None)
