"""Jobs over the wire: what there is, running one, what runs did, and taking it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.table import JOBS, NIGHT, RUNNABLE
from tests.daemon.methods.asking import at_once, refused
from tests.harness import Daemon


@pytest.fixture
def faded(daemon: Daemon) -> Daemon:
    """Six memories that nobody used for a month, one of them pinned."""
    for n in range(6):
        daemon.remember(f"note {n}", id=f"n{n}", pinned=n == 0)
    daemon.beat(30)
    return daemon


def total(daemon: Daemon) -> int:
    return int(daemon.call("stats")["total"])


def test_every_job_is_listed_with_its_schedule_and_its_last_run(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_SCHEDULE__DECAY": "0 5 * * sun", "DREAMD_SCHEDULE__PRUNE": "off"}).start()
    daemon.call("run_job", name="decay")

    answer = daemon.call("jobs")

    jobs = {job["name"]: job for job in answer["jobs"]}
    assert answer["paused"] is False
    assert list(jobs) == list(RUNNABLE)
    assert jobs["decay"] == {
        "name": "decay", "about": JOBS["decay"].about, "schedule": "0 5 * * sun", "next_run": "2026-01-04T05:00:00Z",
        "last_run": "2026-01-01T00:00:00Z", "last_outcome": "unchanged", "running": False,
    }  # fmt: skip
    assert (jobs["night"]["schedule"], jobs["night"]["next_run"]) == ("30 3 * * *", "2026-01-01T03:30:00Z")
    assert (jobs["prune"]["schedule"], jobs["prune"]["next_run"], jobs["prune"]["last_run"]) == ("off", None, None)


def test_a_run_answers_with_what_it_did(faded: Daemon) -> None:
    run = faded.call("run_job", name="decay")

    assert run.keys() == {
        "run_id", "job", "dry_run", "outcome", "reason", "counts", "examples", "took_s", "canary", "steps", "undone_by"
    }  # fmt: skip
    assert (run["job"], run["dry_run"], run["outcome"], run["steps"]) == ("decay", False, "changed", [])
    assert run["counts"] == {"expired": 0, "decayed": 5, "total": 6, "remaining": 1, "deferred": 0, "skipped": 0}
    assert {example["id"] for example in run["examples"]} == {f"n{n}" for n in range(1, 6)}
    assert all("retention" in example["reason"] for example in run["examples"])
    assert total(faded) == 1


def test_an_example_is_shown_to_whom_every_memory_in_it_may_be_known(daemon: Daemon) -> None:
    said = "deploys on {} are forbidden for the billing team"
    for name, day, level in (
        ("open", "fridays", "public"), ("opened", "fridays", "public"), ("closed", "mondays", "secret"),
        ("shut", "sundays", "secret"), ("shut-too", "sundays", "secret"),
    ):  # fmt: skip
        daemon.remember(said.format(day), id=name, sensitivity=level, metadata={"n": 1} if name == "opened" else {})
    daemon.call("update", id="opened", content=f"{said.format('fridays')}.")
    daemon.call("update", id="shut-too", content=f"{said.format('sundays')}.")

    run = daemon.call("run_job", name="dedup", clearance="public")

    assert run["counts"]["merged"] == 2
    assert run["counts"]["proposed"] >= 2
    assert [one["survivor"] for one in run["examples"]] == ["open"]
    (whole, *_) = daemon.call("runs", job="dedup")["runs"]
    assert {"open", "shut"} == {one["survivor"] for one in whole["examples"] if "survivor" in one}
    assert len(whole["examples"]) == 2 + run["counts"]["proposed"]


def test_a_dry_run_says_the_same_and_changes_nothing(faded: Daemon) -> None:
    dry = faded.call("run_job", name="decay", dry_run=True)
    assert total(faded) == 6

    real = faded.call("run_job", name="decay")

    assert dry["dry_run"] is True
    assert (dry["counts"], dry["outcome"], dry["examples"]) == (real["counts"], real["outcome"], real["examples"])
    assert refused(faded, "refused", "undo", run_id=dry["run_id"]).hint == "dreamctl runs"


def test_a_dry_run_may_look_from_another_instant(daemon: Daemon) -> None:
    daemon.remember("note")

    now = daemon.call("run_job", name="decay", dry_run=True)
    later = daemon.call("run_job", name="decay", dry_run=True, at="2026-03-01")

    assert (now["counts"]["decayed"], later["counts"]["decayed"]) == (0, 1)
    assert refused(daemon, "invalid", "run_job", name="decay", at="2026-03-01").extra["field"] == "at"


def test_a_job_that_changes_nothing_says_so(daemon: Daemon) -> None:
    assert daemon.call("run_job", name="prune")["outcome"] == "unchanged"


def test_decay_takes_a_scope_and_params_of_its_own(daemon: Daemon) -> None:
    daemon.remember("one", scope="a/b")
    daemon.remember("two", scope="c", expires_at="2026-01-05")
    daemon.beat(30)

    dry = {"name": "decay", "dry_run": True}
    assert daemon.call("run_job", **dry, scope="a")["counts"]["decayed"] == 1
    assert daemon.call("run_job", **dry, scope="c")["counts"] == {
        "expired": 1, "decayed": 0, "total": 1, "remaining": 0, "deferred": 0, "skipped": 0,
    }  # fmt: skip
    assert daemon.call("run_job", **dry, params={"only": "expired"})["counts"]["decayed"] == 0
    assert daemon.call("run_job", **dry, params={"only": "decayed"})["counts"]["expired"] == 0
    assert daemon.call("run_job", **dry, params={"threshold": 0.0})["counts"]["decayed"] == 0


@pytest.mark.parametrize(
    ("params", "field", "hint"),
    [
        ({}, "name", "dreamctl run_job --help"),
        ({"name": "deram"}, "name", "Did you mean 'dream'?"),
        ({"name": "undo"}, "name", "dreamctl run_job --help"),
        ({"name": "decay", "params": {"treshold": 0.2}}, "params.treshold", "Did you mean 'threshold'?"),
        ({"name": "decay", "params": {"threshold": 2}}, "params.threshold", "dreamctl run_job --help"),
        ({"name": "decay", "params": {"only": "expird"}}, "params.only", "Did you mean 'expired'?"),
        ({"name": "prune", "params": {"threshold": 0.2}}, "params.threshold", "dreamctl run_job --help"),
        ({"name": "prune", "scope": "a"}, "scope", "dreamctl run prune"),
        ({"name": "decay", "scope": "a//b"}, "scope", None),
        ({"name": "decay", "at": "soon", "dry_run": True}, "at", "dreamctl run_job --help"),
    ],
)
def test_a_wrong_run_is_invalid_by_its_field(shared: Daemon, params, field, hint) -> None:
    error = refused(shared, "invalid", "run_job", **params)

    assert error.extra["field"] == field
    assert hint in (None, error.hint)


def test_the_night_runs_every_step_in_order(faded: Daemon) -> None:
    night = faded.call("run_job", name="night")

    assert [step["job"] for step in night["steps"]] == list(NIGHT)
    assert all(step["parent"] == night["run_id"] for step in night["steps"])
    assert night["outcome"] == "changed"
    assert total(faded) == 1
    health = faded.call("health")
    assert (health["last_night_outcome"], health["last_night"]) == ("changed", "2026-01-31T00:00:00Z")


def test_a_job_whose_schedule_is_off_is_left_out_of_the_night(daemons: Callable[..., Daemon]) -> None:
    daemon = daemons(options={"DREAMD_SCHEDULE__DREAM": "off", "DREAMD_SCHEDULE__PURGE": "off"}).start()

    night = daemon.call("run_job", name="night")

    assert [step["job"] for step in night["steps"]] == [name for name in NIGHT if name not in ("dream", "purge")]
    assert daemon.call("run_job", name="dream")["outcome"] == "unchanged"


def test_without_wait_the_answer_is_the_run_as_it_began(faded: Daemon) -> None:
    begun = faded.call("run_job", name="decay", wait=False)

    assert begun["outcome"] is None
    assert begun["took_s"] is None
    while faded.call("runs", limit=1)["runs"][0]["outcome"] is None:
        faded.call("health")
    assert faded.call("runs", limit=1)["runs"][0]["run_id"] == begun["run_id"]
    assert total(faded) == 1


def test_the_same_job_twice_at_once_is_a_conflict_with_the_run_under_way(faded: Daemon) -> None:
    answers = at_once(
        faded, ("run_job", {"name": "decay"}), ("run_job", {"name": "decay"}), ("run_job", {"name": "prune"})
    )

    assert answers[0]["outcome"] == "changed"
    assert (answers[1].kind, answers[1].extra["run_id"]) == ("conflict", answers[0]["run_id"])
    assert answers[2]["outcome"] == "unchanged"


def test_progress_is_told_to_who_listens(faded: Daemon) -> None:
    told: list[dict[str, Any]] = []
    service = faded.app.service

    from daemon.rpc import Caller

    run = faded.run(service.call("run_job", {"name": "decay"}, Caller(0, 0, ""), told.append))

    assert told[-1] == {"job": "decay", "run_id": run["run_id"], "done": 5, "total": 5}


def test_runs_show_what_was_done_newest_first(faded: Daemon) -> None:
    first = faded.call("run_job", name="prune")
    faded.clock.advance(10)
    second = faded.call("run_job", name="decay")

    runs = faded.call("runs")["runs"]

    assert [run["run_id"] for run in runs] == [second["run_id"], first["run_id"]]
    assert runs[0].keys() == {
        "run_id", "job", "trigger", "dry_run", "outcome", "reason", "counts", "examples", "started_at", "ended_at", "took_s",
        "late_by_s", "cost_usd", "seed", "parent", "undo_of", "undone_by", "canary",
    }  # fmt: skip
    assert (runs[0]["trigger"], runs[0]["started_at"]) == ("manual", "2026-01-31T00:00:10Z")
    assert {name: runs[0][name] for name in ("job", "outcome", "counts", "examples")} == {
        name: second[name] for name in ("job", "outcome", "counts", "examples")
    }
    assert [run["job"] for run in faded.call("runs", job="prune")["runs"]] == ["prune"]
    assert len(faded.call("runs", limit=1)["runs"]) == 1
    assert faded.call("runs", job="undo")["runs"] == []


@pytest.mark.parametrize(
    ("params", "field"), [({"job": "deram"}, "job"), ({"limit": 0}, "limit"), ({"limit": 501}, "limit")]
)
def test_wrong_runs_are_invalid_by_their_field(shared: Daemon, params, field) -> None:
    assert refused(shared, "invalid", "runs", **params).extra["field"] == field


def test_undo_takes_a_run_back_except_what_changed_since(faded: Daemon) -> None:
    run = faded.call("run_job", name="decay")
    faded.call("restore", id="n1")
    faded.call("pin", id="n1")

    undone = faded.call("undo", run_id=run["run_id"])

    assert undone.keys() == {"run_id", "restored", "left"}
    assert (set(undone["restored"]), undone["left"]) == ({"n2", "n3", "n4", "n5"}, ["n1"])
    assert total(faded) == 6
    runs = faded.call("runs")["runs"]
    assert (runs[0]["job"], runs[0]["undo_of"]) == ("undo", run["run_id"])
    assert runs[1]["undone_by"] == undone["run_id"]


def test_what_cannot_be_undone_says_why(faded: Daemon) -> None:
    run = faded.call("run_job", name="decay")
    undone = faded.call("undo", run_id=run["run_id"])

    twice = refused(faded, "conflict", "undo", run_id=run["run_id"])
    unknown = refused(faded, "not_found", "undo", run_id="nothing")

    assert twice.extra["run_id"] == undone["run_id"]
    assert unknown.hint == "dreamctl runs"
    assert refused(faded, "invalid", "undo", run_id="\ud800").extra["field"] == "run_id"


def test_pausing_holds_over_a_restart_and_leaves_runs_by_hand(daemon: Daemon) -> None:
    assert daemon.call("pause_jobs") == {"paused": True}
    daemon.restart()

    assert daemon.call("jobs")["paused"] is True
    assert daemon.call("health")["paused"] is True
    assert daemon.call("run_job", name="prune")["outcome"] == "unchanged"
    assert daemon.call("resume_jobs") == {"paused": False}
    assert daemon.call("jobs")["paused"] is False
