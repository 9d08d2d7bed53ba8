"""Forgetting many at once: by a rule, which says first what would go, and by a scope, which must be said twice."""

from __future__ import annotations

from typing import Any

import pytest

from storage.instants import format_instant
from tests.daemon.methods.asking import ask, at_once, refused
from tests.harness import BY_HAND, Daemon


@pytest.fixture
def notes(daemons) -> Daemon:
    """Six notes of rising importance, two days old."""
    daemon = daemons(options=BY_HAND).start()
    for n in range(6):
        daemon.remember(f"note {n}", id=f"n{n}", importance=n / 10)
    daemon.beat(2)
    return daemon


def live(daemon: Daemon, **params: Any) -> set[str]:
    return {one["id"] for one in daemon.call("list", scope="*", limit=500, **params)["memories"]}


def metrics(daemon: Daemon) -> str:
    return str(daemon.run(daemon.app.service.metrics(""))[0].decode())


# -- by a rule


@pytest.mark.parametrize(
    ("params", "gone"),
    [
        ({}, ["n0", "n1", "n2"]),
        ({"strategy": "importance", "threshold": 0.2}, ["n0", "n1"]),
        ({"strategy": "age", "max_age_days": 1.5}, ["n0", "n1", "n2", "n3", "n4", "n5"]),
        ({"strategy": "age", "max_age_days": 2.5}, []),
        ({"strategy": "capacity", "keep": 4}, ["n0", "n1"]),
        ({"strategy": "capacity", "keep": 0}, ["n0", "n1", "n2", "n3", "n4", "n5"]),
    ],
)
def test_by_default_it_only_says_what_would_go(notes: Daemon, params, gone) -> None:
    written = [line for line in metrics(notes).splitlines() if line.startswith("dreamd_last_write")]
    notes.clock.advance(1)

    answer = notes.call("forget_where", scope="default", **params)

    assert written[0] in metrics(notes)
    assert sorted(answer["ids"]) == gone
    assert (answer["dry_run"], answer["deferred"], answer["reason"]) == (True, 0, None)
    assert len(live(notes)) == 6
    (run,) = notes.call("runs")["runs"]
    assert (run["run_id"], run["job"], run["dry_run"]) == (answer["run_id"], "forget_where", True)


def test_what_goes_lies_in_the_bin_and_comes_back_by_an_undo(notes: Daemon) -> None:
    would = notes.call("forget_where", scope="default")["ids"]

    answer = notes.call("forget_where", scope="default", dry_run=False)

    assert answer["ids"] == would == ["n0", "n1", "n2"]
    assert live(notes) == {"n3", "n4", "n5"}
    binned = notes.call("list", state="forgotten")["memories"]
    assert {(one["id"], one["forgotten_reason"]) for one in binned} == {(n, "request") for n in answer["ids"]}
    assert 'dreamd_forgotten_total{reason="request"} 3.0' in metrics(notes)
    assert 'dreamd_job_changes_total{change="forgotten",job_name="forget_where"} 3.0' in metrics(notes)
    told = [event.ids for event in notes.parts.events._ring if event.type == "forgotten"]
    assert told == [("n0", "n1", "n2")]

    undone = notes.call("undo", run_id=answer["run_id"])
    assert (sorted(undone["restored"]), undone["left"]) == (["n0", "n1", "n2"], [])
    assert len(live(notes)) == 6


def test_a8_d10_core_pinned_and_newborn_memories_stay(notes: Daemon) -> None:
    notes.call("set_tier", id="n0", tier="core")
    notes.call("pin", id="n1")
    notes.remember("just said", id="newborn", importance=0.0)

    assert notes.call("forget_where", scope="default", dry_run=False)["ids"] == ["n2"]


def test_d11_what_was_recalled_or_edited_lately_is_not_old(notes: Daemon) -> None:
    notes.beat(30)
    notes.call("recall", query="note 0", k=1)
    notes.call("run_job", name="hebbian")
    notes.call("update", id="n1", content="note one")

    ids = notes.call("forget_where", strategy="age", max_age_days=20, scope="default")["ids"]

    assert not {"n0", "n1"} & set(ids)
    assert ids


