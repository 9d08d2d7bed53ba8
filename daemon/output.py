"""Results as a person reads them. Here is what shows memories, and whatever has no better way to be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from daemon import briefings, forecasts, notes, reports, transfers
from daemon.briefings import ELSEWHERE
from daemon.terminal import Screen, ago, clip, fields, harmless, table, wrap

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_USUAL: Final = {"tier": "short", "heat": "warm", "scope": "default", "state": "live"}
_BODY: Final = ("content", "context")  # shown as text, not beside their names
SHORT: Final = 600  # characters of a memory in a list


def render(method: str, result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """The lines that show a method's result; nothing in them but our own styles commands the terminal."""
    return RENDERERS.get(method, anything)(harmless(result), screen)


def anything(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Any result: what is plain beside its name, what is a list of objects as a table."""
    tables = {name: value for name, value in result.items() if value and _is_rows(value)}
    yield from fields(screen, [(name, cell(value, screen)) for name, value in result.items() if name not in tables])
    for name, rows in tables.items():
        if len(result) > 1:
            yield from ("", screen.bold(name.replace("_", " ")))
        keys = list(dict.fromkeys(key for row in rows for key in row))
        titles = [key.replace("_", " ").upper() for key in keys]
        yield from table(screen, titles, [[cell(row.get(key), screen) for key in keys] for row in rows])
    if not any(value or value == 0 for value in result.values()):
        yield screen.dim("Nothing.")


def cell(value: Any, screen: Screen) -> str:
    """Any JSON value in one line; an instant as its distance from now."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
        case str():
            return ago(value, screen.now) if _INSTANT.fullmatch(value) else value
        case dict() if not any(isinstance(item, dict | list) for item in value.values()):
            return ", ".join(f"{key} {cell(item, screen)}" for key, item in value.items())
        case list() if not any(isinstance(item, dict | list) for item in value):
            return ", ".join(cell(item, screen) for item in value)
    return json.dumps(value, ensure_ascii=False)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _recalled(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    for rank, hit in enumerate(result["hits"], 1):
        head = f"{rank:>2}  {hit['score']:5.2f}  "
        indent = " " * len(head)
        first, *rest = wrap(shortened(_said(hit)), screen, indent)
        yield screen.bold(head) + first[len(head) :]
        yield from rest
        yield from _about(hit, screen, indent)
        if "why" in hit:
            yield from (screen.dim(line) for line in wrap(_why(hit["why"]), screen, indent))
    if not result["hits"]:
        yield f"Nothing found in this scope. {ELSEWHERE}"
    if "degraded" in result:
        yield screen.yellow(f"Degraded: {result['degraded']}. See: dreamctl health")


def shortened(text: str) -> str:
    """What a list of memories shows of a long one; `get` shows all of it."""
    return (
        text if len(text) <= SHORT else f"{text[:SHORT].rstrip()}… ({len(text):,} characters; dreamctl get shows them)"
    )


def _said(memory: Mapping[str, Any]) -> str:
    return f"{memory['author']}: {memory['content']}" if memory.get("author") else str(memory["content"])


def _about(memory: Mapping[str, Any], screen: Screen, indent: str) -> Iterator[str]:
    """Id, age and tags, and whatever about a memory is not as usual."""
    happened = memory.get("event_at") or memory["created_at"]
    unusual = [str(memory[name]) for name, usual in _USUAL.items() if memory[name] != usual]
    pinned = ["pinned"] if memory["pinned"] else []
    parts = [memory["id"], ago(happened, screen.now), *pinned, *unusual, *(f"#{tag}" for tag in memory["tags"])]
    yield from (screen.dim(line) for line in wrap("  ".join(parts), screen, indent))


def _why(why: Mapping[str, Any]) -> str:
    terms = [f"{name} {value:.2f}" for name, value in why.items() if isinstance(value, int | float) and round(value, 2)]
    return "  ".join([*terms, f"by {why['path']}"])


def _list(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    scopes = ["SCOPE"] if len({one["scope"] for one in result["memories"]}) > 1 else []
    rows = [
        [
            one["id"],
            ago(one["created_at"], screen.now),
            one["tier"],
            *(one["scope"] for _ in scopes),
            shortened(_said(one)),
        ]
        for one in result["memories"]
    ]
    if not rows:
        yield "No memories."
        return
    yield from table(screen, ["ID", "AGE", "TIER", *scopes, "CONTENT"], rows)
    if result["cursor"]:
        yield screen.dim(f"More: the same with --cursor {result['cursor']}")


def _memory(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    yield from wrap(result["content"], screen, "")
    yield ""
    told = {name: value for name, value in result.items() if name not in _BODY and value not in (False, [], {})}
    yield from fields(screen, [(name, _dated(value, screen)) for name, value in told.items()])
    if result.get("context"):
        yield from ("", screen.bold("context"), *wrap(result["context"], screen, "  "))


def _changed(said: str) -> Callable[[Mapping[str, Any], Screen], Iterator[str]]:
    """A way to show a memory of which one thing changed: what that was, then the text; `get` shows the rest."""

    def lines(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
        if result.get("changed") is False:
            yield f"Nothing changed: {result.get('note', '')}".rstrip(": ")
        else:
            done, colon, told = said.format_map(result).partition(": ")
            yield screen.green(done) + colon + told
        yield from wrap(result["content"], screen, "  ")
        yield from reports.way_back(result, screen)

    return lines


def _updated(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """The new version, and what the gate did to it."""
    yield from _changed("Updated: {id}, version {version}, {sensitivity}")(result, screen)
    if result["redactions"]:
        yield screen.yellow(f"Redacted: {cell(result['redactions'], screen)}")


def _connected(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    label = f", {result['label']}" if result["label"] else ""
    about = f"{result['kind']}, {result['weight']:.1f}{label}"
    yield f"{screen.green('Joined')} {result['a']} and {result['b']}: {about}"


def _disconnected(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    yield f"{screen.green('Parted')} {result['a']} and {result['b']}."


def _dated(value: Any, screen: Screen) -> str:
    """A cell, but an instant both ways."""
    shown = cell(value, screen)
    return f"{shown}, {value}" if isinstance(value, str) and value != shown else shown


def _history(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    for version in result["versions"]:
        summary = f": {version['change_summary']}" if version["change_summary"] else ""
        until = ago(version["replaced_at"], screen.now)
        yield f"{screen.bold('version ' + str(version['version']))}, until {until}{summary}"
        yield from wrap(version["content"], screen, "  ")
    if not result["versions"]:
        yield "It was never edited."


def _fading(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    for memory in result["memories"]:
        head = f"{ago(memory['forgotten_at'], screen.now):>8}  "
        yield screen.yellow(head) + clip(shortened(memory["content"]), max((screen.width or SHORT) - len(head), 1))
        told = f"{memory['id']}  retention {memory['retention']:.2f}  saved by {memory['saved_by']}"
        yield from (screen.dim(line) for line in wrap(told, screen, " " * len(head)))
    if not result["memories"]:
        yield "Nothing fades that soon. Look further ahead with --days."


def _remembered(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    if "id" not in result:
        yield from anything(result, screen)
        return
    done = "Remembered" if result["created"] else "Back from the bin" if result.get("restored") else "Known already"
    version = f"  version {result['version']}" if result["version"] > 1 else ""
    yield f"{screen.green(done)}: {result['id']}  {screen.dim(result['sensitivity'] + version)}"
    yield from (f"{screen.yellow('Superseded')}: {one}" for one in result.get("superseded", ()))
    if result["redactions"]:
        yield screen.yellow(f"Redacted: {cell(result['redactions'], screen)}")


def _remembered_many(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    known = len(result["results"]) - result["created"] - result["failed"]
    yield f"{screen.green('Remembered')} {result['created']} new, {known} known, {result['failed']} failed."
    for number, item in enumerate(result["results"], 1):
        if "kind" in item:
            yield screen.red(f"item {number}: {item['detail']}") + f" {item['hint']}"


def _entities(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    if not result["entities"]:
        yield f"No names in this scope. {ELSEWHERE}"
        return
    rows = [
        [one["name"], str(one["count"]), ", ".join(f"{other['name']} {other['count']}" for other in one["related"])]
        for one in result["entities"]
    ]
    yield from table(screen, ["NAME", ">MEMORIES", "TOGETHER WITH"], rows)


def _session(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What a session became."""
    count = f"{result['turns']} {'turn' if result['turns'] == 1 else 'turns'}"
    if result["memory"] is None:
        yield f"{count}."
        return
    yield (
        f"{count} {screen.green('remembered')} as {result['memory']}"
        if result["turns"]
        else (f"No turn since it was remembered as {result['memory']}")
    )


def _cleared(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    yield f"{screen.green('Removed')} {transfers.number('turn', result['turns'])}."


def _turn(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    yield f"{screen.green('Kept:')} {result['turn']}  {result['tokens']} tokens"


def _stated(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    former = "the former one is in the archive" if result["archived"] else "the first of its scope"
    yield f"{screen.green('Written')} for {result['scope']}; {former}."


RENDERERS: Final[Mapping[str, Callable[[Mapping[str, Any], Screen], Iterator[str]]]] = {
    "recall": _recalled, "recall_multi": _recalled, "list": _list, "history": _history, "fading": _fading,
    **dict.fromkeys(("remember", "remember_fact", "remember_procedure"), _remembered),
    "remember_many": _remembered_many, "forget": reports.forgotten,
    "forget_where": reports.by_rule, "forget_scope": reports.scope,
    "get": _memory, "update": _updated, "restore": _changed("Restored: {id}"),
    "revert": _changed("Reverted: {id}, version {version}"), "merge": _changed("Merged into {id}, version {version}."),
    "pin": _changed("Pinned: {id}"), "unpin": _changed("No longer pinned: {id}"),
    "set_emotion": _changed("Emotion {emotion:.2g}: {id}"), "set_tier": _changed("Tier {tier}: {id}"),
    **dict.fromkeys(("promote_heat", "demote_heat"), _changed("Heat {heat}: {id}")),
    "connect": _connected, "disconnect": _disconnected,
    "comment": notes.commented, "comments": notes.comments, "mark_comments_read": notes.marked,
    "fact_set": notes.kept, "fact_get": notes.fact, "fact_list": notes.facts,
    "entities": _entities, "add_turn": _turn, "end_session": _session, "clear_session": _cleared,
    "write_session_state": _stated,
    "wakeup": briefings.wakeup, "context": briefings.context, "read_session_state": briefings.state,
    "run_job": reports.run, "runs": reports.runs, "jobs": reports.jobs, "undo": reports.undone, "health": reports.health,
    **dict.fromkeys(("pause_jobs", "resume_jobs"), reports.held), "simulate": forecasts.simulated,
    "snapshot": transfers.snapshot, "restore_snapshot": transfers.snapshot_restored,
    "backup": transfers.backed_up, "reindex": transfers.reindexed,
    "export": transfers.exported, "import": transfers.imported,
}  # fmt: skip
