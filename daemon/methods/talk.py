"""Methods for what is said in a session, and for the state in which an agent leaves its work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from daemon.methods.counting import counted
from daemon.methods.embedding import admitted
from daemon.methods.filters import read_scope
from daemon.methods.write import TRIES, stored
from daemon.parts import Parts
from daemon.wire import Instant, Method, Scoped, Share, Writing
from storage.errors import Conflict, Invalid, NotFound, TooLarge, command
from storage.instants import format_instant
from storage.memories import Vectors
from storage.model import DEFAULT_SCOPE, SENSITIVITIES, cleared
from storage.remember import Write, Writer, Written
from storage.talk import Kept, State, Turn
from storage.text import clean_scope, is_blank
from storage.transcript import transcript
from storage.wakeup import CONVERSATION


def _visible(name: str) -> str:
    if is_blank(name):
        raise ValueError("it is blank")
    return name


Role = Literal["user", "assistant", "system", "tool"]
Session = Annotated[
    str, Field(min_length=1, max_length=256, description="The session's name."), AfterValidator(_visible)
]
Scope = Annotated[str, Field(description="The scope that it belongs to, spelt out, such as alice/coder.")]


class AddTurnParams(Writing):
    """Something that was said."""

    session: Session
    content: str = Field(description="What was said, at most 256 KiB.")
    role: Role = Field(default="user", description="Who said it: user, assistant, system or tool.")
    scope: Scope = DEFAULT_SCOPE
    metadata: dict[str, Any] | None = Field(default=None, description="A JSON object of your own.")
    importance: Share = Field(default=0.5, description="0..1; eviction by importance takes the lowest first.")
    at: Instant | None = Field(default=None, description="When it was said; default now.")


class SessionParams(Writing):
    """One session of one scope."""

    session: Session
    scope: Scope = DEFAULT_SCOPE


class EndSessionParams(SessionParams):
    """A session that ends."""

    extract: bool = Field(default=True, description="Leave its turns to the job that extracts facts from them.")


class WriteStateParams(Writing):
    """Where an agent stands."""

    text: str = Field(description="What whoever goes on should know, at most 256 KiB.")
    scope: Scope = DEFAULT_SCOPE


class TurnAdded(TypedDict):
    """The turn's id and how long it is; what was masked in it, if anything."""

    turn: str
    tokens: int
    redactions: NotRequired[dict[str, int]]


class SessionEnded(TypedDict):
    """How many turns went into a memory, and its id; of a session without new turns, the last one's."""

    turns: int
    memory: str | None


class SessionCleared(TypedDict):
    """How many turns were removed."""

    turns: int


class StateWritten(TypedDict):
    """What stands at the head of the state, and whether there was one before, which is in the archive now."""

    archived: bool
    scope: str
    written_at: str
    session: str
    interval_s: float | None
    redactions: NotRequired[dict[str, int]]


class StateShape(TypedDict):
    """A state under its head: when it was written, in which session, how long after the one before it."""

    text: str
    scope: str
    written_at: str
    session: str
    interval_s: float | None


class StateRead(StateShape):
    """A state, and those of its scope before it, newest first."""

    archive: list[StateShape]


class Open(NamedTuple):
    """The turns of a session that no memory was made of, and the memory that was made last, if it may be known."""

    turns: list[Turn]
    memory: str | None


class Overtaken(Exception):
    """The turns that were to end are no more as they were read: another call ended, removed or replaced them."""


async def add_turn(parts: Parts, params: AddTurnParams) -> TurnAdded:
    """Keep what was said."""
    given = {"scope": params.scope, "session": params.session, "content": params.content, "metadata": params.metadata}
    fields, redactions = await admitted(parts, given)
    tokens = (await counted(parts, [fields["content"]]))[0]
    turn = Turn(
        id=parts.clock.new_id(),
        scope=fields["scope"],
        session=fields["session"],
        role=params.role,
        at=parts.clock.now() if params.at is None else params.at,
        content=fields["content"],
        metadata=fields.get("metadata", {}),
        importance=params.importance,
        tokens=tokens,
        counter=parts.tokens.name,
        sensitivity=_sensitivity(parts, fields),
    )
    await parts.lane.run(lambda: parts.stores.talk.add(turn, dated=params.at is not None))
    parts.meter.count_redactions(redactions)
    result: TurnAdded = {"turn": turn.id, "tokens": tokens}
    return {**result, "redactions": redactions} if redactions else result


