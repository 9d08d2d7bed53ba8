"""Above the caller's clearance there is nothing: the words are those for what does not exist, and counts count the rest."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.methods import METHODS
from tests.daemon.methods.asking import refused
from tests.harness import Daemon

HIDDEN, ABSENT = "vault-code-one", "vault-code-two"

#: Every method that names a memory, with what else it must be given.
NAMING: dict[str, dict[str, Any]] = {
    "get": {}, "history": {}, "neighbors": {}, "update": {"content": "x"}, "forget": {}, "restore": {},
    "revert": {"version": 1}, "pin": {}, "unpin": {}, "set_emotion": {"emotion": 0.1}, "set_tier": {"tier": "long"},
    "promote_heat": {}, "demote_heat": {}, "remember": {"content": "x"},
}  # fmt: skip


@pytest.fixture(scope="module")
def guarded(shared: Daemon) -> Daemon:
    """One public and one confidential memory, joined; the hidden one has an edit and is about tea, as the other is."""
    shared.remember("Ada likes tea", id="tea", sensitivity="public", tags=["drink"])
    shared.remember("the tea vault code is 1234", id=HIDDEN, sensitivity="confidential", tags=["drink", "vault"])
    shared.call("update", id=HIDDEN, content="the tea vault code is 9876")
    shared.call("connect", a="tea", b=HIDDEN)
    return shared


def test_every_method_that_names_or_reads_memories_takes_a_clearance() -> None:
    without = {name for name, method in METHODS.items() if "clearance" not in method.params.model_fields}

    whole_store = {"snapshot", "snapshots", "restore_snapshot", "backup", "reindex"}  # its owner's business
    assert without == {"jobs", "pause_jobs", "resume_jobs", "health", "version"} | whole_store


@pytest.mark.parametrize("method", sorted(set(NAMING) - {"remember"}))
def test_a_hidden_memory_is_not_found_in_the_words_for_one_that_does_not_exist(guarded: Daemon, method: str) -> None:
    hidden = refused(guarded, "not_found", method, id=HIDDEN, clearance="personal", **NAMING[method])
    absent = refused(guarded, "not_found", method, id=ABSENT, clearance="personal", **NAMING[method])

    assert hidden.detail.replace(HIDDEN, ABSENT) == absent.detail
    assert hidden.hint.replace(HIDDEN, ABSENT) == absent.hint
    assert hidden.extra == absent.extra


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("connect", {"a": "tea", "b": HIDDEN}),
        ("connect", {"a": HIDDEN, "b": "tea"}),
        ("disconnect", {"a": "tea", "b": HIDDEN}),
        ("forget", {"id": "tea", "superseded_by": HIDDEN}),
        ("merge", {"survivor": "tea", "duplicate": HIDDEN}),
        ("merge", {"survivor": HIDDEN, "duplicate": "tea"}),
        ("remember", {"content": "x", "id": HIDDEN}),
        ("remember", {"content": "x", "connect_to": [HIDDEN]}),
        ("get", {"id": HIDDEN[:10]}),
    ],
)
def test_a_hidden_memory_cannot_be_named_as_the_other_one_either(guarded: Daemon, method, params) -> None:
    assert refused(guarded, "not_found", method, clearance="public", **params).detail.startswith("There is no memory")


def test_a_list_of_ids_takes_hidden_ones_for_missing(guarded: Daemon) -> None:
    done = guarded.call("forget", ids=[HIDDEN, ABSENT], clearance="public")

    assert done == {"forgotten": [], "missing": [HIDDEN, ABSENT]}


def test_recall_list_and_neighbors_show_only_what_is_cleared(guarded: Daemon) -> None:
    for clearance, seen in (("public", {"tea"}), ("personal", {"tea"}), ("confidential", {"tea", HIDDEN})):
        asked = {"clearance": clearance, "learn": False}
        hits = guarded.call("recall", query="tea vault code", k=10, **asked)["hits"]
        many = guarded.call("recall_multi", queries=["vault code", "tea"], **asked)["hits"]
        listed = guarded.call("list", clearance=clearance)["memories"]
        around = guarded.call("neighbors", id="tea", clearance=clearance)["neighbors"]

        assert {hit["id"] for hit in hits} == seen
        assert {hit["id"] for hit in many} == seen
        assert {memory["id"] for memory in listed} == seen
        assert {one["id"] for one in around} == seen - {"tea"}


def test_a_filter_or_a_wider_net_does_not_reach_above_the_clearance(guarded: Daemon) -> None:
    nets: list[dict[str, Any]] = [
        {"tags": ["vault"]}, {"tags_any": ["vault"]}, {"sensitivity": "confidential"}, {"type": "semantic"}, {"scope": "*"},
    ]  # fmt: skip
    for net in nets:
        hits = guarded.call("recall", query="vault code 9876", clearance="personal", learn=False, **net)["hits"]
        listed = guarded.call("list", clearance="personal", **net)["memories"]

        assert HIDDEN not in {one["id"] for one in (*hits, *listed)}, net


def test_counts_count_only_what_is_cleared(guarded: Daemon) -> None:
    low, high = ({"clearance": level} for level in ("personal", "secret"))

    assert guarded.call("stats", **low)["total"] == 1
    assert guarded.call("stats", **low)["by_sensitivity"] == {"public": 1}
    assert guarded.call("stats", **low)["total_versions"] == 0
    assert guarded.call("stats", **high)["total_versions"] == 1
    assert guarded.call("tags", **low)["tags"] == [{"tag": "drink", "count": 1}]
    assert guarded.call("tags", **high)["tags"] == [{"tag": "drink", "count": 2}, {"tag": "vault", "count": 1}]
    assert (guarded.call("graph_stats", **low)["nodes"], guarded.call("graph_stats", **low)["edges"]) == (1, 0)
    assert (guarded.call("graph_stats", **high)["nodes"], guarded.call("graph_stats", **high)["edges"]) == (2, 1)
    assert [one["id"] for one in guarded.call("fading", days=365, **low)["memories"]] == ["tea"]


def test_stats_do_not_count_former_texts_above_the_clearance_of_a_memory_that_is_cleared_now(daemon: Daemon) -> None:
    daemon.remember("the code is 1", id="code", sensitivity="secret")
    daemon.call("update", id="code", content="the code is 2")
    daemon.call("update", id="code", content="there is no code", sensitivity="public")
    daemon.call("update", id="code", content="there never was a code")

    def counted(clearance: str) -> tuple[int, int]:
        stats = daemon.call("stats", clearance=clearance)
        return stats["total_versions"], stats["memories_with_history"]

    assert counted("secret") == (3, 1)
    assert counted("public") == (len(daemon.call("history", id="code", clearance="public")["versions"]), 1) == (1, 1)
    daemon.remember("a plan", id="plan", sensitivity="secret")
    daemon.call("update", id="plan", content="no plan", sensitivity="public")
    assert counted("public") == (1, 1)


def test_the_id_of_a_hidden_successor_is_shown_to_nobody_below_it(daemon: Daemon) -> None:
    daemon.remember("Ada lives in Rome", id="old", sensitivity="public")
    daemon.remember("Ada lives in a safe house", id="safe-house", sensitivity="secret")
    daemon.call("forget", id="old", superseded_by="safe-house", request_id="moved")

    def shown(clearance: str) -> set[str | None]:
        listed = daemon.call("list", state="superseded", clearance=clearance)["memories"]
        return {one["superseded_by"] for one in [*listed, daemon.call("get", id="old", clearance=clearance)]}

    assert shown("secret") == {"safe-house"}
    assert shown("confidential") == shown("public") == {None}


def test_runs_show_hidden_ids_and_edges_at_them_to_nobody_below_them(daemon: Daemon) -> None:
    """A run does its work on all; of what it did only the counts tell of what the caller may not see."""
    for name, level in (("seen-one", "public"), ("seen-two", "public"), ("hidden-one", "secret")):
        daemon.remember(f"note {name}", id=name, sensitivity=level)
    daemon.call("connect", a="seen-one", b="seen-two", weight=0.2)
    daemon.call("connect", a="seen-one", b="hidden-one", weight=0.2)
    daemon.beat(30)
    low: dict[str, Any] = {"clearance": "public"}

    dry = daemon.call("run_job", name="decay", dry_run=True, **low)
    night = daemon.call("run_job", name="night", **low)
    runs = daemon.call("runs", **low)["runs"]
    everything = daemon.call("runs")["runs"]

    assert "hidden-one" in str(everything)
    assert "hidden-one" not in str([dry, night, runs])
    assert "seen-one" in str(dry["examples"])
    assert dry["counts"]["decayed"] == 3
    assert [run["counts"] for run in runs] == [run["counts"] for run in everything]
    pruned = {run["job"]: [one["edge"] for one in run["examples"]] for run in runs if run["job"] == "prune"}
    assert pruned == {"prune": [["seen-one", "seen-two"]]}
    assert {one["job"] for one in night["examples"]} == {step["job"] for step in night["steps"]}

    undone = daemon.call("undo", run_id=night["run_id"], **low)

    between = daemon.in_lane(lambda: daemon.stores.synapses.between("seen-one", "seen-two")).key
    assert set(undone["restored"]) == {"seen-one", "seen-two", between}
    assert daemon.call("get", id="hidden-one")["state"] == "live"
    assert daemon.call("runs", job="undo", **low)["runs"][0]["counts"]["restored"] == 5


def test_an_undo_leaves_out_hidden_ids_that_it_left_and_such_as_are_gone(daemon: Daemon) -> None:
    for name, level in (("seen-one", "public"), ("hidden-one", "secret"), ("gone-one", "public")):
        daemon.remember(f"note {name}", id=name, sensitivity=level)
    daemon.beat(30)
    run = daemon.call("run_job", name="decay")["run_id"]
    for name in ("seen-one", "hidden-one"):
        daemon.call("restore", id=name)
    daemon.call("forget", id="gone-one", hard=True)

    undone = daemon.call("undo", run_id=run, clearance="confidential")

    last = daemon.call("runs", job="undo", clearance="public")["runs"][0]
    assert (undone["restored"], undone["left"]) == ([], ["seen-one"])
    assert ([one["id"] for one in last["examples"]], last["counts"]["left"]) == (["seen-one"], 3)


def test_a_write_in_the_words_of_a_hidden_memory_does_not_tell_of_it(guarded: Daemon) -> None:
    """Else `created: false`, or a conflict naming the twin, would confirm a guess."""
    said = guarded.call("remember", content="the tea vault code is 9876", clearance="public", sensitivity="public")
    edited = guarded.call("update", id=said["id"], content="x", clearance="public")
    again = guarded.call("update", id=said["id"], content="the tea vault code is 9876", clearance="public")
    guarded.call("forget", id=said["id"], hard=True)

    assert said["created"]
    assert said["id"] != HIDDEN
    assert (edited["version"], again["version"]) == (2, 3)


def test_a_retry_with_a_lower_clearance_does_not_get_the_text(guarded: Daemon) -> None:
    guarded.call("set_emotion", id=HIDDEN, emotion=0.6, request_id="feel")

    shown = guarded.call("set_emotion", id=HIDDEN, emotion=0.6, request_id="feel")

    assert shown["content"] == "the tea vault code is 9876"
    assert refused(guarded, "conflict", "set_emotion", id=HIDDEN, emotion=0.6, clearance="public", request_id="feel")


def test_an_unknown_level_is_invalid(guarded: Daemon) -> None:
    error = refused(guarded, "invalid", "get", id="tea", clearance="topsecret")

    assert error.extra["field"] == "clearance"
    assert error.hint == "Did you mean 'secret'?"
