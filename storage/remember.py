"""What a `remember` or an `update` does: create, edit, reinforce or bring back. All calls are made in the lane.

A write takes two steps. `text_to_embed` says which text needs vectors, if any; the embedder makes them in its own lane;
`remember` or `update` then decides again on what is true by that time, and asks for vectors (`NeedsVectors`) where the
answer changed meanwhile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from storage.catalogue import NEUTRAL, Catalogue
from storage.engine import Engine, Query, Vector
from storage.entities import entities_in
from storage.errors import Conflict, Invalid, Refused, command
from storage.learn import accessed
from storage.memories import LIVE, Memories, Vectors, missing
from storage.model import (
    DEFAULT_SCOPE,
    SENSITIVITIES,
    Memory,
    Synapse,
    Version,
    cleared,
    content_hash,
    ends_with_question,
    scored_text,
    synapse_key,
)
from storage.records import Records
from storage.redact import raised_by
from storage.synapses import Synapses, associate
from storage.where import Where

#: Edits of these make a new version, and stand in its change summary.
VERSIONED: Final = ("content", "type", "tags", "metadata", "sensitivity")
CONNECT_WEIGHT: Final = 2.0  # a manual edge, as `connect` makes it
NEXT_WEIGHT: Final = 1.0
FIXED: Final = frozenset({"id", "scope"})  # for good
#: What a write says beside the fields of the memory.
NOT_KEPT: Final = frozenset({"sensitivity_floor", "connect_to"})
NEIGHBOURS: Final = 12  # asked for, so that three of exactly this scope are among them


class NeedsVectors(Exception):
    """The write needs the vectors of `text`; those at hand are another text's, or there are none."""

    def __init__(self, text: str) -> None:
        super().__init__("vectors needed")
        self.text = text


class Write(NamedTuple):
    """A write as it left the gate."""

    fields: Mapping[str, Any]
    redactions: Mapping[str, int]
    clearance: str = "secret"
    provenance: str = "direct"


class Written(NamedTuple):
    """What a write did, and to which version of which memory.

    Of one that was there already, `changed` are the fields that are no longer what they were; `linked` are the memories
    that it was newly connected to by hand, `superseded` those whose place it took.
    """

    memory: Memory
    created: bool
    restored: bool = False
    changed: frozenset[str] = frozenset()
    linked: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


