"""The filters that `recall` and `list` share, and the `Where` that they make."""

from __future__ import annotations

import unicodedata
from typing import Any, TypeAlias, TypeVar

from pydantic import Field

from daemon.wire import Heat, Instant, Scoped, Sensitivity, Share, Source, Tier, Type
from storage.errors import Invalid, TooLarge
from storage.model import EVERY_SCOPE
from storage.text import clean_metadata, clean_scope, clean_tags
from storage.where import Where, check_metadata_filter

T = TypeVar("T", bound=str)
OneOrMore: TypeAlias = T | list[T] | None


class Filters(Scoped):
    """Hard filters, before ranking; where a list is given, one of it must match."""

    tags: list[str] = Field(default=[], description="All of these tags.")
    tags_any: list[str] = Field(default=[], description="At least one of these tags.")
    type: OneOrMore[Type] = Field(default=None, description="Of this type.")
    subtype: OneOrMore[str] = Field(default=None, description="Of this subtype.")
    author: OneOrMore[str] = Field(default=None, description="Said by this author.")
    entity: str = Field(default="", description="Said by, or mentioning, this name.")
    tier: OneOrMore[Tier] = Field(default=None, description="Of this retention class.")
    heat: OneOrMore[Heat] = Field(default=None, description="Of this temperature.")
    source: OneOrMore[Source] = Field(default=None, description="Stated, inferred or learned.")
    pinned: bool | None = Field(default=None, description="Pinned, or not pinned.")
    sensitivity: OneOrMore[Sensitivity] = Field(default=None, description="Of exactly this level.")
    min_confidence: Share | None = Field(default=None, description="At least this sure.")
    since: Instant | None = Field(default=None, description="Happened (else created) at or after this time.")
    until: Instant | None = Field(default=None, description="Happened (else created) at or before this time.")
    where: dict[str, Any] = Field(
        default={}, description="On metadata: {key: value | {ne, gt, gte, lt, lte, in, exists}}."
    )

    def to_where(self, now: float, *, state: str = "live") -> Where:
        """The one filter that every leg, hop and list asks. Raises Invalid."""
        if self.since is not None and self.until is not None and self.since > self.until:
            hint = "Exchange since and until, or leave one of them out."
            raise Invalid("until lies before since.", hint=hint, field="until")
        wanted = _clean_where(self.where)
        return Where(
            now=now, scope=read_scope(self.scope), clearance=self.clearance, state=state, tags=clean_tags(self.tags),
            tags_any=clean_tags(self.tags_any), type=_words(self.type), subtype=tuple(map(str.lower, _words(self.subtype))),
            author=_words(self.author), entity=unicodedata.normalize("NFC", self.entity), tier=_words(self.tier),
            heat=_words(self.heat), source=_words(self.source), pinned=self.pinned, sensitivity=_words(self.sensitivity),
            min_confidence=self.min_confidence, since=self.since, until=self.until, metadata=wanted,
        )  # fmt: skip


def read_scope(scope: str) -> str:
    """A scope to read: `*` is every one."""
    return scope if scope == EVERY_SCOPE else clean_scope(scope)


def _clean_where(where: dict[str, Any]) -> dict[str, Any]:
    """A metadata filter with keys and texts as metadata is stored. Raises Invalid."""
    try:
        wanted = clean_metadata(where)
    except (Invalid, TooLarge) as error:
        hint = "Send {key: value}, or {key: {operator: value}}."
        raise Invalid(error.detail.replace("metadata", "where", 1), hint=hint, field="where") from None
    check_metadata_filter(wanted)
    return wanted


def _words(value: str | list[Any] | None) -> tuple[str, ...]:
    """One word or several as they are stored, in NFC."""
    words = [] if value is None else [value] if isinstance(value, str) else value
    return tuple(unicodedata.normalize("NFC", word) for word in words)
