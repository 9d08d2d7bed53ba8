"""The one filter: every leg, every hop and every list asks it, so that nothing is shown by one way and hidden by another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from storage.engine import Condition
from storage.errors import Invalid
from storage.model import EVERY_SCOPE, SENSITIVITIES, Memory, cleared, covers

OPERATORS: Final = ("ne", "gt", "gte", "lt", "lte", "in", "exists")

Words = tuple[str, ...]  # empty = any


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A conjunction; what is empty or None does not restrict. Live memories past `expires_at` are never admitted."""

    now: float
    scope: str = EVERY_SCOPE
    clearance: str = "secret"
    state: str = "live"
    tags: Words = ()
    tags_any: Words = ()
    type: Words = ()
    subtype: Words = ()
    author: Words = ()
    entity: str = ""
    tier: Words = ()
    heat: Words = ()
    source: Words = ()
    sensitivity: Words = ()
    pinned: bool | None = None
    min_confidence: float | None = None
    since: float | None = None
    until: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def admits(self, memory: Memory) -> bool:
        """Whether the caller may see this memory and asked for its like."""
        return (
            memory.state == self.state
            and (self.scope == EVERY_SCOPE or covers(self.scope, memory.scope))
            and visible(memory, self.clearance, self.now)
            and self._has_words(memory)
            and (self.pinned is None or memory.pinned == self.pinned)
            and (self.min_confidence is None or memory.confidence >= self.min_confidence)
            and (self.since is None or memory.happened_at >= self.since)
            and (self.until is None or memory.happened_at <= self.until)
            and all(_holds(memory.metadata, key, wanted) for key, wanted in self.metadata.items())
        )

    def condition(self) -> Condition:
        """The part of the filter that the engine has indexes for; the rest is `admits` alone."""
        levels = SENSITIVITIES[: SENSITIVITIES.index(self.clearance) + 1]
        return Condition(
            scope=None if self.scope == EVERY_SCOPE else self.scope,
            tags=self.tags,
            tags_any=self.tags_any,
            sensitivities=None if self.clearance == "secret" else levels,
        )

    @property
    def plain(self) -> bool:
        """Whether scope and clearance are all that restricts."""
        return self.indexed and not self.tags and not self.tags_any and self.state == "live"

    @property
    def indexed(self) -> bool:
        """Whether `condition` says it all, but for expiry."""
        beyond = (
            self.type,
            self.subtype,
            self.author,
            self.entity,
            self.tier,
            self.heat,
            self.source,
            self.sensitivity,
        )
        bounds = (self.pinned, self.min_confidence, self.since, self.until)
        return not any(beyond) and all(bound is None for bound in bounds) and not self.metadata

    def _has_words(self, memory: Memory) -> bool:
        return (
            (not self.tags or set(self.tags) <= set(memory.tags))
            and (not self.tags_any or bool(set(self.tags_any) & set(memory.tags)))
            and (not self.type or memory.type in self.type)
            and (not self.subtype or memory.subtype in self.subtype)
            and (not self.author or memory.author in self.author)
            and (not self.entity or _mentions(memory, self.entity))
            and (not self.tier or memory.tier in self.tier)
            and (not self.heat or memory.heat in self.heat)
            and (not self.source or memory.source in self.source)
            and (not self.sensitivity or memory.sensitivity in self.sensitivity)
        )


def visible(memory: Memory, clearance: str, now: float) -> bool:
    """Whether a caller may know of a memory, in whatever state it is; a live one past its end is there no more."""
    return (clearance == "secret" or cleared(memory.sensitivity, clearance)) and not (
        memory.expires_at is not None and memory.expires_at <= now and memory.state == "live"
    )


def check_metadata_filter(where: dict[str, Any]) -> None:
    """Refuse a metadata filter that restricts nothing, or has an operator or a bound that we do not have."""
    for key, wanted in where.items():
        if not isinstance(wanted, dict):
            continue
        field, hint = f"where.{key}", f"Use one or more of: {', '.join(OPERATORS)}."
        if not wanted:
            raise Invalid(f"The filter for metadata key {key!r} has no operator.", hint=hint, field=field)
        for operator, bound in wanted.items():
            if operator not in OPERATORS:
                raise Invalid(f"Unknown operator {operator!r} for metadata key {key!r}.", hint=hint, field=field)
            if operator == "in" and not isinstance(bound, list):
                raise Invalid(f"`in` for metadata key {key!r} takes a list.", hint='{"in": [..]}', field=field)
            if operator == "exists" and not isinstance(bound, bool):
                raise Invalid(
                    f"`exists` for metadata key {key!r} is true or false.", hint='{"exists": true}', field=field
                )


def _mentions(memory: Memory, entity: str) -> bool:
    low = entity.casefold()
    return memory.author.casefold() == low or any(name.casefold() == low for name in memory.entities)


def _holds(metadata: dict[str, Any], key: str, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return key in metadata and _same(metadata[key], wanted)
    return all(_compare(operator, key in metadata, metadata.get(key), bound) for operator, bound in wanted.items())


def _same(value: Any, wanted: Any) -> bool:
    """Equal as JSON is, at any depth: true is not 1."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(_same(value[key], wanted[key]) for key in value)
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_same, value, wanted))
    return isinstance(value, bool) == isinstance(wanted, bool) and bool(value == wanted)


def _compare(operator: str, there: bool, value: Any, bound: Any) -> bool:
    match operator:
        case "exists":
            return there is bound
        case "ne":
            return not (there and _same(value, bound))
        case "in":
            return there and any(_same(value, one) for one in bound)
    if not there or not _ordered_alike(value, bound):
        return False
    match operator:
        case "gt":
            return bool(value > bound)
        case "gte":
            return bool(value >= bound)
        case "lt":
            return bool(value < bound)
        case _:
            return bool(value <= bound)


def _ordered_alike(value: Any, bound: Any) -> bool:
    number = (int, float)
    if isinstance(value, bool) or isinstance(bound, bool):
        return False
    return (isinstance(value, number) and isinstance(bound, number)) or (
        isinstance(value, str) and isinstance(bound, str)
    )
