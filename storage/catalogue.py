"""One row a memory in RAM: what filters, boosts, compare-and-set, look-up by content, lists, counts and jobs need.

A row is the `Memory` without its text. The catalogue is rebuilt from the store at start and written only in the lane,
after the store accepted: it can never know more than the store does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from storage.model import EVERY_SCOPE, Memory, cleared, covers, point_id, prefixes
from storage.names import NameIndex, words_of

T = TypeVar("T")

NEUTRAL: Final = 0.5  # the emotion of what nobody felt anything about


TICK: Final = 1e-6  # seconds between two creations at one instant
SAME_INSTANT: Final = 1.0  # seconds in which creations keep their order; a clock set back by more is believed


@dataclass(slots=True)
class ScopeIndex:
    """What one exact scope holds: ids by state and each session's live memories in order."""

    live: dict[str, None] = field(default_factory=dict)
    gone: dict[str, None] = field(default_factory=dict)
    sessions: dict[str, dict[str, None]] = field(default_factory=dict)
    felt: int = 0  # live memories whose emotion is not the neutral 0.5


@dataclass(slots=True)
class View:
    """What reading a scope sees, with all that lies below it: how many live memories, and the authors heard there."""

    live: int = 0
    names: dict[str, NameIndex] = field(default_factory=dict)  # by the sensitivity of what their bearers said


