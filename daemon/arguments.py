"""From the words of a command line to the params of a verb, through an argparse parser made for that verb alone."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

from daemon.values import Inputs, value_of
from daemon.verbs import ALIASES, LOCAL, Param, UsageError, Verb, nearest

TIMEOUT: Final = 60.0  # seconds to wait for an answer where nothing else is asked for

_METAVARS: Final = {
    "text": "TEXT", "number": "X", "integer": "N", "time": "TIME", "path": "PATH", "object": "KEY=VALUE", "lines": "FILE",
    "json": "JSON",
}  # fmt: skip
_NOTES: Final = {
    "object": "or a JSON object; repeatable", "lines": "a file of JSON lines, - for standard input",
    "json": "what does not read as JSON is a text", "time": "such as now, -2h, +30d or 2026-05-04T09:30:00Z",
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
    given, words = parser.read(tokens)
    options = _options(given)
    if options.help:
        return {}, options
    for name in verb.positional:
        taken = words if verb.params[name].repeats else words[:1]
        words = words[len(taken) :]
        if taken:
            given[name] = [*given.get(name, []), *taken]
    if words:
        raise UsageError(f"{words[0]!r} is one word too many.", f"Quote a text of several words: {parser.usage}")
    params: dict[str, Any] = {}
    for name, param in verb.params.items():
        if name in given:
            params[name] = given[name][-1] if param.kind == "switch" else value_of(param, given[name], inputs)
        elif param.required:
            raise UsageError(f"{name.upper()} is missing.", f"Write: {parser.usage}")
    return params, options


def parse_options(tokens: Sequence[str]) -> Options:
    """The options of a command line without a verb. Raises UsageError."""
    parser = _Parser("dreamctl", "")
    _add_options(parser)
    parser.flag(parser, ["--version"], dest="=version", action="store_true")
    return _options(parser.read(tokens)[0])


def parser_of(verb: Verb) -> _Parser:
    """The parser of one verb, which also writes its help."""
    parser = _Parser(f"dreamctl {verb.name}", verb.about)
    for param in verb.params.values():
        if param.name in verb.positional:
            notes = [f"one of {', '.join(param.choices)}"] if param.choices else []
            parser.add_argument(f"<{param.name}>", nargs="*", metavar=param.name.upper(), help=_about(param, notes))
        _add_flags(parser, param, argparse.SUPPRESS if param.name in verb.positional else _about(param, []))
    _add_options(parser)
    words = [_usage(verb.params[name]) for name in verb.positional]
    needed = [param for param in verb.params.values() if param.required and param.name not in verb.positional]
    flags = [f"{param.flags[-1]} {param.name.upper()}" for param in needed]
    parser.usage = " ".join([parser.prog, *words, *flags, "[options]"])
    return parser


def overview(verbs: Mapping[str, Verb]) -> str:
    """The help of the whole program: every verb by its group, a line each."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for verb in verbs.values():
        groups.setdefault(verb.group, []).append((verb.name, verb.about))
    groups["short for"] = [(alias, " ".join(words)) for alias, words in ALIASES.items()]
    groups["without the daemon"] = list(LOCAL.items())
    width = max(len(name) for rows in groups.values() for name, _ in rows)
    about = "The command line of dreamd, the memory daemon. Without a verb it shows how the daemon is."
    lines = ["usage: dreamctl VERB [options]", "", about]
    for group, rows in groups.items():
        lines += ["", f"{group}:", *(f"  {name:<{width}}  {about}" for name, about in rows)]
    parser = _Parser("dreamctl", "")
    _add_options(parser)
    parser.usage = argparse.SUPPRESS
    notes = [
        "A text given as - is read from standard input; what follows -- is no flag.",
        "Exit codes: 0 done, 1 error, 2 usage, 3 the daemon is not running.",
        "More: dreamctl VERB --help",
    ]
    return "\n".join([*lines, "", parser.format_help().strip(), "", *notes, ""])