async def end_session(parts: Parts, params: EndSessionParams) -> SessionEnded:
    """Make one memory of the turns since the last end. A call that meets another one ends what that left."""
    scope, session = clean_scope(params.scope), await kept_name(parts, params.session)
    for _ in range(TRIES):
        found = await parts.lane.run(_open, parts, scope, session, params.clearance)
        if not found.turns:
            return {"turns": 0, "memory": found.memory}
        given = await parts.lane.run(_told, parts, found.turns)
        try:
            memory = await _remember(parts, params, found.turns, given)
        except Overtaken:
            continue
        return {"turns": len(found.turns), "memory": memory}
    raise Conflict(f"The session {session!r} kept changing meanwhile.", hint="Send the request again.")


async def clear_session(parts: Parts, params: SessionParams) -> SessionCleared:
    """Remove the turns of a session; the memories that were made of them stay."""
    scope, session = clean_scope(params.scope), await kept_name(parts, params.session)
    return {"turns": await parts.lane.run(_clear, parts, scope, session, params.clearance)}


async def write_session_state(parts: Parts, params: WriteStateParams) -> StateWritten:
    """Keep where an agent stands, before what was kept of it so far."""
    try:
        fields, redactions = await admitted(parts, {"scope": params.scope, "content": params.text})
    except (Invalid, TooLarge) as error:
        raise _about_text(error) from None
    state, archived = await parts.lane.run(_write_state, parts, fields, params.clearance)
    parts.meter.count_redactions(redactions)
    result: StateWritten = {
        "archived": archived,
        "scope": state.scope,
        "written_at": format_instant(state.written_at) or "",
        "session": state.session,
        "interval_s": state.interval_s,
    }
    return {**result, "redactions": redactions} if redactions else result


async def read_session_state(parts: Parts, params: Scoped) -> StateRead:
    """The newest state of a scope and those below it."""
    scope = read_scope(params.scope)
    states = [state_shape(state) for state in await parts.lane.run(_states, parts, scope, params.clearance)]
    if not states:
        raise NotFound(f"There is no session state in {scope!r}.", hint='dreamctl write_session_state "where I stand"')
    return {**states[0], "archive": states[1:]}


def state_shape(state: State) -> StateShape:
    """A state as it is read, under its head."""
    after = "" if state.interval_s is None else f", {_span(state.interval_s)} after the one before"
    during = f" in session {state.session}" if state.session else ""
    return {
        "text": f"Written {format_instant(math.floor(state.written_at))}{during}{after}.\n\n{state.text}",
        "scope": state.scope,
        "written_at": format_instant(state.written_at) or "",
        "session": state.session,
        "interval_s": state.interval_s,
    }


async def kept_name(parts: Parts, session: str) -> str:
    """A session's name as turns are kept under it."""
    return str((await admitted(parts, {"session": session})).fields["session"])


def _sensitivity(parts: Parts, fields: dict[str, Any]) -> str:
    """The level of a text for which its writer names none."""
    floor: str = fields.get("sensitivity_floor", "public")
    return max(parts.gate.default_sensitivity, floor, key=SENSITIVITIES.index)


def _open(parts: Parts, scope: str, session: str, clearance: str) -> Open:
    """Called in the lane. Raises NotFound where nothing was said that the caller may know of."""
    turns = _said(parts, scope, session, clearance)
    made = [turn.ended for turn in turns if turn.ended is not None]
    row = parts.stores.catalogue.get(made[-1]) if made else None
    known = row is not None and cleared(row.sensitivity, clearance)
    return Open([turn for turn in turns if turn.ended is None], made[-1] if known else None)


