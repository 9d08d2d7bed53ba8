"""What was said, turn by turn, and the states in which agents left their work: records, with an index of them in RAM.

A turn belongs to one session of one scope, a state to one scope. The index holds everything about them but their texts.
The turns of a session are in the order of their times, and of their coming where those are equal. The newest state of a
scope is the current one, those before it are its archive. All calls are made in the lane.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from storage.engine import Payload
from storage.model import SENSITIVITIES, cleared, covers
from storage.records import Records, owner_of, record_key

TURN: Final = "turn"
STATE: Final = "session_state"
ARCHIVED: Final = 20  # former states that a scope keeps
STEPPED_BACK: Final = 3_600.0  # seconds by which a clock may be set back without disordering sessions and states
BATCH: Final = 64  # turns in RAM at once while they are rewritten; each may be 256 KiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Something said in a session; with `content` and `metadata` empty, it is its row in the index.

    `ended` is the memory that a session's end made of it, `tokens` its size as the tokenizer `counter` counts. Once it
    is `extracted` no job needs it any more.
    """

    id: str
    scope: str
    session: str
    role: str
    at: float
    number: int = 0
    content: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    importance: float = 0.5
    tokens: int = 0
    counter: str = ""
    sensitivity: str = "personal"
    ended: str | None = None
    extracted: bool = False
    extracted_at: float | None = None

    @property
    def owner(self) -> str:
        """The owner of its session's records."""
        return owner_of("session", self.scope, self.session)

    @property
    def key(self) -> str:
        """The engine's id of its record."""
        return record_key(self.owner, self.id)


class State(NamedTuple):
    """What an agent wrote down of where it stands; with `text` empty, its row in the index.

    `session` is the one that was spoken in last, `interval_s` the time since the state before it: empty or None where
    there was none, or where its writer or whoever may see this state may not know of it.

    `number` is its name in its scope, and no other state ever gets it: states that were forgotten may come back.
    """

    scope: str
    number: int
    written_at: float
    sensitivity: str
    session: str = ""
    interval_s: float | None = None
    text: str = ""

    @property
    def key(self) -> str:
        """The engine's id of its record."""
        return record_key(owner_of("state", self.scope), str(self.number))


class Kept(NamedTuple):
    """A state that was written, and whether there was one before it that its writer may know of."""

    state: State
    archived: bool


