"""How comments and facts are shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from daemon.briefings import ELSEWHERE
from daemon.terminal import Screen, ago, table, wrap


def comments(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Who said what of which memory, oldest first."""
    for one in result["comments"]:
        unread = [] if one["read"] else [screen.yellow("unread")]
        yield "  ".join([screen.bold(one["author"]), ago(one["created_at"], screen.now), *unread])
        yield from wrap(one["content"], screen, "  ")
        answers = [f"answers {one['reply_to']}"] if one["reply_to"] else []
        about = "  ".join([one["id"], f"on {one['memory']}", *answers])
        yield from (screen.dim(line) for line in wrap(about, screen, "  "))
    if not result["comments"]:
        yield f"No comments. {ELSEWHERE}"
    if result["unread"]:
        yield screen.dim(f"{result['unread']} unread. Once read: dreamctl mark_comments_read ID ...")


def commented(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """The comment that was made."""
    yield f"{screen.green('Commented')}: {result['id']}  {screen.dim('on ' + result['memory'])}"
    yield from _redacted(result, screen)


def marked(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """How many are read, and which are not there."""
    yield f"{screen.green('Read')}: {result['read']}"
    yield from (f"{screen.yellow('Not there')}: {one}" for one in result["missing"])


def fact(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """The value alone: a text as it is, all else as JSON."""
    value = result["value"]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    yield from wrap(text, screen, "")


def facts(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Keys and values; then, scope by scope, those which no single value can be told of."""
    if result["facts"]:
        yield from _table(result["facts"], screen)
    for scope, held in result["below"].items():
        yield screen.bold(f"in {scope}")
        yield from _table(held, screen)
    if not result["facts"] and not result["below"]:
        yield f"No facts in this scope or below it. {ELSEWHERE}"


def kept(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """The fact that was set."""
    done = "Kept" if result["created"] else "Replaced"
    yield f"{screen.green(done)}: {result['key']}  {screen.dim(result['scope'])}"
    yield from _redacted(result, screen)


def _table(held: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    return table(screen, ["KEY", "VALUE"], [[key, _line(value)] for key, value in held.items()])


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _redacted(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    if result["redactions"]:
        counts = ", ".join(f"{kind} {count}" for kind, count in result["redactions"].items())
        yield screen.yellow(f"Redacted: {counts}")
