"""Comments over the wire: who says what of which memory, what is unread, and what a retry or a lower clearance gets."""

from __future__ import annotations

from typing import Any

import pytest

from storage.gate import MAX_COMMENT_BYTES
from tests.daemon.methods.asking import ask, at_once, refused
from tests.harness import Daemon

SECRET = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def tea(daemon: Daemon) -> Daemon:
    daemon.remember("Ada likes tea", id="tea")
    return daemon


def said(daemon: Daemon, **params: Any) -> list[str]:
    return [one["content"] for one in daemon.call("comments", **params)["comments"]]


def test_a_comment_is_shown_whole_until_it_is_read_and_then_as_read(tea: Daemon) -> None:
    made = tea.call("comment", id="tea", content="Are you sure?", author="Grace")
    answer = tea.call("comment", id="tea", content="Yes.", reply_to=made["id"])
    tea.clock.advance(60)

    assert made == {"id": made["id"], "memory": "tea", "created_at": made["created_at"], "redactions": {}}
    assert "2026-01-01T00:00:00" < made["created_at"] < answer["created_at"] < "2026-01-01T00:00:01"
    asked = {
        "id": made["id"], "memory": "tea", "author": "Grace", "content": "Are you sure?", "reply_to": None,
        "created_at": made["created_at"], "read": False, "read_at": None,
    }  # fmt: skip
    answered = {
        "id": answer["id"], "memory": "tea", "author": "ai", "content": "Yes.", "reply_to": made["id"],
        "created_at": answer["created_at"], "read": True, "read_at": answer["created_at"],
    }  # fmt: skip
    assert tea.call("comments") == {"comments": [asked, answered], "unread": 1}
    assert tea.call("comments", id="tea", unread=True) == {"comments": [asked], "unread": 1}
    assert tea.call("mark_comments_read", ids=[made["id"], "nobody"]) == {"read": 1, "missing": ["nobody"]}
    assert tea.call("comments", unread=True) == {"comments": [], "unread": 0}
    read = asked | {"read": True, "read_at": "2026-01-01T00:01:00Z"}
    assert tea.call("comments", id="tea")["comments"] == [read, answered]


def test_comments_outlive_a_restart(tea: Daemon) -> None:
    made = tea.call("comment", id="tea", content="Are you sure?", author="Grace")
    tea.call("comment", id="tea", content="Yes.", reply_to=made["id"])
    before = tea.call("comments")

    tea.restart()

    assert tea.call("comments") == before


def test_a_comment_touches_nothing_of_its_memory_and_is_told_as_an_event(tea: Daemon) -> None:
    before = tea.call("get", id="tea")
    tea.clock.advance(60)

    made = tea.call("comment", id="tea", content="Are you sure?", author="Grace")
    tea.call("mark_comments_read", ids=[made["id"]])
    tea.call("comments")

    after = tea.call("get", id="tea")
    assert {**after, "retention": before["retention"]} == before
    told = tea.parts.events._ring[-1]
    assert (told.type, told.scope, told.ids) == ("commented", "default", ("tea",))


def test_c9_a_secret_in_a_comment_is_masked_counted_and_raises_it(tea: Daemon) -> None:
    made = tea.call("comment", id="tea", content=f"use {SECRET}", author=f"Grace {SECRET}")

    assert made["redactions"] == {"aws_access_key": 2}
    shown = tea.call("comments")["comments"][0]
    assert SECRET not in str(shown)
    assert shown["content"] == "use [REDACTED:aws_access_key]"
    assert said(tea, clearance="personal") == []
    assert tea.call("comments", clearance="personal")["unread"] == 0
    metrics = tea.run(tea.app.service.metrics(""))[0].decode()
    assert 'dreamd_redactions_total{kind="aws_access_key"} 2.0' in metrics


