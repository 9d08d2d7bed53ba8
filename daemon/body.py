"""JSON as it crosses the wire: one object of params in, one compact object out.

The standard decoder is stricter here than by default: no NaN, no Infinity, no number that overflows to it, and no
nesting deep enough to hurt whoever walks the value later. No error quotes the body, because bodies hold memories.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from storage.errors import Invalid

MAX_DEPTH: Final = 64  # levels of lists and objects; metadata is the only nested thing a client has reason to send

_HINT: Final = 'Send one JSON object of params, such as {"query": "..."}; dreamctl does it for you.'


def parse_params(body: bytes) -> dict[str, Any]:
    """The object of params in a request's body; an empty body holds none. Of equal keys the last one counts."""
    if not body or body.isspace():
        return {}
    value = _decode(body)
    if not isinstance(value, dict):
        raise Invalid(f"The body is a JSON {_json_type(value)}, not an object.", hint=_HINT)
    _check_depth(value)
    return value


def encode(value: dict[str, Any]) -> bytes:
    r"""An object as compact UTF-8 JSON; a lone surrogate goes out as its \u escape. NaN is a ValueError."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def _decode(body: bytes) -> Any:
    try:
        return _DECODER.decode(body.decode())
    except UnicodeDecodeError as error:
        raise Invalid(f"The body is not UTF-8: byte {error.start} does not belong there.", hint=_HINT) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno} (character {error.pos})"
        raise Invalid(f"The body is not JSON: {error.msg} at {where}.", hint=_HINT) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # the interpreter's own limit on digits
        raise Invalid("A whole number in the body has too many digits.", hint="Send long numbers as strings.") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Invalid("A number in the body is too large for a float.", hint="Send numbers below 1.8e308.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise Invalid(f"The body is not JSON: it holds {name}.", hint="Send null, or leave the param out.")


_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)


def _check_depth(value: dict[str, Any]) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> Invalid:
    return Invalid(f"The body is nested deeper than {MAX_DEPTH} levels.", hint="Send flatter metadata.")


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    names = {list: "array", str: "string", bool: "boolean"}
    return names.get(type(value), "number")
