"""What a word of the command line means for a param: numbers, times from now, JSON, files and standard input."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from daemon.verbs import Param, UsageError, nearest

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}  # seconds
_AMOUNT: Final = r"(\d+(?:\.\d+)?)([smhdw])"


class Inputs(NamedTuple):
    """What a word may refer to: the instant now, and what stands on standard input."""

    now: float
    read_stdin: Callable[[], bytes]


def value_of(param: Param, words: Sequence[str], inputs: Inputs) -> Any:
    """The words that were given for a param as one JSON value; of several for a single value the last counts."""
    if param.kind == "object":
        return {key: value for word in words for key, value in _members(param, word).items()}
    if param.kind == "lines":
        return _objects_in(words[-1], inputs)
    if param.repeats:
        texts = [line for word in words for line in (_stdin(inputs).splitlines() if word == "-" else [word])]
        return [_single(param, text, inputs) for text in texts]
    return _single(param, words[-1], inputs)


def _single(param: Param, word: str, inputs: Inputs) -> Any:
    match param.kind:
        case "number" | "integer":
            return _number(param, word)
        case "time":
            return _instant(param, word, inputs.now)
        case "path":
            return str(Path(word).absolute())
        case "json":
            return _any(_stdin(inputs) if word == "-" else word)
        case "text" if word == "-":
            word = _stdin(inputs)
    if param.choices and word not in param.choices:
        hint = nearest(word, param.choices) or f"Choose from {', '.join(param.choices)}."
        raise UsageError(f"{param.name.upper()} cannot be {word!r}.", hint)
    return word


def _number(param: Param, word: str) -> float:
    try:
        value = int(word) if param.kind == "integer" else float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        kind = "a whole number" if param.kind == "integer" else "a number"
        raise UsageError(
            f"{param.name.upper()} is {kind}, not {word!r}.", f"Write {param.flags[-1]} {param.default or 1}"
        )
    return value


def _instant(param: Param, word: str, now: float) -> str:
    """RFC 3339 of `now`, `+30d` or `-1d12h`; anything else is the daemon's to read."""
    if word != "now" and not word.startswith(("+", "-")):
        return word
    if word != "now" and not re.fullmatch(f"[+-](?:{_AMOUNT})+", word):
        raise UsageError(f"{param.name.upper()} cannot be {word!r}.", "Write now, +30d, -2h or 2026-05-04T09:30:00Z.")
    distance = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_AMOUNT, word))
    try:
        moment = datetime.fromtimestamp(now + (-distance if word.startswith("-") else distance), UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{param.name.upper()} cannot be {word!r}.", "Keep within the years 1 to 9999.") from None
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _members(param: Param, word: str) -> dict[str, Any]:
    """A JSON object, or one member of it as KEY=VALUE, where what does not read as JSON is text."""
    key, equals, text = word.partition("=")
    if word.lstrip().startswith("{") or not equals:
        members = _object(word)
        if members is None:
            hint = f"""Write {param.flags[0]} KEY=VALUE or {param.flags[0]} '{{"key": 1}}'"""
            raise UsageError(f"{param.name.upper()} is not a JSON object.", hint)
        return members
    return {key: _any(text)}


def _objects_in(name: str, inputs: Inputs) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; blank lines are passed over."""
    try:
        text = _stdin(inputs) if name == "-" else Path(name).read_bytes().decode()
    except OSError as error:
        raise UsageError(f"Cannot read {name}: {error.strerror}.", "Name a file, or - for standard input.") from None
    except UnicodeDecodeError as error:
        raise _not_utf8(name, error) from None
    objects = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            item = _object(line)
            if item is None:
                raise UsageError(
                    f"Line {number} of {name} is not a JSON object.", 'Write one a line: {"content": "..."}'
                )
            objects.append(item)
    return objects


def _stdin(inputs: Inputs) -> str:
    """The text on standard input, without the newline that ends its last line."""
    try:
        return inputs.read_stdin().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise _not_utf8("Standard input", error) from None


def _not_utf8(name: str, error: UnicodeDecodeError) -> UsageError:
    return UsageError(f"{name} is not UTF-8 at byte {error.start}.", "Convert it: iconv -f LATIN1 -t UTF-8")


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = _json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _any(text: str) -> Any:
    """The JSON value that a word is, or the word where it is none."""
    try:
        return _json(text)
    except ValueError:
        return text


def _json(text: str) -> Any:
    """The value of a JSON text. Raises ValueError, also for NaN and the infinities, which JSON does not have."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
