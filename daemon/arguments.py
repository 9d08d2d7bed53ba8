"""From the words of a command line to the params of a verb, through an argparse parser made for that verb alone."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from daemon.values import Inputs, value_of
from daemon.verbs import Param, UsageError, Verb, nearest

TIMEOUT: Final = 60.0  # seconds to wait for an answer where nothing else is asked for

_METAVARS: Final = {
    "text": "TEXT", "number": "X", "integer": "N", "time": "TIME", "path": "PATH", "object": "KEY=VALUE", "lines": "FILE",
}  # fmt: skip
_NOTES: Final = {
    "object": "or a JSON object; repeatable", "lines": "a file of JSON lines, - for standard input",
    "time": "such as now, -2h, +30d or 2026-05-04T09:30:00Z",
}  # fmt: skip


class Options(NamedTuple):
    """What may be asked of every verb; a `timeout` of None was not asked for."""

    json: bool = False
    socket: str | None = None
    timeout: float | None = None
    help: bool = False
    version: bool = False


def split(tokens: Sequence[str]) -> tuple[str | None, list[str]]:
    """The verb, and every other token; the value of an option before the verb is not taken for it."""
    skip = False
    for index, token in enumerate(tokens):
        if not skip and not token.startswith("-"):
            return token, [*tokens[:index], *tokens[index + 1 :]]
        skip = not skip and token in ("--socket", "--timeout")
    return None, list(tokens)


def parse(verb: Verb, tokens: Sequence[str], inputs: Inputs) -> tuple[dict[str, Any], Options]:
    """The params that were given, as they go on the wire, and the options of every verb. Raises UsageError."""
    parser = parser_of(verb)
    given = parser.read(tokens)
    options = _options(given)
    if options.help:
        return {}, options
    params: dict[str, Any] = {}
    for name, param in verb.params.items():
        words = given.get(_slot(name)) or given.get(name)
        if words:
            params[name] = words[-1] if param.kind == "switch" else value_of(param, words, inputs)
        elif param.required:
            raise UsageError(f"{name.upper()} is missing.", f"{parser.usage}")
    return params, options


def parse_options(tokens: Sequence[str]) -> Options:
    """The options of a command line without a verb. Raises UsageError."""
    parser = _Parser("dreamctl", "")
    _add_options(parser)
    parser.flag(parser, ["--version"], dest="=version", action="store_true")
    return _options(parser.read(tokens))


def parser_of(verb: Verb) -> _Parser:
    """The parser of one verb, which also writes its help."""
    parser = _Parser(f"dreamctl {verb.name}", verb.about)
    words = parser.add_argument_group("arguments")
    for param in verb.params.values():
        positional = param.name in verb.positional
        if positional:
            about, name = _about(param), param.name.upper()
            words.add_argument(_slot(param.name), nargs="*" if param.repeats else "?", metavar=name, help=about, type=str)
        _add_flags(parser, param, argparse.SUPPRESS if positional else _about(param))
    _add_options(parser)
    parser.usage = " ".join([parser.prog, *(_usage(verb.params[name]) for name in verb.positional), "[options]"])
    return parser


class _Parser(argparse.ArgumentParser):
    """Knows which of its flags take a value, and raises where argparse would leave the program."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog, description=description, allow_abbrev=False, add_help=False)
        self._takes_value: dict[str, bool] = {}

    def flag(self, group: Any, flags: Sequence[str], **options: Any) -> None:
        """Add a flag, absent from the outcome unless it is given, to a group of this parser."""
        action = group.add_argument(*flags, default=argparse.SUPPRESS, **options)
        self._takes_value |= dict.fromkeys(flags, action.nargs != 0)

    def read(self, tokens: Sequence[str]) -> dict[str, Any]:
        """What was given, by destination; words and flags may be mixed. Raises UsageError."""
        given = vars(self.parse_intermixed_args(self._tidied(tokens)))
        return {name: [value] if isinstance(value, str) and name.startswith("<") else value for name, value in given.items()}

    def _tidied(self, tokens: Sequence[str]) -> list[str]:
        """The tokens as argparse reads them: dashes in flags, and values tied to their flags, for they may begin with one."""
        tidy: list[str] = []
        waiting = list(reversed(tokens))
        while waiting:
            token = waiting.pop()
            name, equals, value = token.partition("=")
            flag = name.replace("_", "-")
            if token == "--":
                return [*tidy, token, *reversed(waiting)]
            if not token.startswith("--") or " " in name:
                tidy.append(token)
                continue
            if flag not in self._takes_value:
                raise UsageError(f"{self.prog} has no flag {name}.", nearest(flag, self._takes_value) or f"{self.prog} --help")
            if self._takes_value[flag] and not equals and waiting and waiting[-1] not in self._takes_value:
                equals, value = "=", waiting.pop()
            tidy.append(flag + equals + value)
        return tidy

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong."""
        raise UsageError(message[:1].upper() + message[1:] + ".", f"{self.prog} --help")


def _slot(name: str) -> str:
    """Where a param goes that was given without its flag."""
    return f"<{name}>"


def _add_flags(parser: _Parser, param: Param, about: str) -> None:
    if param.kind == "switch":
        negative = [f"--no-{param.flags[-1].removeprefix('--')}"]
        for flags, value in ((param.flags, True), (negative, False)):
            shown = about if value is not (param.default is True) else argparse.SUPPRESS
            parser.flag(parser, flags, dest=param.name, action="append_const", const=value, help=shown)
        return
    metavar = f"{{{','.join(param.choices)}}}" if param.choices else _METAVARS[param.kind]
    parser.flag(parser, param.flags, dest=param.name, action="append", metavar=metavar, help=about)


def _add_options(parser: _Parser) -> None:
    group = parser.add_argument_group("options of every verb")
    parser.flag(group, ["--json"], dest="=json", action="store_true", help="print the result as it is")
    parser.flag(group, ["--socket"], dest="=socket", metavar="PATH", help="where the daemon listens, else $DREAMD_SOCKET")
    about = f"how long to wait for an answer (default {TIMEOUT:g}; long work: for ever)"
    parser.flag(group, ["--timeout"], dest="=timeout", metavar="SECONDS", type=_seconds, help=about)
    parser.flag(group, ["-h", "--help"], dest="=help", action="store_true", help="show this")


def _options(given: Mapping[str, Any]) -> Options:
    return Options(**{name[1:]: value for name, value in given.items() if name.startswith("=")})


def _about(param: Param) -> str:
    notes = [_NOTES[param.kind]] if param.kind in _NOTES else []
    if param.choices:
        notes.append(f"one of {', '.join(param.choices)}")
    if param.repeats:
        notes.append("repeatable")
    if param.kind == "switch" and param.default is True:
        notes.append("on unless switched off")
    elif param.default not in (None, "", [], {}, False):
        notes.append(f"default {param.default}")
    return " ".join([param.about, *([f"({'; '.join(notes)})"] if notes else [])]).strip().replace("%", "%%")


def _usage(param: Param) -> str:
    name = param.name.upper() + (" ..." if param.repeats else "")
    return name if param.required or param.repeats else f"[{name}]"


def _seconds(word: str) -> float:
    seconds = float(word)
    if not 0 < seconds < math.inf:
        raise ValueError
    return seconds