def _said(parts: Parts, scope: str, session: str, clearance: str) -> list[Turn]:
    turns: list[Turn] = parts.stores.talk.turns(scope, session, clearance)
    if not turns:
        raise NotFound(
            f"There is no session {session!r} in {scope!r}.",
            hint=command("add_turn", session, "what was said", scope=scope),
        )
    return turns


def _told(parts: Parts, turns: Sequence[Turn]) -> dict[str, Any]:
    """The memory that these turns make. Called in the lane."""
    told = transcript(parts.stores.talk.read(turns), len(turns))
    return {
        "content": told.content,
        "context": told.context or None,
        "type": "episodic",
        "subtype": CONVERSATION,
        "scope": turns[0].scope,
        "session": turns[0].session,
        "event_at": turns[0].at,
        "importance": max(turn.importance for turn in turns),
        "sensitivity": max((turn.sensitivity for turn in turns), key=SENSITIVITIES.index),
        "source_turns": tuple(turn.id for turn in turns),
    }


async def _remember(parts: Parts, params: EndSessionParams, turns: Sequence[Turn], given: dict[str, Any]) -> str:
    """Store the memory, then mark the turns, in one call of the lane: a turn is never lost between the two."""
    new_id = parts.clock.new_id()

    def commit(writer: Writer, asked: Write, vectors: Vectors | None, now: float) -> Written:
        still = {turn.id: turn for turn in parts.stores.talk.turns(turns[0].scope, turns[0].session, params.clearance)}
        if any(still.get(turn.id) != turn for turn in turns):
            raise Overtaken
        written = writer.remember(asked, vectors, now, new_id)
        parts.stores.talk.end(turns, written.memory.id, extracted_at=None if params.extract else now)
        return written

    written = await stored(parts, await admitted(parts, given), params.clearance, commit)
    parts.meter.count_restored(written.restored)
    return written.memory.id


def _clear(parts: Parts, scope: str, session: str, clearance: str) -> int:
    """Called in the lane."""
    turns = _said(parts, scope, session, clearance)
    parts.stores.talk.drop(turns)
    return len(turns)


def _write_state(parts: Parts, fields: dict[str, Any], clearance: str) -> Kept:
    """Called in the lane."""
    return parts.stores.talk.write_state(
        fields["scope"], fields["content"], _sensitivity(parts, fields), parts.clock.now(), clearance=clearance
    )


def _states(parts: Parts, scope: str, clearance: str) -> list[State]:
    """Called in the lane."""
    return parts.stores.talk.read_states(parts.stores.talk.states(scope, clearance))


def _about_text(error: Invalid | TooLarge) -> Invalid | TooLarge:
    """An error of the gate, which knows our text as content."""
    extra = {**error.extra, "field": error.extra["field"].replace("content", "text")}
    return type(error)(error.detail.replace("content", "text", 1), hint=error.hint.replace("content", "text"), **extra)


def _span(seconds: float) -> str:
    """A time that passed, in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


METHODS: Final = (
    Method(
        "add_turn", "talk", AddTurnParams, TurnAdded, add_turn, True, "Keep what was said in a session.",
        ("session", "content"),
    ),
    Method(
        "end_session", "talk", EndSessionParams, SessionEnded, end_session, True,
        "Make a memory of what was said in a session.", ("session",),
    ),
    Method(
        "clear_session", "talk", SessionParams, SessionCleared, clear_session, True,
        "Remove the turns of a session.", ("session",),
    ),
    Method(
        "write_session_state", "talk", WriteStateParams, StateWritten, write_session_state, True,
        "Write down where you stand, for whoever goes on.", ("text",),
    ),
    Method(
        "read_session_state", "talk", Scoped, StateRead, read_session_state, False,
        "Read where the last one stood.",
    ),
)  # fmt: skip
