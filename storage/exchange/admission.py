"""Every text of an item through the write gate, so that nothing of a file is kept, hashed or told of which has not passed.

What comes out is JSON, so that it can wait in a spool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from storage.errors import Invalid, TooLarge
from storage.exchange.fields import checked
from storage.exchange.items import Item
from storage.gate import Admitted
from storage.model import SENSITIVITIES
from storage.redact import raised_by
from storage.text import clean_id, is_blank

Admit = Callable[[Mapping[str, Any]], Admitted]

#: What the gate knows each kind's texts as, by our name for them.
_TEXTS: Final[Mapping[str, Mapping[str, str]]] = {
    "memory": {
        name: name for name in ("id", "scope", "content", "context", "tags", "metadata", "author", "session", "subtype")
    },
    "version": {name: name for name in ("content", "context", "tags", "metadata")},
    "edge": {"label": "label"},
    "comment": {"author": "author", "content": "comment"},
    "fact": {"scope": "scope"},
    "turn": {name: name for name in ("scope", "session", "content", "metadata")},
    "session_state": {"scope": "scope", "session": "session", "text": "content"},
}
#: Texts that the gate has no name for: they pass it as metadata does.
_BESIDE: Final = ("entities", "source_turns", "change_summary", "forgotten_reason", "counter")
#: Ids, beside that of a memory itself.
_IDS: Final[Mapping[str, tuple[str, ...]]] = {
    "memory": ("superseded_by",), "version": ("memory",), "edge": ("a", "b"), "comment": ("id", "memory", "reply_to"),
    "turn": ("id", "ended"), "fact": (), "session_state": (),
}  # fmt: skip
#: These are as sensitive as their memory where they do not say so themselves.
_AS_ITS_MEMORY: Final = ("version", "comment")


class Passed(NamedTuple):
    """An item that may be kept; `redactions` counts what was masked in it, `unknown` names fields that have no place."""

    kind: str
    place: str
    fields: dict[str, Any]
    redactions: dict[str, int]
    unknown: list[str]


def passed(item: Item, admit: Admit, default_sensitivity: str, kinds: Collection[str]) -> Passed:
    """Check an item and let it through the gate. Raises ValueError, whose words tell what is wrong and quote nothing.

    Of the redactions that it tells of, those of `kinds` count: anything may be written in their place.
    """
    hits: Counter[str] = Counter()
    floors: list[str] = []
    try:
        fields, unknown = checked(item)
        for name in _IDS[item.kind]:
            if fields.get(name):
                fields[name] = clean_id(fields[name])
        if "origins" in fields:
            fields["origins"] = list(map(clean_id, fields["origins"]))
        _through(item.kind, fields, admit, hits, floors)
    except (Invalid, TooLarge) as error:
        raise ValueError(error.detail) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if item.kind == "turn" and is_blank(fields["session"]):
        raise ValueError("the session's name is blank")
    if item.kind == "memory":
        told = {kind: count for kind, count in fields.get("redactions", {}).items() if kind in kinds}
        fields["redactions"] = dict(Counter(told) + hits)
        floors += filter(None, [raised_by(fields["redactions"])])
    if item.kind != "edge":
        _set_sensitivity(item.kind, fields, floors, default_sensitivity)
    return Passed(item.kind, item.place, fields, dict(hits), unknown)


def _through(kind: str, fields: dict[str, Any], admit: Admit, hits: Counter[str], floors: list[str]) -> None:
    """Put the texts of an item, as they left the gate, in the place of those that went in."""

    def gate(texts: Mapping[str, Any]) -> dict[str, Any]:
        through = admit(texts)
        hits.update(through.redactions)
        floors.extend(filter(None, [through.fields.get("sensitivity_floor")]))
        return through.fields

    names = {name: known for name, known in _TEXTS[kind].items() if name in fields}
    kept = gate({known: fields[name] for name, known in names.items()})
    fields |= {name: kept[known] for name, known in names.items()}
    if kind == "fact":
        fields["key"], fields["value"] = gate({"fact": (fields["key"], fields["value"])})["fact"]
    beside = {name: fields[name] for name in _BESIDE if fields.get(name)}
    if beside:
        fields |= gate({"metadata": beside})["metadata"]


def _set_sensitivity(kind: str, fields: dict[str, Any], floors: list[str], default: str) -> None:
    """As stated or as usual, and never below what the gate found."""
    stated = fields.pop("sensitivity", None) or (None if kind in _AS_ITS_MEMORY else default)
    levels = [level for level in (stated, *floors) if level is not None]
    if stated is None:
        fields["floor"] = max(levels, key=SENSITIVITIES.index, default=SENSITIVITIES[0])
    else:
        fields["sensitivity"] = max(levels, key=SENSITIVITIES.index)
