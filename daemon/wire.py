"""What a method is on the wire: its params, its result, and the OpenAPI that both make.

The tables themselves are in `daemon.methods`, a file a group; each entry names everything about one method once.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema

from daemon import __version__
from storage.errors import KINDS, Invalid, NotFound, command
from storage.instants import parse_instant
from storage.model import EVERY_SCOPE, MAX_ID_CHARS


def _normal(value: Any) -> Any:
    """An id in NFC, as the store keeps it."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


Instant: TypeAlias = Annotated[
    float, BeforeValidator(parse_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Tier: TypeAlias = Literal["core", "long", "short"]
Heat: TypeAlias = Literal["hot", "warm", "cold"]
Sensitivity: TypeAlias = Literal["public", "personal", "confidential", "secret"]
Type: TypeAlias = Literal["semantic", "episodic", "procedural", "active"]
Source: TypeAlias = Literal["stated", "inferred", "learned"]
Id: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARS, description="A memory's id."), BeforeValidator(_normal)
]


class Params(BaseModel):
    """The params of a method: unknown ones are errors, nothing is converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class Cleared(Params):
    """Params of a method that names or reads memories."""

    clearance: Sensitivity = Field(default="secret", description="The highest sensitivity that the caller may see.")


class Writing(Cleared):
    """Params of a method that changes memories."""

    request_id: str | None = Field(default=None, max_length=128, description="Makes a retry safe for 24 hours.")


class Scoped(Cleared):
    """Params of a method that reads a scope."""

    scope: str = Field(
        default="default", description=f"Read this scope and those below it; {EVERY_SCOPE!r} = every scope."
    )


class Empty(Params):
    """No params."""


class Method(NamedTuple):
    """One method; `positional` params may stand without a flag on the command line.

    The handler of one that `streams` takes a third argument, which it calls with each progress, or None. One that `mends`
    is answered while the store is damaged, too. One that `leaves` is cancelled when its client is gone.
    """

    name: str
    group: str
    params: type[Params]
    result: Any  # a TypedDict
    handler: Callable[..., Awaitable[Mapping[str, Any]]]
    writes: bool
    about: str
    positional: tuple[str, ...] = ()
    streams: bool = False
    mends: bool = False
    leaves: bool = False


Methods: TypeAlias = Mapping[str, Method]


def validated(method: str, model: type[Params], params: Mapping[str, Any], *, within: str = "") -> Any:
    """The params as a model, or Invalid naming the first wrong field and what is allowed.

    `within` is the param that holds them, where they are not the method's own.
    """
    try:
        return model.model_validate(dict(params))
    except ValidationError as error:
        # A name that is spelt wrong comes first: it is why the right one is missing.
        faults = sorted(error.errors(include_url=False), key=lambda fault: fault["type"] != "extra_forbidden")
        first = [fault for fault in faults if fault["loc"][:1] == faults[0]["loc"][:1]]
        # What does not fit a union is told once for each member; the longest way leads to what was meant.
        raise _explained(method, model, max(first, key=lambda fault: len(fault["loc"])), within) from None


#: Where a word goes that is none of a param's.
_INSTEAD: Final = {"type": "A type of your own goes into `subtype`."}


def _explained(method: str, model: type[Params], fault: Any, within: str) -> Invalid:
    field, *inner = fault["loc"] or ("",)
    name = f"{within}.{field}" if within else str(field)
    hint = command(method, help=True)
    if fault["type"] == "extra_forbidden":
        return Invalid(f"Unknown param {name!r}.", hint=did_you_mean(field, model.model_fields) or hint, field=name)
    place = name + "".join(f"[{step}]" for step in inner if isinstance(step, int))
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "literal_error":
        words = re.findall(r"'([^']+)'", fault["ctx"]["expected"])
        message = f"it is one of {', '.join(words)}"
        near = did_you_mean(fault["input"], words) if isinstance(fault["input"], str) else ""
        hint = " ".join(filter(None, [near, _INSTEAD.get(field)])) or hint
    elif fault["type"] == "string_unicode":
        offset = next(i for i, character in enumerate(fault["input"]) if "\ud800" <= character <= "\udfff")
        message = f"it holds a lone surrogate at character {offset}"
    return Invalid(f"{place or 'params'}: {message[:1].lower()}{message[1:]}.", hint=hint, field=name)


def find(methods: Methods, name: str) -> Method:
    """The method of this name, or NotFound with the nearest one."""
    if name not in methods:
        raise NotFound(f"There is no method {name[:100]!r}.", hint=did_you_mean(name, methods) or "dreamctl --help")
    return methods[name]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the known word most like this one, or nothing."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"Did you mean {near[0]!r}?" if near else ""


def openapi(methods: Methods) -> dict[str, Any]:
    """The OpenAPI 3.1 document of every method; also what the command line is made of."""
    schemas: dict[str, Any] = {"Problem": _PROBLEM}
    paths: dict[str, Any] = {}
    for method in methods.values():
        body = _hoisted(method.params.model_json_schema(ref_template=_REF), schemas)
        result = _hoisted(TypeAdapter(method.result).json_schema(ref_template=_REF, mode="serialization"), schemas)
        paths[f"/v1/{method.name}"] = {
            "post": {
                "operationId": method.name, "tags": [method.group], "summary": method.about,
                "x-writes": method.writes, "x-positional": list(method.positional), "x-streams": method.streams,
                **({"x-leaves": True} if method.leaves else {}),
                "requestBody": {"content": {"application/json": {"schema": body}}},
                "responses": {
                    "200": {"description": "The result.", "content": {"application/json": {"schema": result}}},
                    "default": {
                        "description": "What went wrong, and the next command to run.",
                        "content": {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}},
                    },
                },
            }
        }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dreamd",
            "version": __version__,
            "description": "A memory daemon for AI agents, over a Unix socket.",
        },
        "servers": [{"url": "http://dreamd"}],
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }


_REF: Final = "#/components/schemas/{model}"
_PROBLEM: Final = {
    "type": "object",
    "description": "RFC 9457 problem details.",
    "required": ["type", "title", "status", "detail", "kind", "hint"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, to what."},
        "kind": {"type": "string", "enum": [kind.kind for kind in KINDS]},
        "hint": {"type": "string", "description": "The next command to run; never empty."},
        "field": {"type": "string", "description": "Of `invalid`: the param to mend."},
        "retry_after_s": {"type": "number", "description": "Of `unavailable`."},
        "error_id": {"type": "string", "description": "Of `internal`: also in the log."},
    },
}


def _hoisted(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    schemas |= schema.pop("$defs", {})
    return schema
