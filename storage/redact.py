"""Secrets out of every text that is kept or sent: found by shape, by label and by checksum, masked as `[REDACTED:kind]`.

Pure. What is masked stays masked: a redacted text passes through unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from storage import redact_labels, redact_numbers, redact_shapes
from storage.errors import Invalid
from storage.redact_shapes import Span

#: Every kind that this module finds by itself.
KINDS: Final = redact_shapes.KINDS | redact_labels.KINDS | redact_numbers.KINDS

#: How every mask begins.
MASK: Final = "[REDACTED:"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class Redacted(NamedTuple):
    """A text without its secrets, how many of each kind there were, and the sensitivity it rises to, if any did."""

    text: str
    hits: dict[str, int]
    raises_to: str | None


class Redactor:
    """Masks secrets; `own` are the owner's patterns by name, which come before the built-in ones.

    A group named `value` limits a pattern's mask to it. Raises Invalid for a pattern or a name that cannot be used.
    """

    def __init__(self, own: Mapping[str, str] = {}) -> None:
        self.kinds = KINDS | own.keys()
        self._own = [(name, _own_pattern(name, pattern)) for name, pattern in own.items()]
        kinds = "|".join(map(re.escape, sorted(self.kinds, key=len, reverse=True)))
        self._marker = re.compile(rf"\[REDACTED:(?:{kinds})\]", re.IGNORECASE)

    def redact(self, text: str) -> Redacted:
        """Mask every secret in a text. Where secrets overlap, one mask covers all, named by the first rule that found one."""
        masked, hits = self._mask(text)
        return Redacted(masked, hits, raised_by(hits))

    def redact_parts(self, parts: Sequence[str]) -> tuple[list[str], dict[str, int]]:
        """Mask every secret in a text that is told in parts: what one part says of the next, as a label does, counts too."""
        hits: Counter[str] = Counter()
        masked = list(parts)
        while spans := list(self._secrets("".join(masked), "")):
            hits.update(span.kind for span in spans)
            ends = list(accumulate(map(len, masked)))
            masked = [
                _masked(part, _within(spans, end - len(part), end)) for part, end in zip(masked, ends, strict=True)
            ]
        return masked, dict(hits)

    def redact_json(self, value: Any) -> tuple[Any, dict[str, int]]:
        """Mask the secrets in nested JSON: in strings and keys, in whole numbers, and in what stands beside a telling key."""
        hits: Counter[str] = Counter()
        return self._json("", value, hits), dict(hits)

    def _json(self, key: str, value: Any, hits: Counter[str]) -> Any:
        match value:
            case dict():
                return self._object(key, value, hits)
            case list():
                return [self._json(key, inner, hits) for inner in value]
            case bool() | float() | None:
                return value
        shown, found = self._mask(str(value), key)
        hits.update(found)
        return shown if found else value

    def _object(self, key: str, members: dict[str, Any], hits: Counter[str]) -> dict[str, Any]:
        """Mask in keys and values; a member `value` belongs to what `name` or `key` beside it says, else to the outer key."""
        named = members.get("name", members.get("key", key))
        owner = self._mask(named)[0] if isinstance(named, str) else key
        masked: dict[str, Any] = {}
        for name, inner in members.items():
            shown, found = self._mask(name)
            shown = _vacant(shown, masked)
            hits.update(found)
            # The label is the masked key, so that a second pass sees the same.
            masked[shown] = self._json(owner if name == "value" else shown, inner, hits)
        return masked

    def _mask(self, text: str, key: str = "") -> tuple[str, dict[str, int]]:
        """Mask what is secret in a text, the value of `key` if it has one, until nothing is: each round leaves less to find."""
        hits: Counter[str] = Counter()
        while spans := list(self._secrets(text, key)):
            hits.update(span.kind for span in spans)
            text = _masked(text, spans)
        return text, dict(hits)

    def _secrets(self, text: str, key: str) -> Iterator[Span]:
        """The stretches to mask, in order and apart."""
        quote = next((mark for mark in "\"'`" if mark not in text), "")
        before, after = (f"{key}={quote}", quote) if key else ("", "")
        found = list(self._found(before + text + after))
        if not found:
            return
        left, right = len(before), len(before) + len(text)
        clipped = [(max(s.start, left) - left, min(s.end, right) - left, rank, s.kind) for rank, s in enumerate(found)]
        merged: list[tuple[int, int, int, str]] = []
        for start, end, rank, kind in sorted(span for span in clipped if span[0] < span[1]):
            if merged and start < merged[-1][1]:
                begun, reached, *_ = merged[-1]
                merged[-1] = (begun, max(reached, end), *min(merged[-1][2:], (rank, kind)))
            else:
                merged.append((start, end, rank, kind))
        markers = [match.span() for match in self._marker.finditer(text)] if "[" in text else []
        yield from _unmasked((Span(start, end, kind) for start, end, _, kind in merged), markers)

    def _found(self, text: str) -> Iterator[Span]:
        for name, pattern in self._own:
            group = "value" if "value" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                yield Span(*match.span(group), name)
        folded = text.replace("İ", "I").lower()  # the one letter whose lower case is longer: offsets must agree
        yield from redact_shapes.find(text, folded)
        yield from redact_labels.find(text, folded)
        yield from redact_numbers.find(text, folded)


def raised_by(hits: Mapping[str, int]) -> str | None:
    """The sensitivity that a text rises to for what was masked in it; the owner's own patterns raise none."""
    return "confidential" if KINDS & hits.keys() else None


def _masked(text: str, spans: Iterable[Span]) -> str:
    """The text with a mask over each of the spans, which come in order and apart."""
    parts, at = [], 0
    for start, end, kind in spans:
        parts += [text[at:start], f"{MASK}{kind}]"]
        at = end
    return "".join(parts) + text[at:]


def _within(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """What of the spans lies in a stretch, counted from its start."""
    for span in spans:
        if span.start < end and start < span.end:
            yield Span(max(span.start, start) - start, min(span.end, end) - start, span.kind)


def _own_pattern(name: str, pattern: str) -> re.Pattern[str]:
    field = f"redact.patterns.{name}"
    hint = f"mend {field} in dreamd.toml, then run dreamctl doctor"
    if _NAME.fullmatch(name) is None:
        raise Invalid("The name of a redaction pattern is 1 to 64 of A-Z a-z 0-9 . _ -", hint=hint, field=field)
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise Invalid(f"{field} is not a regular expression: {error}.", hint=hint, field=field) from error


def _vacant(name: str, taken: Mapping[str, Any]) -> str:
    """The name, numbered where two keys have become the same."""
    number, free = 2, name
    while free in taken:
        free, number = f"{name} {number}", number + 1
    return free


def _unmasked(spans: Iterable[Span], markers: list[tuple[int, int]]) -> Iterator[Span]:
    """What of the spans is not masked yet; both come in order and apart."""
    at = 0
    for start, end, kind in spans:
        rest = start
        while at < len(markers) and markers[at][0] < end:
            opens, closes = markers[at]
            if rest < opens:
                yield Span(rest, opens, kind)
            rest = max(rest, closes)
            if closes > end:
                break
            at += 1
        if rest < end:
            yield Span(rest, end, kind)