def test_d12_what_was_superseded_is_outside_every_rule_and_goes_with_its_time(notes: Daemon) -> None:
    """It is history, kept in the bin for `history_days`; then purge erases it."""
    for n in range(5):
        notes.call("forget", id=f"n{n}", superseded_by="n5")

    answer = notes.call("forget_where", strategy="capacity", keep=0, scope="default", dry_run=False)

    assert answer["ids"] == ["n5"]
    assert len(notes.call("list", state="superseded")["memories"]) == 5
    for days, purged in ((364, 1), (366, 6)):  # n5, which was only forgotten, has less time
        at = format_instant(notes.clock.now() + days * 86_400)
        counts = notes.call("run_job", name="purge", dry_run=True, at=at)["counts"]
        assert counts["purged"] == purged


def test_what_is_beyond_the_ceiling_waits_and_the_answer_says_so(daemon: Daemon) -> None:
    daemon.call("remember_many", items=[{"content": f"note {n}", "importance": 0.0} for n in range(25)])
    daemon.beat(2)

    first = daemon.call("forget_where", scope="default", dry_run=False)
    second = daemon.call("forget_where", scope="default", dry_run=False)
    assert (len(first["ids"]), first["deferred"]) == (10, 15)
    assert first["reason"].startswith("15 more wait")
    assert (second["ids"], second["deferred"]) == ([], 15)

    daemon.call("undo", run_id=first["run_id"])
    assert len(daemon.call("forget_where", scope="default", dry_run=False)["ids"]) == 10


def test_only_what_the_caller_sees_in_the_scope_and_below_it(notes: Daemon) -> None:
    notes.remember("hidden", id="hidden", importance=0.0, sensitivity="secret")
    notes.remember("below", id="below", importance=0.0, scope="default/x")
    notes.remember("elsewhere", id="elsewhere", importance=0.0, scope="other")
    notes.beat(2)

    def gone(scope: str, clearance: str) -> set[str]:
        return set(notes.call("forget_where", scope=scope, threshold=0.05, clearance=clearance)["ids"])

    assert gone("default", "personal") == {"n0", "below"}
    assert gone("default", "secret") == {"n0", "below", "hidden"}
    assert gone("*", "personal") == {"n0", "below", "elsewhere"}
    assert gone("nowhere", "secret") == set()


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"strategy": "age"}, "max_age_days"),
        ({"strategy": "capacity"}, "keep"),
        ({"strategy": "importance", "keep": 3}, "keep"),
        ({"strategy": "age", "max_age_days": 3, "threshold": 0.1}, "threshold"),
        ({"strategy": "capacity", "keep": 3, "max_age_days": 3}, "max_age_days"),
        ({"strategy": "oldest"}, "strategy"),
        ({"threshold": 1.5}, "threshold"),
        ({"strategy": "age", "max_age_days": -1}, "max_age_days"),
        ({"strategy": "capacity", "keep": -1}, "keep"),
        ({"scope": ""}, "scope"),
        ({"scope": "a//b"}, "scope"),
    ],
)
def test_a_rule_that_says_too_little_or_too_much_is_invalid_by_its_field(notes: Daemon, params, field) -> None:
    assert refused(notes, "invalid", "forget_where", **{"scope": "default", **params}).extra["field"] == field
    assert notes.call("runs")["runs"] == []


def test_a_scope_must_be_named(notes: Daemon) -> None:
    assert refused(notes, "invalid", "forget_where").extra["field"] == "scope"
    assert refused(notes, "invalid", "forget_scope", confirm="default").extra["field"] == "scope"


def test_two_rules_at_once_are_one_and_a_conflict_that_names_the_run(notes: Daemon) -> None:
    params = {"scope": "default", "dry_run": False}
    one, other = at_once(notes, ("forget_where", params), ("forget_where", params))

    assert one["ids"] == ["n0", "n1", "n2"]
    assert (other.kind, other.extra["run_id"]) == ("conflict", one["run_id"])


