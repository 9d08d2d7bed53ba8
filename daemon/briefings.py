"""How what an agent reads before it goes on is shown to a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from daemon.terminal import Screen, ago, wrap

#: Where to look when nothing is there: what was asked is not known here, so it must be true of any scope.
ELSEWHERE: Final = "dreamctl stats --scope '*' counts every scope."
_INDENT: Final = "  "
_SECTIONS: Final = ("pinned", "active", "recent", "high_emotion", "random_old")


def wakeup(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Each section that has something, and how much there was no room for."""
    scopes = len({memory["scope"] for name in _SECTIONS for memory in result[name]}) > 1
    sections = [
        _memories("Pinned", result["pinned"], screen, scopes=scopes),
        _memories("Live context", result["active"], screen, scopes=scopes),
        _section("Session state", [_text(one, "text", screen) for one in [result["session_state"]] if one], screen),
        _section("Unread comments", [_comment(one, screen) for one in result["unread_comments"]], screen),
        _memories("Most recent", result["recent"], screen, scopes=scopes),
        _memories("Strongly felt of late", result["high_emotion"], screen, scopes=scopes),
        _memories("From long ago", result["random_old"], screen, scopes=scopes),
        _section("Timeline", [wrap(line, screen, _INDENT) for line in result["timeline"]], screen),
        _said(result["last_session"], screen),
        _room(result, screen),
    ]
    told = [lines for lines in sections[:-1] if lines]
    if not told and not result["left_out"]:
        yield f"Nothing yet in this scope. {ELSEWHERE}"
        return
    for number, lines in enumerate([*told, sections[-1]]):
        yield from [""] * bool(number)
        yield from lines


def context(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Each item after what it is, and what it all takes."""
    for item in result["items"]:
        yield from _text(item, "content", screen, f"{item.get('role', item['kind'])}: ", "")
    if not result["items"]:
        yield "Nothing was said in this session, and nothing was recalled."
    count = result["evicted"]
    evicted = f", {count} {'turn' if count == 1 else 'turns'} left out" if count else ""
    yield screen.dim(f"{result['tokens']} of {result['max_tokens']} tokens{evicted}.")
    if "degraded" in result:
        yield screen.yellow(f"Degraded: {result['degraded']}. See: dreamctl health")


def state(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """A session state, and how many lie in its archive."""
    yield from wrap(result["text"], screen, "")
    if result["archive"]:
        last = ago(result["archive"][0]["written_at"], screen.now)
        yield from ("", screen.dim(f"{len(result['archive'])} before it, the last one {last}; --json shows them."))


def _section(title: str, parts: Sequence[Iterator[str]], screen: Screen) -> list[str]:
    return [screen.bold(title), *(line for lines in parts for line in lines)] if parts else []


def _memories(title: str, memories: Sequence[Mapping[str, Any]], screen: Screen, *, scopes: bool) -> list[str]:
    return _section(title, [_memory(memory, screen, scopes=scopes) for memory in memories], screen)


def _memory(memory: Mapping[str, Any], screen: Screen, *, scopes: bool) -> Iterator[str]:
    yield from _text(memory, "content", screen, f"{memory['author']}: " if memory["author"] else "")
    scope = [memory["scope"]] if scopes else []
    yield from _about("  ".join([memory["id"], ago(memory["created_at"], screen.now), *scope]), screen)


def _comment(comment: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    yield from _text(comment, "content", screen, f"{comment['author']}: ")
    about = f"{comment['id']}  {ago(comment['created_at'], screen.now)}  on {comment['memory']}: {comment['about']}"
    yield from _about(about, screen)


def _said(turns: Sequence[Mapping[str, Any]], screen: Screen) -> list[str]:
    title = f"Said last, in session {turns[-1]['session']}" if turns else ""
    return _section(title, [_text(turn, "content", screen, f"{turn['role']}: ") for turn in turns], screen)


def _room(result: Mapping[str, Any], screen: Screen) -> list[str]:
    lines = [screen.dim(f"{result['tokens']} tokens.")]
    if result["left_out"]:
        missing = ", ".join(f"{count} of {name.replace('_', ' ')}" for name, count in result["left_out"].items())
        lines.append(screen.yellow(f"Left out: {missing}. Give it more room: --max-tokens"))
    return lines


def _text(
    shown: Mapping[str, Any], name: str, screen: Screen, before: str = "", indent: str = _INDENT
) -> Iterator[str]:
    cut = "… (cut to fit)" if shown.get("truncated") else ""
    yield from wrap(f"{before}{shown[name]}{cut}", screen, indent)


def _about(text: str, screen: Screen) -> Iterator[str]:
    yield from (screen.dim(line) for line in wrap(text, screen, _INDENT))