class _Parser(argparse.ArgumentParser):
    """Reads the flags; the words it only describes. It raises where argparse would leave the program."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog, description=description, allow_abbrev=False, add_help=False, formatter_class=_Formatter)
        self._takes_value: dict[str, bool] = {}

    def flag(self, group: Any, flags: Sequence[str], **options: Any) -> None:
        """Add a flag, absent from the outcome unless it is given, to a group of this parser."""
        action = group.add_argument(*flags, default=argparse.SUPPRESS, **options)
        self._takes_value |= dict.fromkeys(flags, action.nargs != 0)

    def read(self, tokens: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """What was given by flags, by destination, and the words between and after them. Raises UsageError."""
        flags, words = self._sorted(tokens)
        given = {name: value for name, value in vars(self.parse_args(flags)).items() if not name.startswith("<")}
        return given, words

    def _sorted(self, tokens: Sequence[str]) -> tuple[list[str], list[str]]:
        """Flags, spelt with dashes and each tied to its value, which may begin with a dash itself; and words."""
        flags: list[str] = []
        words: list[str] = []
        waiting = list(reversed(tokens))
        while waiting:
            word = waiting.pop()
            if word == "--":
                return flags, [*words, *reversed(waiting)]
            if not _is_flag(word):
                words.append(word)
                continue
            long = word.startswith("--")
            name, tie, value = word.partition("=") if long else (word[:2], "", word[2:])
            flag = name.replace("_", "-")
            if flag not in self._takes_value:
                known = f"{self.prog} --help" if long else "Put -- before a text that begins with a dash."
                raise UsageError(f"{self.prog} has no flag {name}.", nearest(flag, self._takes_value) or known)
            if self._takes_value[flag] and not (tie or value) and waiting and waiting[-1] not in self._takes_value:
                tie, value = "=" * long, waiting.pop()
            flags.append(flag + tie + value)
        return flags, words

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong."""
        raise UsageError(message[:1].upper() + message[1:] + ".", f"{self.prog} --help")


class _Formatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def _is_flag(word: str) -> bool:
    """Whether a word is meant as a flag: `-` is standard input, and `-5` and `- buy milk` are texts."""
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit() and " " not in word.partition("=")[0]


def _add_flags(parser: _Parser, param: Param, about: str) -> None:
    if param.kind == "switch":
        for flags, value in ((param.flags, True), ((param.opposite,), False)):
            shown = about if flags[-1] in param.offered else argparse.SUPPRESS
            parser.flag(parser, flags, dest=param.name, action="append_const", const=value, help=shown)
        return
    metavar = f"{{{','.join(param.choices)}}}" if param.choices else _METAVARS[param.kind]
    parser.flag(parser, param.flags, dest=param.name, action="append", metavar=metavar, help=about)


def _add_options(parser: _Parser) -> None:
    group = parser.add_argument_group("options of every verb")
    parser.flag(group, ["--json"], dest="=json", action="store_true", help="print the result as it is")
    parser.flag(
        group, ["--socket"], dest="=socket", metavar="PATH", help="where the daemon listens, else $DREAMD_SOCKET"
    )
    about = f"how long to wait for an answer (default {TIMEOUT:g}; long work: for ever)"
    parser.flag(group, ["--timeout"], dest="=timeout", metavar="SECONDS", type=_seconds, help=about)
    parser.flag(group, ["-h", "--help"], dest="=help", action="store_true", help="show this")


def _options(given: Mapping[str, Any]) -> Options:
    return Options(**{name[1:]: value for name, value in given.items() if name.startswith("=")})


def _about(param: Param, notes: list[str]) -> str:
    notes = [*notes, *([_NOTES[param.kind]] if param.kind in _NOTES else [])]
    if param.repeats:
        notes.append("repeatable")
    if param.default not in (None, "", [], {}, True, False):
        notes.append(f"default: {param.default}")
    about = f"Without it: {param.about}" if param.default is True else param.about
    return " ".join([about, *([f"({'; '.join(notes)})"] if notes else [])]).strip().replace("%", "%%")


def _usage(param: Param) -> str:
    name = param.name.upper() + (" ..." if param.repeats else "")
    return name if param.required or param.repeats else f"[{name}]"


def _seconds(word: str) -> float:
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{word!r} is no number of seconds above 0")
    return seconds
