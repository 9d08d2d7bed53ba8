"""Facts over the wire: by key, and as memories of subject, predicate and object; procedures beside them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.methods.asking import WatchedEmbedder, ask, at_once, refused
from tests.harness import Daemon

SECRET = "AKIAIOSFODNN7EXAMPLE"


def metric(daemon: Daemon, line: str) -> bool:
    return line in daemon.run(daemon.app.service.metrics(""))[0].decode()


# -- by key


def test_a_fact_is_set_got_listed_and_deleted(daemon: Daemon) -> None:
    made = daemon.call("fact_set", key="editor", value={"name": "vim", "since": None})
    again = daemon.call("fact_set", key="editor", value="nano")
    daemon.call("fact_set", key="big", value=[10**40, 0.1, None, True])

    assert made == {"scope": "default", "key": "editor", "created": True, "redactions": {}}
    assert again == made | {"created": False}
    assert daemon.call("fact_get", key="editor") == {
        "key": "editor", "value": "nano", "scope": "default", "found": True,
    }  # fmt: skip
    assert daemon.call("fact_list") == {"facts": {"big": [10**40, 0.1, None, True], "editor": "nano"}, "below": {}}
    assert daemon.call("fact_delete", key="editor") == {"deleted": True}
    error = refused(daemon, "not_found", "fact_delete", key="editor")
    assert (error.detail, error.hint) == (
        "There is no fact 'editor' in scope 'default'.", "dreamctl fact_list --scope default",
    )  # fmt: skip
    daemon.restart()
    assert daemon.call("fact_list")["facts"] == {"big": [10**40, 0.1, None, True]}


@pytest.mark.parametrize("default", [None, 0, "x", {"a": []}])
def test_a_default_stands_in_for_what_is_not_there_also_where_it_is_null(shared: Daemon, default: Any) -> None:
    assert shared.call("fact_get", key="nothing", default=default, scope="a/b") == {
        "key": "nothing", "value": default, "scope": "a/b", "found": False,
    }  # fmt: skip
    assert refused(shared, "not_found", "fact_get", key="nothing", scope="a/b")
    assert "any scope" in refused(shared, "not_found", "fact_get", key="nothing", scope="*").detail


def test_a_fact_that_is_null_is_found(daemon: Daemon) -> None:
    daemon.call("fact_set", key="k", value=None)

    assert daemon.call("fact_get", key="k", default=1)["value"] is None


def test_b10_d4_4_facts_belong_to_their_scopes(daemon: Daemon) -> None:
    for scope in ("alice/coder", "alice/writer", "bob"):
        daemon.call("fact_set", key="theme", value=scope, scope=scope)
    daemon.call("fact_set", key="font", value="mono", scope="alice/coder")

    assert daemon.call("fact_get", key="theme", scope="alice/coder")["value"] == "alice/coder"
    assert daemon.call("fact_get", key="font", scope="alice") == {
        "key": "font", "value": "mono", "scope": "alice/coder", "found": True,
    }  # fmt: skip
    error = refused(daemon, "conflict", "fact_get", key="theme", scope="alice", default="x")
    assert error.extra["scopes"] == ["alice/coder", "alice/writer"]
    assert error.hint == "dreamctl fact_get theme --scope alice/coder"
    assert daemon.call("fact_list", scope="alice") == {
        "facts": {"font": "mono"},
        "below": {"alice/coder": {"theme": "alice/coder"}, "alice/writer": {"theme": "alice/writer"}},
    }
    assert daemon.call("fact_list", scope="bob") == {"facts": {"theme": "bob"}, "below": {}}
    assert daemon.call("fact_list", scope="*")["below"].keys() == {"alice/coder", "alice/writer", "bob"}
    assert daemon.call("fact_list")["facts"] == {}
    assert refused(daemon, "not_found", "fact_delete", key="font", scope="alice")


def test_c9_a_secret_in_a_fact_is_masked_counted_and_hides_it(daemon: Daemon) -> None:
    made = daemon.call("fact_set", key="password", value="hunter2xyz")

    assert made["redactions"] == {"password": 1}
    assert daemon.call("fact_get", key="password")["value"] == "[REDACTED:password]"
    assert daemon.call("fact_list", clearance="personal")["facts"] == {}
    assert metric(daemon, 'dreamd_redactions_total{kind="password"} 1.0')


def test_c9_a_key_or_a_scope_that_holds_a_secret_is_refused_where_it_is_new_and_else_not_found(daemon: Daemon) -> None:
    for params in ({"key": f"key {SECRET}"}, {"key": "k", "scope": f"a/{SECRET}"}):
        errors = [
            refused(daemon, "invalid", "fact_set", value=1, **params),
            refused(daemon, "not_found", "fact_get", **params),
            refused(daemon, "not_found", "fact_delete", **params),
        ]
        assert errors[0].extra["field"] in params
        assert SECRET not in f"{errors[0].detail} {errors[0].hint}"
    assert daemon.call("fact_list", scope="*")["facts"] == {}
    missing = refused(daemon, "not_found", "fact_delete", key=f"no {SECRET}")
    assert SECRET not in f"{missing.detail} {missing.hint} {missing.extra}"


def test_what_was_kept_under_a_masked_key_is_still_found_and_deleted_by_its_words(daemon: Daemon) -> None:
    daemon.in_lane(lambda: daemon.stores.facts.write("default", "key [REDACTED:aws_access_key]", 1, daemon.clock.now()))

    assert daemon.call("fact_get", key=f"key {SECRET}")["value"] == 1
    assert daemon.call("fact_delete", key=f"key {SECRET}") == {"deleted": True}


@pytest.mark.parametrize("method", ["fact_get", "fact_set", "fact_delete"])
def test_a_fact_above_the_clearance_is_missing_in_the_words_for_one_that_never_was(daemon: Daemon, method: str) -> None:
    daemon.call("fact_set", key="note", value=f"use {SECRET}")
    value = {"value": 1} if method == "fact_set" else {}
    low = {"clearance": "personal"}

    hidden = refused(daemon, "not_found", method, key="note", **value, **low)
    absent = refused(daemon, "not_found", "fact_get", key="nite", **low)

    assert (hidden.detail.replace("note", "nite"), hidden.hint, hidden.extra) == (
        absent.detail, absent.hint, absent.extra,
    )  # fmt: skip
    assert daemon.call("fact_get", key="note", default=7, **low)["value"] == 7
    assert daemon.call("fact_get", key="note")["found"]


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("fact_set", {"key": "k"}, "value"), ("fact_set", {"value": 1}, "key"), ("fact_set", {"key": "", "value": 1}, "key"),
        ("fact_set", {"key": "k" * 257, "value": 1}, "key"), ("fact_set", {"key": "k", "value": "a\0"}, "value"),
        ("fact_set", {"key": "k", "value": 1, "scope": "*"}, "scope"), ("fact_get", {"key": 1}, "key"),
        ("fact_set", {"key": "k", "value": 1, "sensitivity": "public"}, "sensitivity"),
        ("fact_delete", {"key": "k", "scope": "*"}, "scope"), ("fact_get", {"key": "k", "scope": "a//b"}, "scope"),
        ("remember_fact", {"subject": "Ada", "predicate": "is"}, "object"),
        ("remember_fact", {"subject": "Ada", "predicate": "is", "object": 3}, "object"),
        ("remember_fact", {"subject": "Ada", "predicate": "is", "object": "x", "id": " "}, "id"),
        ("remember_fact", {"subject": "Ada", "predicate": "is", "object": "x", "metadata": {"object": 1}}, "metadata"),
        ("remember_fact", {"subject": "Ada", "predicate": "is", "object": "x", "content": "y"}, "content"),
        ("remember_procedure", {"name": "n", "trigger": "t", "steps": []}, "steps"),
        ("remember_procedure", {"name": "n", "trigger": "t", "steps": "s"}, "steps"),
        ("remember_procedure", {"name": "n", "trigger": "t", "steps": ["s", " "]}, "steps"),
    ],
)  # fmt: skip
def test_a_wrong_param_is_invalid_by_its_field(shared: Daemon, method: str, params: dict[str, Any], field: str) -> None:
    assert refused(shared, "invalid", method, **params).extra["field"] == field


def test_a_value_over_256_kib_is_too_large(shared: Daemon) -> None:
    error = refused(shared, "too_large", "fact_set", key="k", value=["x" * (256 * 1024)])

    assert error.extra["field"] == "value"


def test_a_retry_sets_once_and_another_value_under_its_id_is_a_conflict(daemon: Daemon) -> None:
    params: dict[str, Any] = {"key": "k", "value": [1, None], "request_id": "r1"}
    first = ask(daemon, "fact_set", params)
    daemon.call("fact_set", key="k", value="changed since")

    assert ask(daemon, "fact_set", params) == first
    assert daemon.call("fact_get", key="k")["value"] == "changed since"
    assert refused(daemon, "conflict", "fact_set", **params | {"value": [1, 2]})
    both = at_once(daemon, *[("fact_delete", {"key": "k", "request_id": "r2"})] * 2)
    assert both == [{"deleted": True}, {"deleted": True}]


# -- as memories


def test_remember_fact_answers_as_remember_does_and_says_what_it_superseded(daemon: Daemon) -> None:
    rome = daemon.call("remember_fact", subject="Ada", predicate="lives in", object="Rome", functional=True)
    paris = daemon.call(
        "remember_fact", subject="ada", predicate="Lives in", object="Paris", functional=True, importance=0.9
    )
    again = daemon.call("remember_fact", subject="ada", predicate="Lives in", object="Paris", functional=True)

    assert rome == {
        "id": rome["id"], "created": True, "version": 1, "sensitivity": "personal", "redactions": {}, "superseded": [],
    }  # fmt: skip
    assert (paris["created"], paris["superseded"]) == (True, [rome["id"]])
    assert again == {**paris, "created": False, "superseded": []}
    assert daemon.call("get", id=paris["id"])["importance"] == 0.9
    shown = daemon.call("get", id=rome["id"])
    assert (shown["state"], shown["superseded_by"]) == ("superseded", paris["id"])
    assert daemon.call("list", where={"subject": "ada"})["memories"][0]["id"] == paris["id"]
    assert daemon.call("stats")["by_subtype"] == {"fact": 1}
    assert metric(daemon, 'dreamd_forgotten_total{reason="superseded"} 1.0')
    told = [
        (event.type, event.ids) for event in daemon.parts.events._ring if event.type in ("remembered", "superseded")
    ]
    assert told == [("remembered", (rome["id"],)), ("remembered", (paris["id"],)), ("superseded", (rome["id"],))]


def test_a_b_a_is_three_memories_two_of_them_superseded(daemon: Daemon) -> None:
    for city in ("Rome", "Paris", "Rome"):
        daemon.clock.advance(60)
        daemon.call("remember_fact", subject="Ada", predicate="lives in", object=city, functional=True)

    def cities(state: str) -> list[str]:
        listed = daemon.call("list", state=state, where={"predicate": "lives in"})["memories"]
        return sorted(one["metadata"]["object"] for one in listed)

    assert (cities("live"), cities("superseded")) == (["Rome"], ["Paris", "Rome"])
    daemon.restart()
    assert (cities("live"), cities("superseded")) == (["Rome"], ["Paris", "Rome"])


@pytest.mark.parametrize(
    ("method", "first", "second"),
    [
        ("remember_fact", {"subject": "Ada", "predicate": "is", "object": "ill"}, {"object": "well"}),
        ("remember_procedure", {"name": "Deploy", "trigger": "Friday", "steps": ["push"]}, {"steps": ["test", "push"]}),
    ],
)
def test_an_id_of_ones_own_makes_the_memory_and_edits_it_again(
    daemon: Daemon, method: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    made = daemon.call(method, id="mine", **first)
    edited = daemon.call(method, id="mine", **(first | second))

    assert (made["id"], made["created"], made["version"]) == ("mine", True, 1)
    assert (edited["id"], edited["created"], edited["version"]) == ("mine", False, 2)
    assert daemon.call("stats")["total"] == 1


def test_facts_said_at_once_leave_one_alive(daemon: Daemon) -> None:
    calls = [
        ("remember_fact", {"subject": "Ada", "predicate": "lives in", "object": f"city {n}", "functional": True})
        for n in range(6)
    ]

    answers = at_once(daemon, *calls)

    gone = [memory for one in answers for memory in one["superseded"]]
    assert len(set(gone)) == len(gone) == 5
    assert len(daemon.call("list")["memories"]) == 1


def test_no_caller_supersedes_what_it_may_not_see(daemon: Daemon) -> None:
    hidden = daemon.call(
        "remember_fact",
        subject="Ada",
        predicate="lives in",
        object="a safe house",
        functional=True,
        sensitivity="secret",
    )

    made = daemon.call(
        "remember_fact", subject="Ada", predicate="lives in", object="Rome", functional=True, clearance="personal"
    )

    assert (made["superseded"], made["sensitivity"]) == ([], "personal")
    assert daemon.call("get", id=hidden["id"])["state"] == "live"


def test_remember_procedure_edits_the_one_of_its_name_and_keeps_the_former_text(daemon: Daemon) -> None:
    first = daemon.call(
        "remember_procedure", name="Deploy", trigger="a release is tagged", steps=["push"], author="Ada"
    )
    second = daemon.call("remember_procedure", name="deploy", trigger="a release is tagged", steps=["test", "push"])

    assert (first["created"], second["created"], second["version"]) == (True, False, 2)
    assert first["id"] == second["id"]
    shown = daemon.call("get", id=first["id"])
    assert shown["content"] == "deploy\nWhen: a release is tagged\n1. test\n2. push"
    assert (shown["type"], shown["subtype"], shown["author"]) == ("procedural", "procedure", "Ada")
    assert [one["content"] for one in daemon.call("history", id=first["id"])["versions"]] == [
        "Deploy\nWhen: a release is tagged\n1. push"
    ]
    assert daemon.call("recall", query="how to deploy a release?", type="procedural")["hits"][0]["id"] == first["id"]
    assert daemon.call("list", where={"name": "deploy"})["memories"][0]["id"] == first["id"]


def test_c9_a_secret_in_fact_or_procedure_reaches_neither_store_nor_embedder(
    watched: Daemon, embedder: WatchedEmbedder
) -> None:
    made = watched.call("remember_fact", subject="the wifi", predicate="has the password", object="hunter2xyz!")
    taught = watched.call("remember_procedure", name="Log in", trigger="it asks", steps=["type password: hunter2xyz!"])

    assert made["redactions"] == {"password": 1}
    assert taught["redactions"] == {"password": 1}
    assert (made["sensitivity"], taught["sensitivity"]) == ("confidential", "confidential")
    shown = [watched.call("get", id=one["id"]) for one in (made, taught)]
    assert "hunter2xyz" not in str([shown, embedder.texts])
    assert shown[0]["metadata"]["object"] == "[REDACTED:password]"


def test_while_the_embedder_is_broken_nothing_is_stored_or_superseded(
    watched: Daemon, embedder: WatchedEmbedder
) -> None:
    rome = watched.call("remember_fact", subject="Ada", predicate="lives in", object="Rome", functional=True)
    embedder.broken = True

    refused(
        watched, "unavailable", "remember_fact", subject="Ada", predicate="lives in", object="Oslo", functional=True
    )
    refused(watched, "unavailable", "remember_procedure", name="n", trigger="t", steps=["s"])

    assert [one["id"] for one in watched.call("list")["memories"]] == [rome["id"]]


def test_a_retry_of_a_fact_gets_the_same_answer_without_text(daemon: Daemon) -> None:
    params = {"subject": "Ada", "predicate": "lives in", "object": "Rome", "functional": True, "request_id": "r1"}
    first = ask(daemon, "remember_fact", params)
    daemon.call("remember_fact", subject="Ada", predicate="lives in", object="Paris", functional=True)

    assert ask(daemon, "remember_fact", params) == first
    assert "Rome" not in str(first)
    assert [one["metadata"]["object"] for one in daemon.call("list")["memories"]] == ["Paris"]
