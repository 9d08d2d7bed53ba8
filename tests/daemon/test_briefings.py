"""What an agent reads, as a person sees it, three hours after THEN."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from daemon.output import render
from daemon.terminal import Screen
from tests.daemon.answers import ID, MEMORY, THEN

NOON = datetime.fromisoformat(THEN).timestamp() + 3 * 3600
STATE = {"text": "Written then.\n\nhalf way", "scope": "a", "written_at": THEN, "session": "s", "interval_s": None}
NOTHING: dict[str, Any] = {
    "pinned": [], "active": [], "recent": [], "high_emotion": [], "random_old": [], "unread_comments": [],
    "session_state": None, "timeline": [], "last_session": [], "tokens": 0, "left_out": {},
}  # fmt: skip
ITEM = {"kind": "turn", "id": "t", "role": "user", "priority": 7, "score": 1.0, "content": "hello", "tokens": 1}
CONTEXT = {"items": [], "tokens": 3, "max_tokens": 4096, "evicted": 0}


def shown(method: str, result: Mapping[str, Any]) -> list[str]:
    return list(render(method, result, Screen(None, colour=False, now=NOON)))


def test_wakeup_shows_each_section_that_has_something() -> None:
    comment = {
        "id": "c1", "memory": ID, "about": "Ada is allergic", "author": "bob", "content": "since when?", "created_at": THEN,
        "reply_to": None,
    }  # fmt: skip
    said = {"id": "t", "scope": "a", "session": "s", "role": "user", "content": "hello", "at": THEN}
    result = NOTHING | {
        "pinned": [MEMORY | {"author": "Ada"}], "recent": [MEMORY | {"truncated": True}], "unread_comments": [comment],
        "session_state": STATE, "timeline": ["2020-01-01T09:00:00Z a walk"], "last_session": [said], "tokens": 42,
    }  # fmt: skip

    assert shown("wakeup", result) == [
        "Pinned", f"  Ada: {MEMORY['content']}", f"  {ID}  3 h ago",
        "", "Session state", "  Written then.", "", "  half way",
        "", "Unread comments", "  bob: since when?", f"  c1  3 h ago  on {ID}: Ada is allergic",
        "", "Most recent", f"  {MEMORY['content']}… (cut to fit)", f"  {ID}  3 h ago",
        "", "Timeline", "  2020-01-01T09:00:00Z a walk",
        "", "Said last, in session s", "  user: hello",
        "", "42 tokens.",
    ]  # fmt: skip


def test_wakeup_names_the_scopes_where_there_are_several() -> None:
    other = MEMORY | {"id": "m2", "scope": "a/b"}

    assert shown("wakeup", NOTHING | {"pinned": [MEMORY], "recent": [other]})[:6] == [
        "Pinned", f"  {MEMORY['content']}", f"  {ID}  3 h ago  default", "",
        "Most recent", f"  {MEMORY['content']}",
    ]  # fmt: skip
    assert shown("wakeup", NOTHING | {"pinned": [other]})[2] == "  m2  3 h ago"


def test_wakeup_of_nothing_says_where_to_look() -> None:
    assert shown("wakeup", NOTHING) == ["Nothing yet in this scope. dreamctl stats --scope '*' counts every scope."]


def test_wakeup_says_what_there_was_no_room_for() -> None:
    assert shown("wakeup", NOTHING | {"left_out": {"recent": 2, "random_old": 1}}) == [
        "0 tokens.",
        "Left out: 2 of recent, 1 of random old. Give it more room: --max-tokens",
    ]


def test_context_shows_who_said_what_after_the_facts() -> None:
    fact = ITEM | {"kind": "fact", "content": "Ada likes tea"}
    del fact["role"]

    lines = shown(
        "context", CONTEXT | {"items": [fact, ITEM, ITEM | {"role": "tool", "truncated": True}], "evicted": 2}
    )

    assert lines == [
        "fact: Ada likes tea",
        "user: hello",
        "tool: hello… (cut to fit)",
        "3 of 4096 tokens, 2 turns left out.",
    ]


def test_an_empty_context_says_so_and_why_it_may_lack_facts() -> None:
    assert shown("context", CONTEXT | {"degraded": "keyword-only"}) == [
        "Nothing was said in this session, and nothing was recalled.",
        "3 of 4096 tokens.",
        "Degraded: keyword-only. See: dreamctl health",
    ]


def test_a_session_state_is_shown_with_the_size_of_its_archive() -> None:
    assert (
        shown("read_session_state", {**STATE, "archive": [STATE]})[-1]
        == "1 before it, the last one 3 h ago; --json shows them."
    )
    assert shown("read_session_state", {**STATE, "archive": []}) == ["Written then.", "", "half way"]
