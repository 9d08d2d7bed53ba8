"""One row a memory in RAM: what filters, boosts, compare-and-set, look-up by content, lists, counts and jobs need.

A row is the `Memory` without its text. The catalogue is rebuilt from the store at start and written only in the lane,
after the store accepted: it can never know more than the store does.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from storage.model import EVERY_SCOPE, Memory, covers, point_id
from storage.names import NameIndex, words_of

NEUTRAL: Final = 0.5  # the emotion of what nobody felt anything about


@dataclass(slots=True)
class ScopeIndex:
    """What one exact scope holds: ids by state, the authors heard there, and each session's memories in order."""

    live: dict[str, None] = field(default_factory=dict)
    gone: dict[str, None] = field(default_factory=dict)
    names: NameIndex = field(default_factory=NameIndex)
    sessions: dict[str, dict[str, None]] = field(default_factory=dict)
    felt: int = 0  # live memories whose emotion is not the neutral 0.5


class Catalogue:
    """Rows by id, with the indexes that keep every look-up O(1)."""

    def __init__(self) -> None:
        self._rows: dict[str, Memory] = {}
        self._ids: dict[str, str] = {}  # point id -> memory id
        self._hashes: dict[tuple[str, str], dict[str, None]] = {}
        self._scopes: dict[str, ScopeIndex] = {}
        self._expiring: dict[str, None] = {}
        self._latest = 0.0
        self.gone_count = 0

    def __len__(self) -> int:
        return len(self._rows) - self.gone_count

    def __contains__(self, memory: str) -> bool:
        return memory in self._rows

    def get(self, memory: str) -> Memory | None:
        """The row of a memory in any state."""
        return self._rows.get(memory)

    def at_point(self, point: str) -> Memory | None:
        """The row behind an engine's point id."""
        memory = self._ids.get(point)
        return None if memory is None else self._rows[memory]

    def put(self, memory: Memory) -> Memory:
        """Set a memory's row, whatever it was before; returns the row as kept, without its text."""
        former = self._rows.get(memory.id)
        row = replace(
            memory, content="", context="", scope=sys.intern(memory.scope), author=sys.intern(memory.author),
            session=sys.intern(memory.session), tags=tuple(map(sys.intern, memory.tags)),
        )  # fmt: skip
        if former is not None and _place(former) == _place(row):
            self._scopes[row.scope].felt += (
                (row.emotion != NEUTRAL) - (former.emotion != NEUTRAL) if row.state == "live" else 0
            )
            self._rows[row.id] = row
            return row
        if former is not None:
            self._unindex(former)
        self._rows[row.id] = row
        self._ids[point_id(row.id)] = row.id
        self._index(row)
        self._latest = max(self._latest, row.created_at)
        return row

    def drop(self, memory: str) -> None:
        """Forget a row for good."""
        row = self._rows.get(memory)
        if row is not None:
            self._unindex(row)
            del self._rows[memory], self._ids[point_id(memory)]

    def stamp(self, now: float) -> float:
        """A creation instant no earlier than `now` and later than any before: sessions and cursors rely on the order."""
        self._latest = now if now > self._latest else self._latest + 1e-6
        return self._latest

    def rows(self, scope: str = EVERY_SCOPE) -> Iterator[Memory]:
        """Live rows that reading `scope` sees, scope by scope in the order of creation."""
        for index in self._covered(scope):
            yield from (self._rows[memory] for memory in index.live)

    def gone(self, scope: str = EVERY_SCOPE) -> Iterator[Memory]:
        """Superseded and forgotten rows that reading `scope` sees."""
        for index in self._covered(scope):
            yield from (self._rows[memory] for memory in index.gone)

    def every(self) -> Iterable[Memory]:
        """All rows, in every state."""
        return self._rows.values()

    def scopes(self) -> Iterable[str]:
        """Every exact scope that was ever written in this run."""
        return self._scopes.keys()

    def scope(self, name: str) -> ScopeIndex:
        """The index of one exact scope."""
        return self._scopes.get(name) or ScopeIndex()

    def names_in(self, scope: str, text: str) -> set[str]:
        """The known authors of a scope, and of those below it, that a text names."""
        low = text.lower()
        words = words_of(low)
        return {name for index in self._covered(scope) for name in index.names.found_in(low, words)}

    def same_content(self, scope: str, content_hash: str) -> list[Memory]:
        """The rows of exactly this scope with this content, in any state."""
        return [self._rows[memory] for memory in self._hashes.get((scope, content_hash), ())]

    def session_of(self, memory: Memory) -> list[str]:
        """The live memories of a memory's session, in order."""
        return list(self.scope(memory.scope).sessions.get(memory.session, ())) if memory.session else []

    def last_in_session(self, scope: str, session: str) -> str | None:
        """The live memory that was added last to a session."""
        members = self.scope(scope).sessions.get(session)
        return next(reversed(members)) if members else None

    def expired(self, now: float) -> list[str]:
        """Live memories past their `expires_at`."""
        rows = (self._rows[memory] for memory in self._expiring)
        return [row.id for row in rows if row.state == "live" and row.expires_at is not None and row.expires_at <= now]

    def _covered(self, scope: str) -> list[ScopeIndex]:
        return [index for name, index in self._scopes.items() if covers(scope, name)]

    def _index(self, row: Memory) -> None:
        index = self._scopes.setdefault(row.scope, ScopeIndex())
        self._hashes.setdefault((row.scope, row.content_hash), {})[row.id] = None
        if row.state != "live":
            index.gone[row.id] = None
            self.gone_count += 1
            return
        index.live[row.id] = None
        index.felt += row.emotion != NEUTRAL
        index.names.add(row.author)
        if row.session:
            members = index.sessions.setdefault(row.session, {})
            members[row.id] = None
            if row.created_at < self._latest:  # it came back: its place is where it was created
                ordered = sorted(members, key=lambda memory: self._rows[memory].created_at)
                index.sessions[row.session] = dict.fromkeys(ordered)
        if row.expires_at is not None:
            self._expiring[row.id] = None

    def _unindex(self, row: Memory) -> None:
        index = self._scopes[row.scope]
        same = self._hashes[row.scope, row.content_hash]
        same.pop(row.id, None)
        if not same:
            del self._hashes[row.scope, row.content_hash]
        self._expiring.pop(row.id, None)
        if row.state != "live":
            del index.gone[row.id]
            self.gone_count -= 1
            return
        del index.live[row.id]
        index.felt -= row.emotion != NEUTRAL
        index.names.remove(row.author)
        if row.session:
            members = index.sessions[row.session]
            members.pop(row.id, None)
            if not members:
                del index.sessions[row.session]


def _place(row: Memory) -> tuple[Any, ...]:
    """What decides where a row stands in the indexes."""
    return row.scope, row.state, row.session, row.author, row.content_hash, row.expires_at, row.created_at


def count_by(rows: Iterable[Memory], attribute: str) -> dict[str, int]:
    """How many rows have each value of a field, commonest first."""
    return dict(Counter(getattr(row, attribute) for row in rows).most_common())
