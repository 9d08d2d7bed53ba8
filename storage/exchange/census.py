"""What becomes of each thing that is imported: stored, or not since it is here already, or refused. Called in the lane.

What is here stays as it is. What an import brings is checked against both: what is here, and what it brought so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from storage.changes import Edge, RecordChange
from storage.comments import Comment, key_of
from storage.comments import to_payload as comment_payload
from storage.exchange.circles import closing
from storage.exchange.mapping import stable_id
from storage.facts import fact_payload
from storage.model import (
    DEFAULT_SCOPE,
    SENSITIVITIES,
    Memory,
    Synapse,
    Version,
    cleared,
    content_hash,
    ends_with_question,
)
from storage.records import version_key, version_payload
from storage.store import Stores
from storage.synapses import ASSOCIATIVE, associate
from storage.talk import State, Turn, state_payload, turn_payload

#: new = stored · back = an undo took it back, and it is stored as the file has it · same = it is here · differs = ours is
#: kept · hidden = its id belongs to what the caller may not know of.
Verdict = Literal["new", "back", "same", "differs", "hidden"]

_NOT_HERE: Final = "it belongs to a memory that is not here"


class Known(NamedTuple):
    """A memory that there is when the import is through, as far as others refer to it."""

    scope: str
    version: int
    sensitivity: str
    content_hash: str


@dataclass(slots=True)
class Census:
    """What one import brings, by id and by content."""

    clearance: str
    dry_run: bool
    now: float
    new: dict[str, Known] = field(default_factory=dict)
    contents: set[tuple[str, str]] = field(default_factory=set)
    differing: set[str] = field(default_factory=set)  # ids under which ours says something else
    heirs: dict[str, str] = field(default_factory=dict)  # what took the place of which memory, by the file
    replies: dict[str, str] = field(default_factory=dict)  # the ids of the comments that wait: what each answers, or ""
    keys: set[str] = field(default_factory=set)  # of edges and records that a dry run would store
    sessions: dict[tuple[str, str], None] = field(default_factory=dict)  # into which memories come
    turns: int = 0  # so many were looked at: their order, where they have no numbers
    told: Counter[tuple[str, ...]] = field(default_factory=Counter)  # how often what has no id came
    states: dict[str, bool] = field(default_factory=dict)  # whether a scope had states of its own

    def find(self, stores: Stores, memory: str) -> Known | None:
        """The memory that others may refer to; in a dry run it may be one that would be stored."""
        if self.dry_run and memory in self.new:
            return self.new[memory]
        row = stores.catalogue.get(memory)
        return known(row) if row is not None and cleared(row.sensitivity, self.clearance) else None

    def judge(self, stores: Stores, memory: Memory, *, own_id: bool) -> Verdict:
        """What becomes of a memory, and note it where it is stored."""
        here, brought = stores.catalogue.get(memory.id), self.new.get(memory.id)
        place = memory.scope, memory.content_hash
        twins = stores.catalogue.same_content(*place)
        twin = place in self.contents or any(
            one.state != "superseded" and not was_undone(one) and cleared(one.sensitivity, self.clearance)
            for one in twins
        )
        if brought is not None:
            found: Verdict = "same" if (brought.scope, brought.content_hash) == place else "differs"
        else:
            found = decide(memory, here, twin=twin, own_id=own_id, clearance=self.clearance)
            if found == "differs" and here is not None and here.scope == memory.scope:
                stored = stores.memories.read([memory.id]).get(memory.id)
                found = "same" if stored is not None and stored.content == memory.content else found
        if found in ("new", "back"):
            self.new[memory.id] = known(memory)
            self.contents.add(place)
            if memory.superseded_by:
                self.heirs[memory.id] = memory.superseded_by
            if memory.session and memory.state == "live":
                self.sessions[memory.scope, memory.session] = None
        elif found == "differs" and brought is None:
            self.differing.add(memory.id)
        return found

    def break_circles(self) -> None:
        """Take out one link of each circle; to be called once all memories and comments of the file are known."""
        for memory in closing(self.heirs):
            del self.heirs[memory]
        for comment in closing(self.replies):
            self.replies[comment] = ""

    def id_for(self, *names: str) -> str:
        """An id for what brings none: the same each time its file is imported, another for each of several alike."""
        self.told[names] += 1
        return stable_id("import", *names, *filter(lambda nth: nth != "1", [str(self.told[names])]))


def known(memory: Memory) -> Known:
    """What others may ask about a memory."""
    return Known(memory.scope, memory.version, memory.sensitivity, memory.content_hash)


def decide(memory: Memory, here: Memory | None, *, twin: bool, own_id: bool, clearance: str) -> Verdict:
    """Compare a memory with the one that has its id here, and with one of its content (`twin`). Pure."""
    if here is None:
        return "same" if twin and not own_id else "new"
    if not cleared(here.sensitivity, clearance):
        return "hidden"
    if was_undone(here):
        return "back"
    return "same" if (here.scope, here.content_hash) == (memory.scope, memory.content_hash) else "differs"


def was_undone(here: Memory) -> bool:
    """Whether a memory came by a run that was taken back since: it is as good as not here."""
    return here.state == "forgotten" and here.forgotten_reason == "undone"


def memory_of(fields: Mapping[str, Any], now: float) -> Memory:
    """The memory that the fields of an item make; without an id it gets one that is always the same for its text."""
    named = {name: tuple(fields[name]) for name in ("tags", "entities", "source_turns") if name in fields}
    count, created = fields.get("access_count", 0), fields.get("created_at", now)
    defaults: dict[str, Any] = {
        "id": "", "scope": DEFAULT_SCOPE, "provenance": "import", "created_at": created, "updated_at": created,
        "access_days": min(count, 1),
    }  # fmt: skip
    if "forgotten_at" in fields:
        defaults["forgotten_reason"] = "request"
    memory = {**defaults, **fields, **named}
    episode = memory.get("session", "") if memory.get("type") == "episodic" else None
    memory["content_hash"] = content_hash(
        memory.get("author", ""), memory["content"], event_at=memory.get("event_at"), episode_of=episode
    )
    memory["id"] = memory["id"] or stable_id("import", memory["scope"], memory["content_hash"])
    return Memory(**memory, asks=ends_with_question(memory["content"]))


# -- what hangs on memories, or stands beside them


def change_for(kind: str, fields: Mapping[str, Any], stores: Stores, census: Census) -> Edge | RecordChange | None:
    """The change that stores a thing, None where ours is kept. Raises ValueError where it has no place here."""
    return _CHANGES[kind](fields, stores, census)


def _version(fields: Mapping[str, Any], stores: Stores, census: Census) -> Edge | RecordChange | None:
    memory = fields["memory"]
    about = census.find(stores, memory)
    if about is None:
        raise ValueError(_NOT_HERE)
    if memory in census.differing:
        return None
    if fields["number"] >= about.version:
        raise ValueError(f"number: the memory itself is version {about.version}")
    created = fields.get("created_at", census.now)
    version = Version(
        memory=memory, number=fields["number"], content=fields["content"], context=fields.get("context", ""),
        type=fields.get("type", "semantic"), tags=tuple(fields.get("tags", ())), metadata=fields.get("metadata", {}),
        sensitivity=_as_its_memory(fields, about), change_summary=fields.get("change_summary", ""), created_at=created,
        replaced_at=fields.get("replaced_at", created),
    )  # fmt: skip
    payload = version_payload(version) | _origins(fields, stores, census)
    return RecordChange(version_key(memory, version.number), None, payload, about.scope)


def _edge(fields: Mapping[str, Any], stores: Stores, census: Census) -> Edge | RecordChange | None:
    a, b, kind = fields["a"], fields["b"], fields.get("kind", "manual")
    one, other = census.find(stores, a), census.find(stores, b)
    if one is None or other is None:
        raise ValueError("it leads to a memory that is not here")
    if census.differing & {a, b}:
        return None
    if a == b:
        raise ValueError("it joins a memory to itself")
    if one.scope != other.scope:
        raise ValueError("its ends lie in different scopes")
    as_of = fields.get("as_of", census.now)
    edge = Synapse(a, b, kind, fields["weight"], as_of, fields.get("created_at", as_of), fields.get("label", ""))
    if kind in ASSOCIATIVE:
        edge = associate(a, b, kind, edge.weight, as_of, label=edge.label)._replace(created_at=edge.created_at)
    return None if stores.synapses.get(edge.key) else Edge(edge.key, None, edge, one.scope)


def _comment(fields: Mapping[str, Any], stores: Stores, census: Census) -> Edge | RecordChange | None:
    about = census.find(stores, fields["memory"])
    if about is None:
        raise ValueError(_NOT_HERE)
    if fields["memory"] in census.differing:
        return None
    named = fields.get("id") or census.id_for(
        "comment", fields["memory"], _dated(fields, "created_at"), fields["content"]
    )
    reply = census.replies.get(named, fields.get("reply_to")) or None
    if reply is not None and reply not in census.replies and not stores.records.get([key_of(reply)]):
        reply = None
    created, read = fields.get("created_at", census.now), fields.get("read", False)
    comment = Comment(
        id=named, memory=fields["memory"], scope=about.scope, author=fields.get("author", "ai"), reply_to=reply,
        content=fields["content"], sensitivity=_as_its_memory(fields, about), created_at=created, read=read,
        read_at=fields.get("read_at", created) if read else None,
    )  # fmt: skip
    payload = comment_payload(comment) | _origins(fields, stores, census)
    return RecordChange(key_of(comment.id), None, payload, about.scope)


def _fact(fields: Mapping[str, Any], _stores: Stores, census: Census) -> Edge | RecordChange | None:
    scope, created = fields.get("scope", DEFAULT_SCOPE), fields.get("created_at", census.now)
    key, payload = fact_payload(
        scope, fields["key"], fields["value"], fields["sensitivity"], created, fields.get("updated_at", created)
    )
    return RecordChange(key, None, payload, scope)


def _turn(fields: Mapping[str, Any], _stores: Stores, census: Census) -> Edge | RecordChange | None:
    scope, at = fields.get("scope", DEFAULT_SCOPE), fields.get("at", census.now)
    census.turns += 1
    named = fields.get("id") or census.id_for("turn", scope, fields["session"], _dated(fields, "at"), fields["content"])
    turn = Turn(**{"role": "user", "number": census.turns, **fields, "id": named, "scope": scope, "at": at})
    return RecordChange(turn.key, None, turn_payload(turn), scope)


def _state(fields: Mapping[str, Any], stores: Stores, census: Census) -> Edge | RecordChange | None:
    """A state, unless its scope has states of its own: a higher number would put an older one in front of them."""
    scope = fields.get("scope", DEFAULT_SCOPE)
    if scope not in census.states:
        census.states[scope] = any(one.scope == scope for one in stores.talk.states(scope, SENSITIVITIES[-1]))
    if census.states[scope]:
        return None
    state = State(**{"number": 1, "written_at": census.now, **fields, "scope": scope})
    return RecordChange(state.key, None, state_payload(state), scope)


def _dated(fields: Mapping[str, Any], name: str) -> str:
    """The time that an id is made of: never now, since the same file must make the same id tomorrow."""
    return repr(fields[name]) if name in fields else ""


def _origins(fields: Mapping[str, Any], stores: Stores, census: Census) -> dict[str, list[str]]:
    """Whose a merge took it from: of what is not here, nothing is to be remembered."""
    here = [one for one in fields.get("origins", ()) if census.find(stores, one) is not None]
    return {"origins": here} if here else {}


def _as_its_memory(fields: Mapping[str, Any], about: Known) -> str:
    """As sensitive as it says, else as its memory and as the gate found."""
    return str(fields.get("sensitivity") or max(about.sensitivity, fields["floor"], key=SENSITIVITIES.index))


_CHANGES: Final[Mapping[str, Callable[[Mapping[str, Any], Stores, Census], Edge | RecordChange | None]]] = {
    "version": _version, "edge": _edge, "comment": _comment, "fact": _fact, "turn": _turn, "session_state": _state,
}  # fmt: skip