def test_a_retry_forgets_once(notes: Daemon) -> None:
    for method, params in (
        ("forget_where", {"scope": "default", "dry_run": False}),
        ("forget_scope", {"scope": "default", "confirm": "default"}),
    ):
        first = ask(notes, method, params, key=method)
        assert ask(notes, method, params, key=method) == first
    assert len(notes.call("runs")["runs"]) == 2


@pytest.mark.parametrize(
    ("method", "params"), [("forget_where", {"dry_run": False}), ("forget_scope", {"confirm": "default"})]
)
def test_a_run_that_fails_is_unavailable_and_says_so(notes: Daemon, method: str, params: dict[str, Any]) -> None:
    """The ledger loses its journal while it works: what was planned is not written without it."""
    notes.in_lane(notes.stores.ledger._db.execute, "ALTER TABLE journal RENAME COLUMN image TO lost")

    error = refused(notes, "unavailable", method, scope="default", **params)

    assert notes.call("runs")["runs"][0]["outcome"] == "failed"
    assert (error.extra["run_id"], method in error.hint) == (notes.call("runs")["runs"][0]["run_id"], True)
    assert len(live(notes)) == 6


# -- a scope


@pytest.fixture
def scopes(daemons) -> Daemon:
    """Memories, facts and turns of Ada, of her project below, and of Bea."""
    daemon = daemons(options=BY_HAND).start()
    for scope in ("ada", "ada/work", "bea"):
        for n in range(2):
            daemon.remember(f"{scope} note {n}", id=f"{scope}-{n}", scope=scope, tier="core", pinned=True)
        daemon.call("connect", a=f"{scope}-0", b=f"{scope}-1")
        daemon.call("fact_set", key="colour", value="blue", scope=scope)
        daemon.call("add_turn", session="s", role="user", content="good morning", scope=scope)
        daemon.call("write_session_state", text="all is well", scope=scope)
    daemon.call("comment", id="ada-0", content="a remark", author="Ben")
    return daemon


def test_row_9_a_scope_must_be_said_twice_and_the_refusal_says_what_it_covers(scopes: Daemon) -> None:
    for confirm in ({}, {"confirm": ""}, {"confirm": "bea"}, {"confirm": "ADA"}, {"confirm": True}):
        kind = "invalid" if confirm.get("confirm") is True else "refused"
        error = refused(scopes, kind, "forget_scope", scope="ada", **confirm)
        if kind == "refused":
            assert "below it" in error.detail
            assert error.hint == "dreamctl forget_scope ada --confirm ada"
    assert len(live(scopes)) == 6
    assert scopes.call("runs")["runs"] == []


def test_everything_of_it_goes_with_what_lies_below_and_comes_back_by_one_undo(scopes: Daemon) -> None:
    def told() -> list[Any]:
        return [
            sorted(live(scopes)),
            [scopes.call("fact_list", scope=scope)["facts"] for scope in ("ada/work", "bea")],
            [scopes.call("read_session_state", scope=scope) for scope in ("ada", "bea")],
            scopes.call("neighbors", id="ada-0") if "ada-0" in live(scopes) else None,
        ]

    before = told()
    answer = scopes.call("forget_scope", scope="ada", confirm="ada")

    assert {name: answer[name] for name in ("scope", "forgotten")} == {"scope": "ada", "forgotten": 4}
    assert answer["records"] == 6
    assert live(scopes) == {"bea-0", "bea-1"}
    assert scopes.call("fact_list", scope="*")["facts"] == {"colour": "blue"}
    assert scopes.call("comments", id="ada-0")["comments"][0]["content"] == "a remark"

    undone = scopes.call("undo", run_id=answer["run_id"])
    assert (len(undone["restored"]), undone["left"]) == (10, [])
    assert told() == before