class Writer:
    """Decides about writes, one memory at a time."""

    def __init__(
        self,
        engine: Engine,
        catalogue: Catalogue,
        memories: Memories,
        synapses: Synapses,
        records: Records,
        *,
        default_sensitivity: str,
        find: Callable[[str, str], Sequence[str]] = entities_in,
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._memories = memories
        self._synapses = synapses
        self._records = records
        self._default_sensitivity = default_sensitivity
        self._find = find

    def text_to_embed(self, write: Write, memory: str | None = None) -> str | None:
        """The text whose vectors this write, or this update of `memory`, will need; None where it needs none.

        A guess which saves a round: the write itself asks again where it comes out otherwise.
        """
        fields = write.fields
        if not {"content", "author"} & fields.keys():
            return None
        row = self._catalogue.get(memory or fields.get("id", ""))
        if row is None:
            known = "content" not in fields or ("id" not in fields and self._same(write))
            return None if known else scored_text(fields.get("author", ""), fields["content"])
        if row.state != "live" or not cleared(row.sensitivity, write.clearance):
            return None
        content = fields["content"] if "content" in fields else self._memories.read_one(row.id).content
        return scored_text(fields.get("author", row.author), content)

    def remember(self, write: Write, vectors: Vectors | None, now: float, new_id: str) -> Written:
        """Create a memory, or do what its id or its content says of one that exists."""
        fields = write.fields
        ends = self._ends(write, now)
        if "id" in fields and (row := self._catalogue.get(fields["id"])) is not None:
            self._check_reusable(row, write)
            written = self.update(row.id, write, vectors, now)
        elif "content" not in fields:
            raise Invalid("`content` is missing.", hint='dreamctl remember "text"', field="content")
        elif "id" not in fields and (known := self._same(write)) is not None:
            written = self._again(known, write, now)
        else:
            text = scored_text(fields.get("author", ""), fields["content"])
            created = self._create(write, self._made_from(vectors, text), now, fields.get("id", new_id))
            written = Written(created, created=True)
        return written._replace(linked=self._connect(written.memory.id, ends, now))

    def update(
        self, memory: str, write: Write, vectors: Vectors | None, now: float, *, if_version: int | None = None
    ) -> Written:
        """Edit the fields given; an edit of content, type, tags, metadata or sensitivity makes a new version."""
        row = self._memories.live(memory, write.clearance, now)
        if if_version is not None and if_version != row.version:
            raise Conflict(
                f"Memory {memory!r} is at version {row.version}, not {if_version}.",
                hint=command("get", memory), version=row.version,
            )  # fmt: skip
        if write.fields.get("scope", row.scope) != row.scope:
            raise Invalid(
                "A memory cannot change its scope.",
                hint="Remember it in the other scope and forget this one.",
                field="scope",
            )
        former = self._memories.read_one(memory)
        changed = self._changes(former, write, now)
        if not changed:
            return Written(former, created=False)
        edited = replace(former, **changed)
        text = scored_text(edited.author, edited.content)
        fresh = None if text == scored_text(former.author, former.content) else self._made_from(vectors, text)
        return Written(self._edit(former, changed, fresh, now), created=False, changed=frozenset(changed))

    # -- deciding

    def _made_from(self, vectors: Vectors | None, text: str) -> Vectors:
        """The vectors, if they are those of this text by the embedder of the stored ones. Raises NeedsVectors."""
        if vectors is None or vectors.of != text or vectors.by not in (None, self._records.fingerprint() or vectors.by):
            raise NeedsVectors(text)
        return vectors

    def _same(self, write: Write) -> Memory | None:
        """The memory that this content already is: a live one first, else one that was forgotten."""
        fields = write.fields
        rows = self._catalogue.same_content(fields.get("scope", DEFAULT_SCOPE), _hash(fields))
        rows = [row for row in rows if row.state != "superseded" and cleared(row.sensitivity, write.clearance)]
        return min(rows, key=lambda row: (row.state != "live", row.created_at, row.id), default=None)

    def _again(self, row: Memory, write: Write, now: float) -> Written:
        """Known content: a live memory is reinforced once, a forgotten one comes back. Marks are only ever raised."""
        expired = row.expires_at is not None and row.expires_at <= now
        if row.state != "live":
            self._memories.move({row.id: {"forgotten_at": None, "forgotten_reason": ""}})
        changed = accessed(row, 1, now)
        if expired:
            changed["expires_at"] = write.fields.get("expires_at")
        wanted = _highest(write.fields.get("sensitivity"), write.fields.get("sensitivity_floor"), row.sensitivity)
        if wanted != row.sensitivity:
            changed["sensitivity"] = wanted
        known = self._edit(self._memories.read_one(row.id), changed, None, now)
        back = row.state != "live" or expired
        return Written(known, created=False, restored=back, changed=frozenset(changed))

    def _check_reusable(self, row: Memory, write: Write) -> None:
        if not cleared(row.sensitivity, write.clearance):
            raise missing(row.id, row, write.clearance)
        if write.fields.get("scope", DEFAULT_SCOPE) != row.scope:
            raise Conflict(f"The id {row.id!r} is taken in another scope.", hint="Choose another id, or leave it out.")

    def _changes(self, former: Memory, write: Write, now: float) -> dict[str, Any]:
        """The fields that really change, with what follows from them."""
        given = {name: value for name, value in write.fields.items() if name not in FIXED | NOT_KEPT}
        floors = (write.fields.get("sensitivity_floor"), _floor_of(former, given))
        given["sensitivity"] = _highest(given.get("sensitivity", former.sensitivity), *floors)
        changed = {name: value for name, value in given.items() if _differ(getattr(former, name), value)}
        edited = replace(former, **changed)
        if {"content", "author", "event_at", "session", "type"} & changed.keys():
            changed["content_hash"] = _hash_of(edited)
            self._check_unique(edited, changed["content_hash"], write.clearance, now)
        if {"content", "author", "sensitivity"} & changed.keys():
            changed["entities"] = self.entities_of(edited.scope, edited.author, edited.content, edited.sensitivity)
        if "content" in changed:
            changed["asks"] = ends_with_question(edited.content)
            changed["redactions"] = dict(write.redactions)
        return changed

    def _check_unique(self, edited: Memory, content_hash: str, clearance: str, now: float) -> None:
        where = Where(now=now, clearance=clearance)
        for twin in self._catalogue.same_content(edited.scope, content_hash):
            if twin.id != edited.id and where.admits(twin):
                raise Conflict(
                    f"Memory {twin.id!r} already says this.",
                    hint=command("merge", twin.id, edited.id),
                    duplicate_of=twin.id,
                )

    # -- doing

    def _edit(self, former: Memory, changed: dict[str, Any], vectors: Vectors | None, now: float) -> Memory:
        versioned = [name for name in VERSIONED if name in changed]
        if versioned:
            self._records.add_version(former_version(former, now))
            changed |= {"version": former.version + 1, "change_summary": f"{', '.join(versioned)} changed"}
        if "content" in changed:
            changed["updated_at"] = now
        if vectors is not None:
            edited = self._memories.rewrite(replace(former, **changed), vectors)
        else:
            self._memories.patch({former.id: changed})
            edited = replace(former, **changed, seq=former.seq + 1)
        if "session" in changed:
            self._rechain(edited, now)
        return edited

    def _create(self, write: Write, vectors: Vectors, now: float, new_id: str) -> Memory:
        fields = {name: value for name, value in write.fields.items() if name not in NOT_KEPT}
        scope = fields.get("scope", DEFAULT_SCOPE)
        floor = write.fields.get("sensitivity_floor")
        fields["sensitivity"] = _highest(fields.get("sensitivity", self._default_sensitivity), floor)
        if "emotion" not in fields:
            fields["emotion"] = self._inherited_emotion(scope, vectors.dense, now, write.clearance)
        created_at = self._catalogue.stamp(now)
        memory = Memory(**fields | {
            "id": new_id, "created_at": created_at, "updated_at": created_at, "provenance": write.provenance,
            "redactions": dict(write.redactions), "content_hash": _hash(fields), "asks": ends_with_question(fields["content"]),
            "entities": self.entities_of(scope, fields.get("author", ""), fields["content"], fields["sensitivity"]),
        })  # fmt: skip
        last = self._catalogue.last_in_session(scope, memory.session)
        self._memories.insert([(memory, vectors)])
        if last is not None:
            self._synapses.put([_next(last, memory.id, created_at)])
        return memory

    def _rechain(self, memory: Memory, now: float) -> None:
        """Take a memory out of one session's chain of `next` edges and put it into another's, by the order of creation."""
        joined = [(a, b) for a in self._synapses.before(memory.id) for b in self._synapses.after(memory.id)]
        self._synapses.drop([edge.key for edge in self._synapses.of(memory.id) if edge.kind == "next"])
        members = self._catalogue.session_of(memory)
        if memory.session:
            place = members.index(memory.id)
            earlier, later = members[max(place - 1, 0) : place], members[place + 1 : place + 2]
            self._synapses.drop([synapse_key(a, b, "next") for a in earlier for b in later])
            joined += [(a, memory.id) for a in earlier] + [(memory.id, b) for b in later]
        self._synapses.put([_next(a, b, now) for a, b in joined])

    def _ends(self, write: Write, now: float) -> list[str]:
        """The memories to connect to, if all are live and of the scope that is written; else nothing is stored."""
        ends = list(dict.fromkeys(write.fields.get("connect_to", ())))
        for end in ends:
            row = self._memories.live(end, write.clearance, now)
            if row.scope != write.fields.get("scope", DEFAULT_SCOPE):
                raise Refused(
                    f"Memory {end!r} lies in another scope; no edge crosses scopes.", hint=command("get", end)
                )
        return ends

    def _connect(self, memory: str, ends: Sequence[str], now: float) -> tuple[str, ...]:
        """Join by hand what is not joined yet, and say what that was; a second `remember` of the same adds nothing."""
        fresh = [end for end in ends if end != memory and self._synapses.between(memory, end) is None]
        self._synapses.put([associate(memory, end, "manual", CONNECT_WEIGHT, now) for end in fresh])
        return tuple(fresh)

    def entities_of(self, scope: str, author: str, content: str, sensitivity: str) -> tuple[str, ...]:
        """Whom a text names: the known authors, of those that whoever may see this text may know of, then who is found in it.

        Known authors keep their own spelling, which recall looks for. That nothing is found never fails a write.
        """
        names = {name.casefold(): name for name in sorted(self._catalogue.names_in(scope, content, sensitivity))}
        try:
            found = self._find(content, author)
        except Exception:  # noqa: BLE001 - a heuristic on any text there is
            found = ()
        for name in found:
            if name.casefold().removeprefix("@") not in names:
                names.setdefault(name.casefold(), name)
        names.pop(author.casefold(), None)
        return tuple(map(sys.intern, names.values()))

    def _inherited_emotion(self, scope: str, dense: Vector, now: float, clearance: str) -> float:
        """P * mean of the three nearest + (1 - p) / 2; p = .05 where they agree (variance <= .02), .15 where not."""
        if not self._catalogue.scope(scope).felt:
            return NEUTRAL
        where = Where(now=now, scope=scope, clearance=clearance)
        scored = self._engine.search(LIVE, [Query(dense, where.condition(), NEIGHBOURS)])[0]
        near = [row for row in (self._catalogue.at_point(one.id) for one in scored) if row is not None]
        felt = [row.emotion for row in near if row.scope == scope and where.admits(row)][:3]
        if not felt:
            return NEUTRAL
        mean = sum(felt) / len(felt)
        variance = sum((emotion - mean) ** 2 for emotion in felt) / len(felt)
        pull = 0.15 if variance > 0.02 else 0.05
        return pull * mean + (1 - pull) * NEUTRAL


def former_version(former: Memory, now: float) -> Version:
    """The version record of what a memory said until now."""
    return Version(
        former.id, former.version, former.content, former.context, former.type, former.tags, former.metadata,
        former.sensitivity, former.change_summary, max(former.created_at, former.updated_at), now,
    )  # fmt: skip


def _hash(fields: Mapping[str, Any]) -> str:
    episode = fields.get("session", "") if fields.get("type") == "episodic" else None
    return content_hash(
        fields.get("author", ""), fields.get("content", ""), event_at=fields.get("event_at"), episode_of=episode
    )


def _hash_of(memory: Memory) -> str:
    episode = memory.session if memory.type == "episodic" else None
    return content_hash(memory.author, memory.content, event_at=memory.event_at, episode_of=episode)


def _highest(*levels: str | None) -> str:
    return max((level for level in levels if level is not None), key=SENSITIVITIES.index)


def _floor_of(former: Memory, given: Mapping[str, Any]) -> str | None:
    """What an edited memory may not fall below, by what stays in it: a preference, or a secret that was masked there."""
    if "content" not in given and raised_by(former.redactions):
        return raised_by(former.redactions)
    return "personal" if given.get("subtype", former.subtype) == "preference" else None


def _differ(one: Any, other: Any) -> bool:
    """Whether two values are not the same; in JSON neither true nor 1.0 is 1."""
    if isinstance(one, dict):
        return json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)
    return bool(one != other)


def _next(a: str, b: str, now: float) -> Synapse:
    return Synapse(a, b, "next", NEXT_WEIGHT, now, now)
