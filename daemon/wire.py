"""What a method is on the wire: its params, its result, and the OpenAPI that both make.

The tables themselves are in `daemon.methods`, a file a group; each entry names everything about one method once.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema

from daemon import __version__
from daemon.parts import Parts
from storage.errors import KINDS, Invalid, NotFound
from storage.model import EVERY_SCOPE

EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC).timestamp()
LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC).timestamp()


def parse_instant(value: Any) -> Any:
    """Epoch seconds of an RFC 3339 time; a naive one is UTC."""
    if not isinstance(value, str):
        raise ValueError("a time is a string such as 2026-05-04T09:30:00Z")  # noqa: TRY004 - pydantic wants it
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("not an RFC 3339 time; write 2026-05-04T09:30:00Z") from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not EARLIEST <= seconds <= LATEST:
        raise ValueError("a time outside the years 1 to 9999")
    return seconds


def format_instant(seconds: float | None) -> str | None:
    """RFC 3339 with Z, in microseconds where there are any."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


Instant: TypeAlias = Annotated[
    float, BeforeValidator(parse_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Tier: TypeAlias = Literal["core", "long", "short"]
Heat: TypeAlias = Literal["hot", "warm", "cold"]
Sensitivity: TypeAlias = Literal["public", "personal", "confidential", "secret"]
Type: TypeAlias = Literal["semantic", "episodic", "procedural", "active"]
Source: TypeAlias = Literal["stated", "inferred", "learned"]
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=128, description="A memory's id.")]


class Params(BaseModel):
    """The params of a method: unknown ones are errors, nothing is converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class Cleared(Params):
    """Params of a method that names or reads memories."""

    clearance: Sensitivity = Field(default="secret", description="The highest sensitivity that the caller may see.")


class Scoped(Cleared):
    """Params of a method that reads a scope."""

    scope: str = Field(
        default="default", description=f"Read this scope and those below it; {EVERY_SCOPE!r} = every scope."
    )


class Empty(Params):
    """No params."""


class Method(NamedTuple):
    """One method; `positional` params may stand without a flag on the command line."""

    name: str
    group: str
    params: type[Params]
    result: Any  # a TypedDict
    handler: Callable[[Parts, Any], Awaitable[Mapping[str, Any]]]
    writes: bool
    about: str
    positional: tuple[str, ...] = ()
    streams: bool = False


Methods: TypeAlias = Mapping[str, Method]


def validated(model: type[Params], params: Mapping[str, Any]) -> Any:
    """The params as a model, or Invalid naming the first wrong field and what is allowed."""
    try:
        return model.model_validate(dict(params))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise Invalid(
                f"Unknown param {field!r}.",
                hint=_did_you_mean(field, model.model_fields) or "See: GET /v1/openapi.json",
                field=field,
            ) from None
        message = first["msg"].removeprefix("Value error, ")
        raise Invalid(
            f"{field or 'params'}: {message}.", hint=f"See the params of {field!r}: GET /v1/openapi.json", field=field
        ) from None


def find(methods: Methods, name: str) -> Method:
    """The method of this name, or NotFound with the nearest one."""
    if name not in methods:
        raise NotFound(f"There is no method {name!r}.", hint=_did_you_mean(name, methods) or "dreamctl --help")
    return methods[name]


def _did_you_mean(word: str, known: Any) -> str:
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