def test_a_comment_of_64_kib_is_kept_and_a_longer_one_refused(tea: Daemon) -> None:
    tea.call("comment", id="tea", content="é" * (MAX_COMMENT_BYTES // 2))

    error = refused(tea, "too_large", "comment", id="tea", content="é" * (MAX_COMMENT_BYTES // 2) + "x")
    assert (error.extra["field"], error.extra["limit_bytes"]) == ("content", MAX_COMMENT_BYTES)
    assert len(said(tea)) == 1


def test_c8_a_comment_is_kept_in_nfc(tea: Daemon) -> None:
    tea.call("comment", id="tea", content="cafe\u0301")

    assert said(tea) == ["café"]


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("comment", {"id": "tea"}, "content"), ("comment", {"id": "tea", "content": " "}, "content"),
        ("comment", {"id": "tea", "content": "a\0"}, "content"), ("comment", {"id": "tea", "content": 1}, "content"),
        ("comment", {"id": "tea", "content": "x", "author": " "}, "author"),
        ("comment", {"id": "tea", "content": "x", "reply_to": ""}, "reply_to"),
        ("comment", {"id": "tea", "content": "x", "replyto": "y"}, "replyto"),
        ("comments", {"unread": 1}, "unread"), ("comments", {"scope": "a//b"}, "scope"),
        ("mark_comments_read", {}, "ids"), ("mark_comments_read", {"ids": ["x"] * 1001}, "ids"),
    ],
)  # fmt: skip
def test_a_wrong_param_is_invalid_by_its_field(shared: Daemon, method: str, params: dict[str, Any], field: str) -> None:
    shared.remember("Ada likes tea", id="tea")

    assert refused(shared, "invalid", method, **params).extra["field"] == field
    assert shared.call("comments", scope="*")["comments"] == []


def test_nothing_is_said_of_what_is_not_there(shared: Daemon) -> None:
    for method, params in (("comment", {"content": "x"}), ("comments", {})):
        error = refused(shared, "not_found", method, id="nobody", **params)
        assert (error.detail, error.hint) == ("There is no memory 'nobody'.", "dreamctl list")
    error = refused(shared, "not_found", "mark_comments_read", ids=["nobody"])
    assert (error.detail, error.hint) == ("There is no comment 'nobody'.", "dreamctl comments --scope '*'")


@pytest.fixture
def guarded(daemon: Daemon) -> Daemon:
    """A public and a secret memory with a comment each, and a reply on the public one to the hidden comment."""
    daemon.remember("Ada likes tea", id="tea", sensitivity="public")
    daemon.remember("the tea vault", id="vault", sensitivity="secret")
    hidden = daemon.call("comment", id="vault", content="the code is long", author="Grace")["id"]
    daemon.call("comment", id="tea", content="as on the other one", author="Grace", reply_to=hidden)
    return daemon


def test_comments_on_a_hidden_memory_are_not_there_in_the_words_for_what_never_was(guarded: Daemon) -> None:
    everything = guarded.call("comments")
    hidden = everything["comments"][0]["id"]
    low = {"clearance": "confidential"}

    shown = guarded.call("comments", **low)
    assert [(one["memory"], one["reply_to"]) for one in shown["comments"]] == [("tea", None)]
    assert (shown["unread"], everything["unread"]) == (1, 2)
    assert everything["comments"][1]["reply_to"] == hidden
    for method, params in (("comment", {"content": "x"}), ("comments", {})):
        one = refused(guarded, "not_found", method, id="vault", **params, **low)
        other = refused(guarded, "not_found", method, id="void", **params, **low)
        assert (one.detail.replace("vault", "void"), one.hint, one.extra) == (other.detail, other.hint, other.extra)
    assert refused(guarded, "not_found", "mark_comments_read", ids=[hidden], **low)
    assert refused(guarded, "not_found", "comment", id="tea", content="x", reply_to=hidden, **low)
    asked = guarded.call("mark_comments_read", ids=[hidden, "nobody"], **low)
    assert asked == {"read": 0, "missing": [hidden, "nobody"]}
    assert guarded.call("comments")["unread"] == 2


def test_a_memory_that_rises_takes_its_comments_along(guarded: Daemon) -> None:
    guarded.call("update", id="tea", sensitivity="secret")

    assert said(guarded, clearance="confidential") == []


def test_a12_hard_forgetting_what_was_answered_leaves_the_answer(guarded: Daemon) -> None:
    guarded.call("forget", id="vault", hard=True)

    shown = guarded.call("comments")["comments"]
    assert [(one["memory"], one["reply_to"]) for one in shown] == [("tea", None)]
    guarded.restart()
    assert guarded.call("comments")["comments"] == shown


def test_a12_comments_go_to_the_survivor_of_a_merge_and_come_back_by_undo(guarded: Daemon) -> None:
    guarded.remember("Ada likes green tea", id="green")
    reply = guarded.call("comments", id="tea")["comments"][0]

    guarded.call("merge", survivor="green", duplicate="tea")

    assert guarded.call("comments", id="green")["comments"] == [reply | {"memory": "green"}]
    assert guarded.call("comments", id="tea")["comments"] == []
    run = next(one for one in guarded.call("runs")["runs"] if one["job"] == "merge")
    guarded.call("undo", run_id=run["run_id"])
    assert guarded.call("comments", id="tea")["comments"] == [reply]


def test_a_retry_says_it_once_and_its_answer_holds_no_text(tea: Daemon) -> None:
    params = {"id": "tea", "content": "Are you sure?", "author": "Grace", "request_id": "r1"}

    first, second = ask(tea, "comment", params), ask(tea, "comment", params)
    both = at_once(tea, *[("comment", {"id": "tea", "content": "twice", "request_id": "r2"})] * 2)

    assert first == second
    assert both[0] == both[1]
    assert said(tea) == ["Are you sure?", "twice"]
    assert "sure" not in str(first)
    marked = {"ids": [first["id"]], "request_id": "r3"}
    assert ask(tea, "mark_comments_read", marked) == ask(tea, "mark_comments_read", marked)
