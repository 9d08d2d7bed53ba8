"""`dreamctl`: the daemon's methods as commands, for a person at a terminal and for scripts.

It imports the standard library alone, and each part only where a call needs it: most of what a call takes is starting Python.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from daemon import __version__
from daemon.verbs import ALIASES, UsageError, Verb, find, load

if TYPE_CHECKING:
    from daemon.arguments import Options
    from daemon.client import CallError, Client
    from daemon.plot import Picture
    from daemon.terminal import Screen

FAILED: Final = 1
USAGE: Final = 2
NOT_RUNNING: Final = 3
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it

_BATCH_ITEMS: Final = 1_000  # of remember_many in one call; the daemon takes 10,000 and 16 MiB
_BATCH_BYTES: Final = 4 * 2**20


def main(tokens: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 done, 1 error, 2 usage, 3 daemon not running, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    try:
        code = _run(list(sys.argv[1:] if tokens is None else tokens))
        sys.stdout.flush()
    except UsageError as error:
        _complain(error.detail, error.hint)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(tokens: list[str]) -> int:
    from daemon import arguments
    from daemon.clock import SystemClock
    from daemon.values import Inputs

    verbs = load()
    word, rest = arguments.split(tokens)
    if word == "help" and rest:
        word, rest = rest[0], ["--help"]
    if word is None or word == "help":
        options = arguments.parse_options(rest)
        if options.version:
            return _print([f"dreamctl {__version__}"])
        if options.help or word == "help":
            return _print([arguments.overview(verbs).rstrip()])
        return _call(verbs["health"], {}, options, SystemClock().now())
    if word == "completion":
        from daemon import completion

        if rest in (["-h"], ["--help"]):
            return _print([f"usage: dreamctl completion {'|'.join(completion.SHELLS)}"])
        return _print([completion.script(" ".join(rest), verbs).rstrip()])
    name, *given = ALIASES.get(word.replace("-", "_"), (word,))
    verb = find(verbs, name)
    now = SystemClock().now()
    params, options = arguments.parse(verb, [*given, *rest], Inputs(now, sys.stdin.buffer.read))
    if options.help:
        return _print([arguments.parser_of(verb).format_help().rstrip()])
    return _call(verb, params, options, now)


def _call(verb: Verb, params: dict[str, Any], options: Options, now: float) -> int:
    from daemon.arguments import TIMEOUT
    from daemon.client import CallError, Client, NotRunning, socket_path
    from daemon.output import render

    own = {name: params.pop(name) for name, param in verb.params.items() if name in params and not param.sent}
    with Client(socket_path(os.environ, options.socket), options.timeout or TIMEOUT) as client:
        try:
            picture = _picture(own)
            result = _result(client, verb, params, bounded=options.timeout is not None)
        except CallError as error:
            if isinstance(error, NotRunning) and verb.name == "restore_snapshot":
                error.hint = f"{error.hint}. Where it does not start: dreamd --restore-snapshot {params['name']}"
            return _failed(error, options)
    _print([_json(result)] if options.json else render(verb.name, result, _screen(now)))
    if picture is not None:
        return _drawn(picture, result, options)
    return FAILED if result.get("failed") or result.get("outcome") == "failed" else 0


def _result(client: Client, verb: Verb, params: dict[str, Any], *, bounded: bool) -> dict[str, Any]:
    """The result of one call, or of several where the params hold a file of items; long work tells how far it is."""
    items = next((name for name, param in verb.params.items() if param.kind == "lines" and name in params), None)
    if items is not None:
        return _in_batches(client, verb, params, items)
    if not verb.streams or bounded:
        return client.call(verb.name, **params)
    result: dict[str, Any] = {}
    try:
        for item in client.stream(verb.name, **params):
            if item.keys() == {"progress"}:
                progress = item["progress"]
                share = f" of {progress['total']}" if progress.get("total") else ""
                _draw(f"{progress.get('job', verb.name)}: {progress['done']}{share}")
            else:
                result = item
    except KeyboardInterrupt:
        _draw("")
        if not verb.leaves:
            _complain("Interrupted; what was begun goes on in the daemon.", "dreamctl runs")
        raise
    finally:
        _draw("")
    return result


def _picture(own: Mapping[str, Any]) -> Picture | None:
    """Where the result is to be drawn, if it is; what is in the way is told before the daemon works for a minute."""
    if "plot" not in own:
        return None
    from daemon.plot import Picture

    return Picture(own["plot"])


def _drawn(picture: Picture, result: Mapping[str, Any], options: Options) -> int:
    from daemon.client import CallError

    try:
        picture.draw(result)
    except CallError as error:
        _complain(error.detail, error.hint)
        return FAILED
    return 0 if options.json else _print([f"Drawn: {picture.path}"])


def _in_batches(client: Client, verb: Verb, params: dict[str, Any], name: str) -> dict[str, Any]:
    """The results of several calls as one: lists joined, counts added."""
    from daemon.client import CallError

    total: dict[str, Any] = {}
    done, items = 0, params[name]
    for number, batch in enumerate(_batches(items)):
        given = params | {name: batch}
        if number and "request_id" in params:
            given["request_id"] = f"{params['request_id']}/{number}"
        try:
            part = client.call(verb.name, **given)
        except CallError:
            _draw("")
            if done:
                _complain(f"The first {done} of {len(items)} items are done.", "It does no harm to send them again.")
            raise
        total = {key: total[key] + value for key, value in part.items()} if total else part
        done += len(batch)
        _draw(f"{verb.name}: {done} of {len(items)}")
    _draw("")
    return total


def _batches(items: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The items in order, a few at a time; no items are one empty batch."""
    batch: list[dict[str, Any]] = []
    size = 0
    for item in items:
        length = len(json.dumps(item))
        if batch and (len(batch) == _BATCH_ITEMS or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += length
    yield batch


def _draw(progress: str) -> None:
    """Show how far it is on a line of its own that the next one overwrites; only to a person."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(f"\r\x1b[K{progress}")
        sys.stderr.flush()


def _failed(error: CallError, options: Options) -> int:
    from daemon.client import NotRunning

    if options.json:
        _print([_json(error.body or {"kind": error.kind, "detail": error.detail, "hint": error.hint})])
    else:
        _complain(error.detail, error.hint)
    return NOT_RUNNING if isinstance(error, NotRunning) else FAILED


def _complain(detail: str, hint: str) -> None:
    from daemon.terminal import harmless

    print(f"dreamctl: {harmless(detail)}\n  {harmless(hint)}", file=sys.stderr)


def _print(lines: Iterable[str]) -> int:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _json(result: Mapping[str, Any]) -> str:
    from daemon.terminal import harmless_json

    return harmless_json(json.dumps(result, ensure_ascii=False, indent=2))


def _screen(now: float) -> Screen:
    from daemon.terminal import Screen

    tty = sys.stdout.isatty()
    colour = tty and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = int(named) if (named := os.environ.get("COLUMNS", "")).isdecimal() else 0
    if not width and tty:
        width = os.get_terminal_size(sys.stdout.fileno()).columns or 80
    return Screen(width or None, colour, now)


if __name__ == "__main__":
    sys.exit(main())