def test_a_hard_one_erases_it_with_its_bin_and_cannot_be_taken_back(scopes: Daemon) -> None:
    scopes.call("forget", id="ada-1")

    answer = scopes.call("forget_scope", scope="ada", confirm="ada", hard=True)

    assert answer == {"scope": "ada", "forgotten": 4, "records": 6, "snapshots": 0}
    assert live(scopes) == {"bea-0", "bea-1"}
    assert scopes.call("list", state="forgotten", scope="*")["memories"] == []
    for memory in ("ada-0", "ada-1", "ada/work-0"):
        refused(scopes, "not_found", "get", id=memory)
    assert scopes.call("health")["edges"] == 1
    assert 'dreamd_forgotten_total{reason="hard"} 3.0' in metrics(scopes)
    undone = scopes.call("undo", run_id=scopes.call("runs")["runs"][0]["run_id"])
    assert (undone["restored"], len(undone["left"])) == ([], 4)
    assert scopes.call("run_job", name="scrub")["outcome"] == "changed"


def test_a_hard_one_says_how_many_snapshots_may_still_hold_it_and_none_brings_it_back(scopes: Daemon) -> None:
    scopes.clock.advance(60)
    first = scopes.call("snapshot", label="first")["name"]
    scopes.clock.advance(60)
    scopes.call("fact_set", key="k", value=1, scope="later")

    assert scopes.call("forget_scope", scope="later", confirm="later", hard=True)["snapshots"] == 0
    assert scopes.call("forget_scope", scope="ada", confirm="ada", hard=True)["snapshots"] == 1
    scopes.call("restore_snapshot", name=first)

    assert live(scopes) == {"bea-0", "bea-1"}
    assert scopes.call("fact_list", scope="*")["facts"] == {"colour": "blue"}
    refused(scopes, "not_found", "forget_scope", scope="ada", confirm="ada")


def test_a15_row_18_a_scope_without_anything_is_not_found(scopes: Daemon) -> None:
    scopes.remember("hidden", scope="vault", sensitivity="secret")

    for scope, clearance in (("nobody", "secret"), ("ad", "secret"), ("ada/work/x", "secret"), ("vault", "personal")):
        error = refused(scopes, "not_found", "forget_scope", scope=scope, confirm=scope, clearance=clearance)
        assert error.detail == f"There is nothing in the scope {scope!r}."
    assert refused(scopes, "invalid", "forget_scope", scope="*", confirm="*").extra["field"] == "scope"
    assert len(live(scopes)) == 7


@pytest.mark.parametrize("hard", [False, True])
def test_facts_alone_are_something_too(scopes: Daemon, *, hard: bool) -> None:
    scopes.call("fact_set", key="k", value=1, scope="facts/only")

    answer = scopes.call("forget_scope", scope="facts", confirm="facts", hard=hard)

    assert (answer["forgotten"], answer["records"]) == (0, 1)
    refused(scopes, "not_found", "forget_scope", scope="facts", confirm="facts")


def test_a_scope_whose_memories_all_lie_in_the_bin_is_known_and_nothing_is_left_to_do(scopes: Daemon) -> None:
    scopes.remember("one", id="one", scope="past")
    scopes.call("forget", id="one")

    answer = scopes.call("forget_scope", scope="past", confirm="past")

    assert (answer["forgotten"], answer["records"]) == (0, 0)
    assert scopes.call("runs")["runs"][0]["outcome"] == "unchanged"
    assert scopes.call("forget_scope", scope="past", confirm="past", hard=True)["forgotten"] == 1


def test_what_the_clearance_does_not_cover_stays_and_is_not_told(scopes: Daemon) -> None:
    scopes.remember("hidden", id="hidden", scope="ada", sensitivity="secret")

    answer = scopes.call("forget_scope", scope="ada", confirm="ada", clearance="confidential")

    assert answer["forgotten"] == 4
    assert live(scopes) == {"bea-0", "bea-1", "hidden"}


def test_a_scope_with_a_space_is_quoted_in_the_hint(scopes: Daemon) -> None:
    hint = refused(scopes, "refused", "forget_scope", scope="my notes", hard=True).hint

    assert hint == "dreamctl forget_scope 'my notes' --confirm 'my notes' --hard"