class Catalogue:
    """Rows by id, with the indexes that keep every look-up O(1)."""

    def __init__(self) -> None:
        self._rows: dict[str, Memory] = {}
        self._ids: dict[str, str] = {}  # point id -> memory id
        self._points: dict[str, str] = {}  # and back
        self._hashes: dict[tuple[str, str], dict[str, None]] = {}
        self._scopes: dict[str, ScopeIndex] = {}
        self._views: dict[str, View] = {}
        self._latest = 0.0
        self.gone_count = 0

    def clear(self) -> None:
        """Know of no row; the last creation instant stays, so that the order of creations does."""
        for index in (self._rows, self._ids, self._points, self._hashes, self._scopes, self._views):
            index.clear()
        self.gone_count = 0

    def __len__(self) -> int:
        return len(self._rows) - self.gone_count

    def __contains__(self, memory: str) -> bool:
        return memory in self._rows

    def get(self, memory: str) -> Memory | None:
        """The row of a memory in any state."""
        return self._rows.get(memory)

    def heir(self, row: Memory) -> Memory | None:
        """The live memory that a row stands for now: itself, or what took its place over however many; None where none did."""
        passed: set[str] = set()
        one: Memory | None = row
        while one is not None and one.state == "superseded" and one.id not in passed:
            passed.add(one.id)
            one = self._rows.get(one.superseded_by or "")
        return one if one is not None and one.state == "live" else None

    def point(self, memory: str) -> str:
        """The engine's point id of a memory that is here."""
        return self._points[memory]

    def at_point(self, point: str) -> Memory | None:
        """The row behind an engine's point id."""
        memory = self._ids.get(point)
        return None if memory is None else self._rows[memory]

    def put(self, memory: Memory) -> None:
        """Set a memory's row, whatever it was before; its text is left out."""
        former = self._rows.get(memory.id)
        row = replace(memory, content="", context="") if memory.content or memory.context else memory
        if former is not None and _place(former) == _place(row):
            if row.state == "live":
                self._scopes[row.scope].felt += (row.emotion != NEUTRAL) - (former.emotion != NEUTRAL)
            self._rows[row.id] = row
            return
        if former is not None:
            self._unindex(former)
        self._rows[row.id] = row
        point = self._points[row.id] = point_id(row.id)
        self._ids[point] = row.id
        self._index(row)

    def drop(self, memory: str) -> None:
        """Forget a row for good."""
        row = self._rows.get(memory)
        if row is not None:
            self._unindex(row)
            del self._rows[memory], self._ids[self._points.pop(memory)]

    def stamp(self, now: float) -> float:
        """A creation instant: `now`, or just after the last one where that is as good as now, to keep the order.

        In whole microseconds, which every store gives back as they are.
        """
        now = round(now, 6)
        crowded = 0.0 <= self._latest - now < SAME_INSTANT
        self._latest = round(self._latest + TICK, 6) if crowded else now
        return self._latest

    def rows(self, scope: str = EVERY_SCOPE) -> Iterator[Memory]:
        """Live rows that reading `scope` sees, scope by scope."""
        for index in self._covered(scope):
            yield from (self._rows[memory] for memory in index.live)

    def gone(self, scope: str = EVERY_SCOPE) -> Iterator[Memory]:
        """Superseded and forgotten rows that reading `scope` sees."""
        for index in self._covered(scope):
            yield from (self._rows[memory] for memory in index.gone)

    def every(self) -> Iterable[Memory]:
        """All rows, in every state."""
        return self._rows.values()

    def count(self, scope: str) -> int:
        """How many live memories reading `scope` sees."""
        view = self._views.get(scope)
        return 0 if view is None else view.live

    def scope(self, name: str) -> ScopeIndex:
        """The index of one exact scope."""
        return self._scopes.get(name) or ScopeIndex()

    def names_in(self, scope: str, text: str, clearance: str) -> set[str]:
        """The authors known in a scope and below it that a text names, of those whose memories the clearance covers."""
        view = self._views.get(scope)
        if view is None:
            return set()
        low = text.lower()
        words = words_of(low)
        visible = (names for level, names in view.names.items() if cleared(level, clearance))
        return {name for names in visible for name in names.found_in(low, words)}

    def same_content(self, scope: str, content_hash: str) -> list[Memory]:
        """The rows of exactly this scope with this content, in any state."""
        return [self._rows[memory] for memory in self._hashes.get((scope, content_hash), ())]

    def session_of(self, memory: Memory) -> list[str]:
        """The live memories of a memory's session, in the order of creation."""
        return list(self.scope(memory.scope).sessions.get(memory.session, ()))

    def last_in_session(self, scope: str, session: str) -> str | None:
        """The live memory that was created last in a session."""
        members = self.scope(scope).sessions.get(session)
        return next(reversed(members)) if members else None

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
        for name in (EVERY_SCOPE, *prefixes(row.scope)):
            view = self._views.setdefault(name, View())
            view.live += 1
            view.names.setdefault(row.sensitivity, NameIndex()).add(row.author)
        if row.session:
            members = index.sessions.setdefault(row.session, {})
            came_back = bool(members) and self._created(next(reversed(members))) > self._created(row.id)
            members[row.id] = None
            if came_back:
                index.sessions[row.session] = dict.fromkeys(sorted(members, key=self._created))

    def _unindex(self, row: Memory) -> None:
        index = self._scopes[row.scope]
        _drop(self._hashes, (row.scope, row.content_hash), row.id)
        if row.state != "live":
            del index.gone[row.id]
            self.gone_count -= 1
        else:
            del index.live[row.id]
            index.felt -= row.emotion != NEUTRAL
            self._hide(row)
            if row.session:
                _drop(index.sessions, row.session, row.id)
        if not index.live and not index.gone:
            del self._scopes[row.scope]

    def _hide(self, row: Memory) -> None:
        for name in (EVERY_SCOPE, *prefixes(row.scope)):
            view = self._views[name]
            view.live -= 1
            view.names[row.sensitivity].remove(row.author)
            if not view.live:
                del self._views[name]

    def _created(self, memory: str) -> tuple[float, str]:
        return self._rows[memory].created_at, memory


def _drop(index: dict[T, dict[str, None]], key: T, memory: str) -> None:
    """Take a memory out of an index, and the key with its last memory."""
    del index[key][memory]
    if not index[key]:
        del index[key]


def _place(row: Memory) -> tuple[Any, ...]:
    """What decides where a row stands in the indexes."""
    return row.scope, row.state, row.session, row.author, row.sensitivity, row.content_hash, row.created_at


def count_by(rows: Iterable[Memory], attribute: str) -> dict[str, int]:
    """How many rows have each value of a field, commonest first."""
    return dict(Counter(getattr(row, attribute) for row in rows).most_common())
