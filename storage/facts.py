"""Facts by key: what is looked up and not searched for. A record each under its scope; in RAM the keys without the values.

A value is kept as JSON text, since an engine drops a null, narrows a long number and alters a float's last digit. All
calls are made in the lane.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from storage.engine import Payload
from storage.errors import Conflict, NotFound, TooLarge, command
from storage.model import EVERY_SCOPE, SENSITIVITIES, cleared, covers
from storage.records import BATCH, Records, owner_of, record_key

MAX_SCOPES: Final = 10  # named where several hold a key
MAX_LISTED_BYTES: Final = 16 * 1024 * 1024  # values in one list, as JSON


class Row(NamedTuple):
    """Where a fact lies, and who may see it."""

    record: str
    sensitivity: str


class Found(NamedTuple):
    """A value and the scope that holds it."""

    scope: str
    value: Any


class Listed(NamedTuple):
    """What reading a scope sees: by key what a look-up finds, and by scope what several below it hold under one key."""

    facts: dict[str, Any]
    below: dict[str, dict[str, Any]]


class Facts:
    """Facts by scope and key."""

    kind = "fact"
    fields: Sequence[str] = ("scope", "key", "sensitivity")

    def __init__(self, records: Records, *, default_sensitivity: str) -> None:
        self._records = records
        self._default_sensitivity = default_sensitivity
        self.clear()
        records.register(self)

    # -- the index

    def clear(self) -> None:
        """Know of none."""
        self._scopes: dict[str, dict[str, Row]] = {}
        self._places: dict[str, tuple[str, str]] = {}  # record key -> scope and key

    def put(self, key: str, payload: Payload) -> None:
        """Know of a fact as it is stored."""
        scope = sys.intern(payload["scope"])
        self._scopes.setdefault(scope, {})[payload["key"]] = Row(key, sys.intern(payload["sensitivity"]))
        self._places[key] = scope, payload["key"]

    def drop(self, key: str) -> None:
        """Know of a fact no more."""
        place = self._places.pop(key, None)
        if place is not None:
            scope, name = place
            del self._scopes[scope][name]
            if not self._scopes[scope]:
                del self._scopes[scope]

    # -- what may be asked; keys and values are as they left the gate

    def write(
        self, scope: str, key: str, value: Any, now: float, *, clearance: str = "secret", floor: str | None = None
    ) -> bool:
        """Set the value of a key in exactly this scope; true where it is new. It never becomes less sensitive by that.

        Raises NotFound where the caller's clearance does not cover what is there.
        """
        record = record_key(owner_of("facts", scope), key)
        row = self._scopes.get(scope, {}).get(key)
        if row is not None and not cleared(row.sensitivity, clearance):
            raise _missing(scope, key, row)
        base = self._default_sensitivity if row is None else row.sensitivity
        former = {} if row is None else self._records.get([record]).get(record, {})
        sensitivity = max(base, floor or base, key=SENSITIVITIES.index)
        self._records.put(dict([fact_payload(scope, key, value, sensitivity, former.get("created_at", now), now)]))
        return row is None

    def find(self, scope: str, key: str, *, clearance: str = "secret") -> Found | None:
        """The value in this scope, else in the only one below it that has the key; None where none has.

        Raises Conflict with the scopes where several below it have the key and the scope itself has not.
        """
        holders = {
            name: rows[key]
            for name, rows in self._scopes.items()
            if key in rows and covers(scope, name) and cleared(rows[key].sensitivity, clearance)
        }
        if not holders:
            return None
        if scope not in holders and len(holders) > 1:
            first = sorted(holders)[:MAX_SCOPES]
            raise Conflict(
                f"{len(holders)} scopes below {scope!r} hold a fact {key!r}, and that scope itself does not."
                if scope != EVERY_SCOPE else f"{len(holders)} scopes hold a fact {key!r}.",
                hint=command("fact_get", key, scope=first[0]), scopes=first,
            )  # fmt: skip
        name = scope if scope in holders else next(iter(holders))
        record = holders[name].record
        return Found(name, json.loads(self._records.get([record])[record]["value"]))

    def missing(self, scope: str, key: str, *, clearance: str = "secret") -> NotFound:
        """The one answer for a key that is in no scope which the caller reads, or only above its clearance."""
        hidden = [rows[key] for name, rows in self._scopes.items() if covers(scope, name) and key in rows]
        return _missing(scope, key, next((row for row in hidden if not cleared(row.sensitivity, clearance)), None))

    def listed(self, scope: str, *, clearance: str = "secret") -> Listed:
        """Every fact that reading a scope sees. Raises TooLarge where that is more than an answer should hold."""
        holders: dict[str, dict[str, str]] = {}  # key -> scope -> record key
        for name, rows in self._scopes.items():
            seen = rows.items() if covers(scope, name) else ()
            for key, row in seen:
                if cleared(row.sensitivity, clearance):
                    holders.setdefault(key, {})[name] = row.record
        plain: dict[str, str] = {}
        several: list[tuple[str, str, str]] = []
        for key, records in sorted(holders.items()):
            if scope in records or len(records) == 1:
                plain[key] = records.get(scope) or next(iter(records.values()))
            else:
                several += [(name, key, record) for name, record in records.items()]
        values = self._values([*plain.values(), *(record for _, _, record in several)], scope)
        below: dict[str, dict[str, Any]] = {}
        for name, key, record in sorted(several):
            below.setdefault(name, {})[key] = values[record]
        return Listed({key: values[record] for key, record in plain.items()}, below)

    def delete(self, scope: str, key: str, *, clearance: str = "secret") -> None:
        """Remove a fact of exactly this scope. Raises NotFound."""
        row = self._scopes.get(scope, {}).get(key)
        if row is None or not cleared(row.sensitivity, clearance):
            raise _missing(scope, key, row)
        self._records.drop([row.record])

    def _values(self, records: Sequence[str], scope: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        size = 0
        for start in range(0, len(records), BATCH):
            for record, payload in self._records.get(records[start : start + BATCH]).items():
                size += len(payload["value"])
                if size > MAX_LISTED_BYTES:
                    raise TooLarge(
                        f"The facts of scope {scope!r} are more than {MAX_LISTED_BYTES} bytes.",
                        hint="Read a finer --scope, or one fact: dreamctl fact_get KEY", limit_bytes=MAX_LISTED_BYTES,
                    )  # fmt: skip
                values[record] = json.loads(payload["value"])
        return values


def fact_payload(
    scope: str, key: str, value: Any, sensitivity: str, created_at: float, updated_at: float
) -> tuple[str, Payload]:
    """The engine's id of a fact's record, and the fact as it is stored."""
    owner = owner_of("facts", scope)
    return record_key(owner, key), {
        "kind": Facts.kind, "owner": owner, "scope": scope, "key": key, "value": as_text(value), "sensitivity": sensitivity,
        "created_at": created_at, "updated_at": updated_at,
    }  # fmt: skip


def as_text(value: Any) -> str:
    """A value as it is stored."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _missing(scope: str, key: str, row: Row | None) -> NotFound:
    place = "any scope" if scope == EVERY_SCOPE else f"scope {scope!r}"
    return NotFound(
        f"There is no fact {key!r} in {place}.", hint=command("fact_list", scope=scope),
        withheld=None if row is None else row.sensitivity,
    )  # fmt: skip