class Talk:
    """The turns and the states of one store."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._turns = _Turns()
        self._states = _States()
        records.register(self._turns)
        records.register(self._states)

    # -- turns

    def add(self, turn: Turn, *, dated: bool) -> Turn:
        """Keep a turn as the next of its session; its number is given here.

        Unless it was `dated` by whoever brought it, its time is the clock's.
        """
        number, last_at = self._turns.end_of(turn.scope, turn.session)
        turn = replace(turn, number=number + 1, at=turn.at if dated else _after(last_at, turn.at))
        self._records.put({turn.key: turn_payload(turn)})
        return turn

    def turns(self, scope: str, session: str, clearance: str) -> list[Turn]:
        """The rows of a session of exactly this scope that the clearance covers, in order."""
        return [one for one in self._turns.session(scope, session) if cleared(one.sensitivity, clearance)]

    def every(self) -> list[Turn]:
        """The rows of all turns."""
        return self._turns.every()

    def scopes_of(self, session: str, scope: str, clearance: str) -> list[str]:
        """Where a session of this name was spoken in: in exactly this scope, else in those that reading it sees."""
        known = [where for where, name in self._turns.sessions() if name == session and covers(scope, where)]
        spoken = [where for where in known if self._last(where, session, clearance)]
        return [scope] if scope in spoken else spoken

    def latest(self, scope: str, clearance: str) -> list[Turn]:
        """The rows of the session, of all that reading the scope sees, in which something was said last."""
        places = [place for place in self._turns.sessions() if covers(scope, place[0])]
        last = [turn for place in places if (turn := self._last(*place, clearance))]
        newest = max(last, key=lambda turn: (turn.at, turn.scope, turn.session), default=None)
        return [] if newest is None else self.turns(newest.scope, newest.session, clearance)

    def read(self, rows: Iterable[Turn]) -> Iterator[Turn]:
        """The whole turns for these rows, in their order, as they are now; those that are gone are left out."""
        waiting = iter(rows)
        while batch := list(islice(waiting, BATCH)):
            found = self._records.get([row.key for row in batch])
            yield from (turn_of(found[row.key]) for row in batch if row.key in found)

    def end(self, rows: Sequence[Turn], memory: str, *, extracted_at: float | None) -> None:
        """Note which memory the turns went into, and that no job needs to read them where `extracted_at` is given."""
        marks: dict[str, Any] = {"ended": memory}
        if extracted_at is not None:
            marks |= {"extracted": True, "extracted_at": extracted_at}
        for start in range(0, len(rows), BATCH):
            found = self._records.get([row.key for row in rows[start : start + BATCH]])
            self._records.put({key: payload | marks for key, payload in found.items()})

    def drop(self, rows: Sequence[Turn]) -> None:
        """Remove turns."""
        self._records.drop([row.key for row in rows])

    def _last(self, scope: str, session: str, clearance: str) -> Turn | None:
        rows = self._turns.backwards(scope, session)
        return next((one for one in rows if cleared(one.sensitivity, clearance)), None)

    # -- states

    def write_state(self, scope: str, text: str, sensitivity: str, now: float, *, clearance: str = "secret") -> Kept:
        """Make this the current state of a scope; the former one goes into the archive, and the oldest out of it.

        Its head tells what both its own level and the `clearance` of its writer cover.
        """
        former = self._states.of(scope)
        level = min(sensitivity, clearance, key=SENSITIVITIES.index)
        last = next((one for one in former if cleared(one.sensitivity, level)), None)
        spoken = self.latest(scope, level)
        state = State(
            scope=scope,
            number=self._states.new_number(scope, now),
            written_at=_after(former[0].written_at, now) if former else now,
            sensitivity=sensitivity,
            session=spoken[-1].session if spoken else "",
            interval_s=None if last is None else max(now - last.written_at, 0.0),
            text=text,
        )
        self._records.put({state.key: state_payload(state)})
        self._records.drop([one.key for one in former[ARCHIVED:]])
        return Kept(state, any(cleared(one.sensitivity, clearance) for one in former))

    def states(self, scope: str, clearance: str) -> list[State]:
        """The rows of the states of a scope, or of that below it whose state is the newest; the current one first."""
        seen = ([one for one in states if cleared(one.sensitivity, clearance)] for states in self._states.under(scope))
        return max(filter(None, seen), key=lambda states: (states[0].written_at, states[0].scope), default=[])

    def read_states(self, rows: Sequence[State]) -> list[State]:
        """The whole states for these rows, in their order; those that are gone are left out."""
        found = self._records.get([row.key for row in rows])
        return [state_of(found[row.key]) for row in rows if row.key in found]


class _Turns:
    """Every turn without its text, by its record, and each session's in order."""

    kind = TURN
    fields: Sequence[str] = (
        "id", "scope", "session", "role", "at", "number", "importance", "tokens", "counter", "sensitivity", "ended",
        "extracted", "extracted_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self._rows: dict[str, Turn] = {}
        self._sessions: dict[tuple[str, str], list[tuple[float, int, str]]] = {}  # time, number, record
        self._highest: dict[tuple[str, str], int] = {}  # number given in a session

    def clear(self) -> None:
        self._rows.clear()
        self._sessions.clear()
        self._highest.clear()

    def put(self, key: str, payload: Payload) -> None:
        self.drop(key)
        row = turn_of({name: payload[name] for name in self.fields if name in payload})
        self._rows[key] = row
        place = row.scope, row.session
        insort(self._sessions.setdefault(place, []), (row.at, row.number, key))
        self._highest[place] = max(self._highest.get(place, 0), row.number)

    def drop(self, key: str) -> None:
        row = self._rows.pop(key, None)
        if row is None:
            return
        place = row.scope, row.session
        members = self._sessions[place]
        del members[bisect_left(members, (row.at, row.number, key))]
        if not members:
            del self._sessions[place], self._highest[place]

    def every(self) -> list[Turn]:
        return list(self._rows.values())

    def session(self, scope: str, session: str) -> list[Turn]:
        """The turns of a session, in order."""
        return [self._rows[key] for _, _, key in self._sessions.get((scope, session), ())]

    def backwards(self, scope: str, session: str) -> Iterator[Turn]:
        """The turns of a session, the last one first."""
        return (self._rows[key] for _, _, key in reversed(self._sessions.get((scope, session), ())))

    def end_of(self, scope: str, session: str) -> tuple[int, float]:
        """The highest number and the latest time in a session; nothing was said before the beginning of time."""
        members = self._sessions.get((scope, session))
        return (self._highest[scope, session], members[-1][0]) if members else (0, -math.inf)

    def sessions(self) -> list[tuple[str, str]]:
        return list(self._sessions)


class _States:
    """Every state without its text, by its record and by its scope."""

    kind = STATE
    fields: Sequence[str] = ("scope", "number", "written_at", "sensitivity", "session", "interval_s")

    def __init__(self) -> None:
        self._rows: dict[str, State] = {}
        self._scopes: dict[str, dict[str, None]] = {}
        self._given = 0  # number

    def clear(self) -> None:
        self._rows.clear()
        self._scopes.clear()

    def put(self, key: str, payload: Payload) -> None:
        self.drop(key)
        row = state_of({name: payload[name] for name in self.fields if name in payload})
        self._rows[key] = row
        self._scopes.setdefault(row.scope, {})[key] = None

    def drop(self, key: str) -> None:
        row = self._rows.pop(key, None)
        if row is None:
            return
        del self._scopes[row.scope][key]
        if not self._scopes[row.scope]:
            del self._scopes[row.scope]

    def of(self, scope: str) -> list[State]:
        """The states of exactly this scope, newest first."""
        rows = (self._rows[key] for key in self._scopes.get(scope, ()))
        return sorted(rows, key=lambda state: (state.written_at, state.number), reverse=True)

    def new_number(self, scope: str, now: float) -> int:
        """A number that no state of this scope has or had: of microseconds, as time alone does not come again."""
        taken = {state.number for state in self.of(scope)}
        self._given = max(self._given + 1, round(now * 1e6))
        while self._given in taken:
            self._given += 1
        return self._given

    def under(self, scope: str) -> list[list[State]]:
        """The states of each scope that reading this one sees."""
        return [self.of(name) for name in self._scopes if covers(scope, name)]


def _after(last: float, now: float) -> float:
    """Now, or the time of what came last where the clock was set back a little since."""
    return last if 0.0 < last - now <= STEPPED_BACK else now


def turn_payload(turn: Turn) -> Payload:
    """A turn as it is stored."""
    told = {name: getattr(turn, name) for name in _TURN_FIELDS}
    return {"kind": TURN, "owner": turn.owner} | {name: value for name, value in told.items() if value is not None}


def turn_of(payload: Payload) -> Turn:
    """The turn in a payload; words that many turns share are kept once."""
    known: dict[str, Any] = {name: payload[name] for name in _TURN_FIELDS if name in payload}
    for name in _SHARED & known.keys():
        known[name] = sys.intern(known[name])
    return Turn(**known)


def state_payload(state: State) -> Payload:
    """A state as it is stored."""
    told = {name: value for name, value in state._asdict().items() if value is not None}
    return {"kind": STATE, "owner": owner_of("state", state.scope), **told}


def state_of(payload: Payload) -> State:
    """The state in a payload."""
    return State(**{name: payload[name] for name in State._fields if name in payload})


_TURN_FIELDS: Final = tuple(one.name for one in fields(Turn))
_SHARED: Final = frozenset({"scope", "session", "role", "counter", "sensitivity"})
