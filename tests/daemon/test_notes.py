"""Comments and facts as lines of text, on a screen without a width and without colour."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from daemon.output import render
from daemon.terminal import Screen
from tests.daemon.answers import REMEMBERED, THEN

NOON = datetime.fromisoformat(THEN).timestamp() + 3 * 3600
COMMENT: dict[str, Any] = {
    "id": "c1", "memory": "tea", "author": "Grace", "content": "Are you sure?\nShe had coffee.", "reply_to": None,
    "created_at": THEN, "read": False, "read_at": None,
}  # fmt: skip


def shown(method: str, result: Mapping[str, Any], width: int | None = None) -> list[str]:
    return list(render(method, result, Screen(width, colour=False, now=NOON)))


def test_comments_show_who_said_what_of_which_memory_and_what_waits() -> None:
    answer = COMMENT | {"id": "c2", "author": "ai", "content": "Yes.", "reply_to": "c1", "read": True, "read_at": THEN}

    assert shown("comments", {"comments": [COMMENT, answer], "unread": 1}) == [
        "Grace  3 h ago  unread",
        "  Are you sure?",
        "  She had coffee.",
        "  c1  on tea",
        "ai  3 h ago",
        "  Yes.",
        "  c2  on tea  answers c1",
        "1 unread. Once read: dreamctl mark_comments_read ID ...",
    ]
    assert shown("comments", {"comments": [], "unread": 0}) == [
        "No comments. dreamctl stats --scope '*' counts every scope."
    ]


def test_what_was_said_and_read_is_told_in_a_line_each() -> None:
    made = {"id": "c1", "memory": "tea", "created_at": THEN, "redactions": {"password": 1}}

    assert shown("comment", made) == ["Commented: c1  on tea", "Redacted: password 1"]
    assert shown("mark_comments_read", {"read": 2, "missing": ["nobody"]}) == ["Read: 2", "Not there: nobody"]


def test_facts_are_a_table_and_what_has_no_one_value_stands_by_scope() -> None:
    listed = {"facts": {"editor": "vim", "limits": {"cpu": [2, None]}}, "below": {"a/b": {"theme": "dark"}}}

    assert shown("fact_list", listed) == [
        "KEY     VALUE",
        "editor  vim",
        'limits  {"cpu": [2, null]}',
        "in a/b",
        "KEY    VALUE",
        "theme  dark",
    ]
    assert shown("fact_list", {"facts": {}, "below": {}}) == [
        "No facts in this scope or below it. dreamctl stats --scope '*' counts every scope."
    ]
    assert shown("fact_list", {"facts": {"k": "x" * 500}, "below": {}}, 40)[1] == "k    " + "x" * 34 + "…"


@pytest.mark.parametrize(
    ("value", "lines"),
    [("vim", ["vim"]), (None, ["null"]), (True, ["true"]), ("", [""]), ({"a": 1}, ["{", '  "a": 1', "}"]), ("a\nb", ["a", "b"])],
)  # fmt: skip
def test_one_fact_is_its_value_alone(value: Any, lines: list[str]) -> None:
    assert shown("fact_get", {"key": "k", "value": value, "scope": "s", "found": True}) == lines


def test_a_fact_that_was_set_says_whether_it_is_new() -> None:
    kept = {"scope": "s", "key": "k", "created": True, "redactions": {}}

    assert shown("fact_set", kept) == ["Kept: k  s"]
    assert shown("fact_set", kept | {"created": False, "redactions": {"pin": 2}}) == [
        "Replaced: k  s",
        "Redacted: pin 2",
    ]


def test_a_remembered_fact_names_what_it_superseded_and_an_edit_its_version() -> None:
    lines = shown("remember_fact", REMEMBERED | {"superseded": ["m1", "m2"]})

    assert lines == [*shown("remember", REMEMBERED), "Superseded: m1", "Superseded: m2"]
    assert shown("remember_procedure", REMEMBERED | {"created": False, "version": 3})[0].endswith("  version 3")


def test_nothing_in_a_comment_or_a_fact_commands_the_terminal() -> None:
    bad = "\x1b[2Jx"
    lines = shown("comments", {"comments": [COMMENT | {"content": bad, "author": bad}], "unread": 0})
    lines += shown("fact_list", {"facts": {bad: [bad]}, "below": {bad: {bad: bad}}})
    lines += shown("fact_get", {"key": bad, "value": {bad: bad}, "scope": bad, "found": True})

    assert not any("\x1b" in line for line in lines)
