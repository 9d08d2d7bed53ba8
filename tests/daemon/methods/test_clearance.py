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
    "remember": {"content": "x"},
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

    assert without == {"jobs", "run_job", "runs", "undo", "pause_jobs", "resume_jobs", "health", "version"}


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
