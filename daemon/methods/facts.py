"""Methods for facts by key: set, get, list, delete. Writes need the exact scope; reads see the scopes below it too."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field
from typing_extensions import TypedDict

from daemon.methods.embedding import admitted
from daemon.methods.filters import read_scope
from daemon.parts import Parts
from daemon.wire import Method, Scoped, Writing
from storage.facts import Found, Listed
from storage.gate import Admitted
from storage.model import DEFAULT_SCOPE
from storage.text import clean_scope

Key = Annotated[str, Field(description="The fact's key, at most 256 characters.")]
ExactScope = Annotated[str, Field(description="The scope that it belongs to, spelt out, such as alice/coder.")]


class FactSetParams(Writing):
    """A value to keep under a key."""

    key: Key
    value: Any = Field(description="Its value: any JSON, at most 256 KiB and nested at most 16 deep.")
    scope: ExactScope = DEFAULT_SCOPE


class FactGetParams(Scoped):
    """A key to look up."""

    key: Key
    default: Any = Field(default=None, description="What to answer where there is none, instead of an error.")


class FactDeleteParams(Writing):
    """A key to remove."""

    key: Key
    scope: ExactScope = DEFAULT_SCOPE


class FactKept(TypedDict):
    """What was set, whether the key is new, and what was masked."""

    scope: str
    key: str
    created: bool
    redactions: dict[str, int]


class FactShape(TypedDict):
    """A value and the scope that holds it; `found` is false where it is the default."""

    key: str
    value: Any
    scope: str
    found: bool


class FactsListed(TypedDict):
    """By key what `fact_get` answers; and in `below`, by scope, the keys which it answers with `conflict`."""

    facts: dict[str, Any]
    below: dict[str, dict[str, Any]]


class FactDeleted(TypedDict):
    """It is gone."""

    deleted: bool


async def fact_set(parts: Parts, params: FactSetParams) -> FactKept:
    """Keep a value under a key."""
    kept = await admitted(parts, {"scope": params.scope, "fact": (params.key, params.value)})
    created = await parts.lane.run(_set, parts, kept, params.clearance)
    parts.meter.count_redactions(kept.redactions)
    scope, (key, _) = kept.fields["scope"], kept.fields["fact"]
    return {"scope": scope, "key": key, "created": created, "redactions": kept.redactions}


def _set(parts: Parts, kept: Admitted, clearance: str) -> bool:
    scope, (key, value) = kept.fields["scope"], kept.fields["fact"]
    floor = kept.fields.get("sensitivity_floor")
    return parts.stores.facts.write(scope, key, value, parts.clock.now(), clearance=clearance, floor=floor)


async def fact_get(parts: Parts, params: FactGetParams) -> FactShape:
    """The value of a key."""
    scope, key = read_scope(params.scope), await _key(parts, params.key)
    found = await parts.lane.run(_get, parts, params, scope, key)
    if found is None:
        return {"key": key, "value": params.default, "scope": scope, "found": False}
    return {"key": key, "value": found.value, "scope": found.scope, "found": True}


def _get(parts: Parts, params: FactGetParams, scope: str, key: str) -> Found | None:
    facts = parts.stores.facts
    found = facts.find(scope, key, clearance=params.clearance)
    if found is None and "default" not in params.model_fields_set:
        raise facts.missing(scope, key, clearance=params.clearance)
    return found


async def fact_list(parts: Parts, params: Scoped) -> FactsListed:
    """Every fact of a scope and of those below it."""
    listed = await parts.lane.run(_list, parts, read_scope(params.scope), params.clearance)
    return {"facts": listed.facts, "below": listed.below}


def _list(parts: Parts, scope: str, clearance: str) -> Listed:
    return parts.stores.facts.listed(scope, clearance=clearance)


async def fact_delete(parts: Parts, params: FactDeleteParams) -> FactDeleted:
    """Remove a key and its value."""
    scope, key = clean_scope(params.scope), await _key(parts, params.key)
    await parts.lane.run(_delete, parts, scope, key, params.clearance)
    return {"deleted": True}


def _delete(parts: Parts, scope: str, key: str, clearance: str) -> None:
    parts.stores.facts.delete(scope, key, clearance=clearance)


async def _key(parts: Parts, key: str) -> str:
    """A key to look for, with a secret in it masked, as such keys were once kept: it stands in the answer."""
    return str((await admitted(parts, {"key": key})).fields["key"])


METHODS: Final = (
    Method("fact_set", "facts", FactSetParams, FactKept, fact_set, True, "Keep a value under a key.", ("key", "value")),
    Method(
        "fact_get", "facts", FactGetParams, FactShape, fact_get, False,
        "Look a key up in a scope, else in the one below it.", ("key",),
    ),
    Method(
        "fact_list", "facts", Scoped, FactsListed, fact_list, False,
        "List the facts of a scope and of those below it.",
    ),
    Method("fact_delete", "facts", FactDeleteParams, FactDeleted, fact_delete, True, "Remove a key.", ("key",)),
)  # fmt: skip
