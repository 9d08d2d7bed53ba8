"""The service behind the wire: methods found, params checked, retries recognised, idleness told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.methods import METHODS
from storage.errors import Conflict
from tests.daemon.methods.asking import WatchedEmbedder, ask, at_once, refused
from tests.daemon.serving import short_folder
from tests.harness import Daemon

DAY = 86_400.0


@pytest.fixture(scope="module")
def shared() -> Iterator[Daemon]:
    with short_folder() as folder:
        daemon = Daemon(folder).start()
        yield daemon
        daemon.stop()


@pytest.mark.parametrize(
    ("method", "hint"),
    [
        ("recal", "Did you mean 'recall'?"),
        ("remember-many", "Did you mean 'remember_many'?"),
        ("", "dreamctl --help"),
        ("quux" * 1000, "dreamctl --help"),
    ],
)
def test_an_unknown_method_is_not_found_with_the_nearest_one(shared: Daemon, method: str, hint: str) -> None:
    error = refused(shared, "not_found", method)

    assert error.hint == hint
    assert len(error.detail) < 200


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_refuses_a_param_that_it_does_not_know(shared: Daemon, method: str) -> None:
    error = refused(shared, "invalid", method, qqqq=1)

    assert error.extra["field"] == "qqqq"
    assert error.hint == f"dreamctl {method} --help"


@pytest.mark.parametrize(
    "method", sorted(name for name, one in METHODS.items() if one.params.model_json_schema().get("required"))
)
def test_every_method_with_a_required_param_names_it_when_it_is_missing(shared: Daemon, method: str) -> None:
    required = METHODS[method].params.model_json_schema()["required"]

    assert refused(shared, "invalid", method).extra["field"] in required


def test_a_retry_with_the_same_request_id_does_the_thing_once(daemon: Daemon) -> None:
    first = ask(daemon, "remember", {"content": "Ada likes tea", "request_id": "r1"})

    again = ask(daemon, "remember", {"content": "Ada likes tea", "request_id": "r1"})
    by_header = ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1")

    assert first == again == by_header
    assert first["created"]
    assert daemon.call("get", id=first["id"])["access_count"] == 0


def test_a_batch_that_failed_in_part_is_tried_again_by_the_same_request(daemon: Daemon) -> None:
    """Its answer is not kept: what failed may fit by now, and the problem may quote what was refused."""
    params = {"items": [{"content": "one"}, {"content": "two", "connect_to": ["later"]}]}
    assert ask(daemon, "remember_many", params, key="batch")["failed"] == 1
    daemon.remember("it is here now", id="later")

    again = ask(daemon, "remember_many", params, key="batch")
    assert again["failed"] == 0
    assert [item["created"] for item in again["results"]] == [False, True]
    assert daemon.in_lane(lambda: daemon.stores.ledger.answer("remember_many batch", since=0.0)) is not None


def test_one_request_id_serves_one_request_whatever_the_method(daemon: Daemon) -> None:
    tea = daemon.remember("Ada likes tea", request_id="z")

    with pytest.raises(Conflict):
        ask(daemon, "set_emotion", {"id": tea, "emotion": 0.8}, key="z")


def test_every_kind_of_write_is_repeated_from_its_first_answer(daemon: Daemon) -> None:
    tea, cake = daemon.remember("Ada likes tea"), daemon.remember("Ada bakes cake")
    writes: list[tuple[str, dict[str, Any]]] = [
        ("update", {"id": tea, "content": "Ada likes green tea"}),
        ("pin", {"id": tea}),
        ("unpin", {"id": tea}),
        ("set_emotion", {"id": tea, "emotion": 0.8}),
        ("set_tier", {"id": tea, "tier": "long"}),
        ("revert", {"id": tea, "version": 1}),
        ("connect", {"a": tea, "b": cake, "label": "a treat"}),
        ("disconnect", {"a": tea, "b": cake}),
        ("forget", {"ids": [cake, "nobody"]}),
        ("restore", {"id": cake}),
        ("remember_many", {"items": [{"content": "one"}, {"content": "two"}]}),
        ("run_job", {"name": "prune"}),
        ("pause_jobs", {}),
        ("resume_jobs", {}),
    ]

    for number, (method, params) in enumerate(writes):
        first = ask(daemon, method, params, key=f"r{number}")
        assert ask(daemon, method, params, key=f"r{number}") == first

    assert daemon.call("get", id=tea)["version"] == 3
    assert daemon.call("stats")["total"] == 4
    assert len(daemon.call("runs")["runs"]) == 1


def test_a_connection_is_added_once_however_often_it_is_retried(daemon: Daemon) -> None:
    tea, cake = daemon.remember("Ada likes tea"), daemon.remember("Ada bakes cake")

    answers = [ask(daemon, "connect", {"a": tea, "b": cake, "request_id": "r"}) for _ in range(3)]

    assert answers == answers[:1] * 3
    assert daemon.call("neighbors", id=tea)["neighbors"][0]["weight"] == 2.0


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("remember", {"content": "Ada likes cocoa"}),
        ("remember", {"content": "Ada likes tea", "scope": "a"}),
        ("pause_jobs", {}),
    ],
)
def test_a_request_id_that_stood_for_another_request_is_a_conflict(daemon: Daemon, method, params) -> None:
    ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1")

    (answer,) = at_once(daemon, (method, params), key="r1")

    assert (answer.kind, answer.extra["field"]) == ("conflict", "request_id")
    assert daemon.call("stats", scope="*")["total"] == 1


def test_duplicates_at_once_do_the_thing_once(daemon: Daemon) -> None:
    params = {"content": "Ada likes tea", "request_id": "r1"}

    answers = at_once(daemon, *[("remember", params)] * 8, ("remember", params | {"content": "other"}))

    assert answers[:8] == answers[:1] * 8
    assert answers[8].kind == "conflict"
    assert daemon.call("stats")["total"] == 1
    assert daemon.call("get", id=answers[0]["id"])["access_count"] == 0


def test_a_retry_is_recognised_after_a_restart(daemon: Daemon) -> None:
    first = ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1")
    edited = ask(daemon, "update", {"id": first["id"], "content": "Ada likes cocoa"}, key="r2")
    daemon.restart()

    assert ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1") == first
    assert ask(daemon, "update", {"id": first["id"], "content": "Ada likes cocoa"}, key="r2") == edited
    assert daemon.call("stats")["total"] == 1


def test_after_a_day_a_request_id_is_free_again(daemon: Daemon) -> None:
    ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1")
    daemon.clock.advance(DAY + 1)

    other = ask(daemon, "remember", {"content": "Ada likes cocoa"}, key="r1")

    assert other["created"]


def test_a_retry_after_a_hard_forget_brings_nothing_back(daemon: Daemon) -> None:
    first = ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1")
    ask(daemon, "update", {"id": first["id"], "content": "Ada likes cocoa"}, key="r2")
    daemon.remember("Ada sings", id=first["id"] + "-and-more")
    daemon.call("forget", id=first["id"], hard=True)

    assert ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1") == first
    refused(daemon, "not_found", "update", id=first["id"], content="Ada likes cocoa", request_id="r2")
    assert daemon.call("stats")["total"] == 1


def test_a_repeated_answer_does_not_show_what_has_risen_above_the_clearance(daemon: Daemon) -> None:
    tea, cake = daemon.remember("Ada likes tea"), daemon.remember("Ada bakes cake")
    mark = {"id": tea, "emotion": 0.7, "clearance": "personal"}
    edge = {"a": tea, "b": cake, "label": "her own words", "clearance": "personal"}
    ask(daemon, "set_emotion", mark, key="r1")
    ask(daemon, "connect", edge, key="r2")
    daemon.call("update", id=tea, sensitivity="secret")

    refused(daemon, "not_found", "set_emotion", **mark, request_id="r1")
    refused(daemon, "not_found", "connect", **edge, request_id="r2")


def test_a_request_that_failed_may_be_repeated_with_its_id(daemons: Callable[..., Daemon]) -> None:
    embedder = WatchedEmbedder()
    daemon = daemons(embedder=embedder.load).start()
    embedder.broken = True
    refused(daemon, "unavailable", "remember", content="Ada likes tea", request_id="r1")
    embedder.broken = False

    assert ask(daemon, "remember", {"content": "Ada likes tea"}, key="r1")["created"]


#: A call of every method that writes, in an order in which each finds what it needs.
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("remember", {"content": "Ada likes tea", "id": "tea"}), ("remember", {"content": "Ada likes cake", "id": "cake"}),
    ("remember_many", {"items": [{"content": "Grace sails", "id": "boat"}, {"content": "Ada likes her tea", "id": "twin"}]}),
    ("update", {"id": "tea", "content": "Ada likes green tea"}), ("revert", {"id": "tea", "version": 1}),
    ("pin", {"id": "tea"}), ("unpin", {"id": "tea"}), ("set_emotion", {"id": "tea", "emotion": 0.9}),
    ("set_tier", {"id": "tea", "tier": "long"}), ("promote_heat", {"id": "tea"}), ("demote_heat", {"id": "tea"}),
    ("connect", {"a": "tea", "b": "cake", "label": "at five"}), ("disconnect", {"a": "tea", "b": "cake"}),
    ("merge", {"survivor": "tea", "duplicate": "twin"}), ("forget", {"id": "cake"}), ("restore", {"id": "cake"}),
    ("comment", {"id": "tea", "content": "with milk?", "author": "user"}), ("add_turn", {"session": "s", "content": "hello"}),
    ("end_session", {"session": "s"}), ("clear_session", {"session": "s"}), ("write_session_state", {"text": "all is well"}),
    ("fact_set", {"key": "k", "value": {"text": "v"}}), ("fact_delete", {"key": "k"}),
    ("remember_fact", {"subject": "Ada", "predicate": "lives in", "object": "Rome"}),
    ("remember_procedure", {"name": "brew", "trigger": "thirst", "steps": ["boil", "pour"]}),
    ("run_job", {"name": "hebbian"}), ("pause_jobs", {}), ("resume_jobs", {}), ("snapshot", {"label": "mine"}),
    ("forget_where", {"strategy": "importance", "scope": "default", "dry_run": False}), ("reindex", {}),
    ("forget_scope", {"scope": "default", "confirm": "default"}),
]  # fmt: skip


def test_every_method_that_writes_answers_a_retry_with_what_it_answered(daemon: Daemon, tmp_path: Path) -> None:
    comment = ""
    export = tmp_path / "out.jsonl"
    for number, (method, params) in enumerate(WRITES):
        first = daemon.call(method, request_id=f"r{number}", **params)
        assert daemon.call(method, request_id=f"r{number}", **params) == first, method
        comment = first["id"] if method == "comment" else comment
        if method == "clear_session":
            daemon.call("export", path=str(export))
    forgotten = daemon.call("runs", job="forget_scope")["runs"][0]["run_id"]
    later: list[tuple[str, dict[str, Any]]] = [
        ("mark_comments_read", {"ids": [comment]}), ("undo", {"run_id": forgotten}),
        ("import", {"path": str(export)}), ("backup", {"path": str(tmp_path / "b.zip")}),
        ("restore_snapshot", {"name": daemon.call("snapshots")["snapshots"][0]["name"]}),
    ]  # fmt: skip
    for method, params in later[1:] + later[:1]:
        first = daemon.call(method, request_id=method, **params)
        assert daemon.call(method, request_id=method, **params) == first, method
    told = {method for method, _ in WRITES + later}
    assert told == {one["name"] for one in daemon.app.service.methods() if one["writes"]}


def test_what_is_kept_for_retries_holds_no_text(daemon: Daemon) -> None:
    tea, cake = daemon.remember("Ada likes tea"), daemon.remember("Ada bakes cake")
    planted = "xylophone-quartz"
    writes: list[tuple[str, dict[str, Any]]] = [
        ("remember", {"content": f"one {planted}"}), ("update", {"id": tea, "content": f"two {planted}"}),
        ("connect", {"a": tea, "b": cake, "label": planted}), ("pin", {"id": tea}),
        ("remember_many", {"items": [{"content": f"3 {planted}", "request_id": "i1"}, {"content": planted, "tier": planted}]}),
    ]  # fmt: skip
    for number, (method, params) in enumerate(writes):
        ask(daemon, method, params, key=f"r{number}")
    daemon.stop()

    assert all(planted.encode() not in path.read_bytes() for path in (daemon.folder / "state").glob("state.db*"))


def test_asking_how_the_daemon_is_does_not_keep_it_from_idling(daemon: Daemon) -> None:
    daemon.remember("Ada likes tea")
    used = daemon.app.service.last_used_at
    daemon.clock.advance(5)

    for method in ("health", "version", "jobs", "runs"):
        daemon.call(method)
    assert daemon.app.service.last_used_at == used
    daemon.call("recall", query="tea")
    assert daemon.app.service.last_used_at == used + 5


def test_a_daemon_that_stops_is_not_ready(daemon: Daemon) -> None:
    service = daemon.app.service

    assert service.ready() == (True, "")
    daemon.stop()
    assert service.ready() == (False, "it is stopping")


def test_methods_are_listed_with_what_they_are_for(shared: Daemon) -> None:
    listed = {one["name"]: one for one in shared.app.service.methods()}

    assert set(listed) == {
        "remember", "remember_many", "update", "forget", "forget_where", "forget_scope", "restore", "revert", "merge", "pin",
        "unpin", "set_emotion", "set_tier", "promote_heat", "demote_heat", "recall", "recall_multi", "get", "list", "history",
        "tags", "entities", "stats", "fading", "connect", "disconnect", "neighbors", "graph_stats", "add_turn", "end_session",
        "clear_session", "context", "comment", "comments", "mark_comments_read", "wakeup", "write_session_state",
        "read_session_state", "fact_set", "fact_get", "fact_list", "fact_delete", "remember_fact", "remember_procedure",
        "jobs", "run_job", "runs", "undo", "pause_jobs", "resume_jobs", "simulate", "export", "import", "snapshot", "snapshots",
        "restore_snapshot", "backup", "reindex", "health", "version",
    }  # fmt: skip
    assert {one["group"] for one in listed.values()} == {"write", "read", "graph", "talk", "facts", "night", "care"}
    assert all(one["about"].endswith(".") for one in listed.values())
    assert listed["recall"]["writes"] is False
    assert shared.app.service.streams("run_job")
    assert not shared.app.service.streams("recall")
    assert set(shared.app.service.openapi()["paths"]) == {f"/v1/{name}" for name in listed}
