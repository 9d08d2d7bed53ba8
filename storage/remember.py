"""What a `remember` or an `update` does: create, edit, reinforce or bring back. All calls are made in the lane.

A write takes two steps. `text_to_embed` says which text needs vectors, if any; the embedder makes them in its own lane;
`remember` or `update` then decides again on what is true by that time, and asks for vectors (`NeedsVectors`) where the
answer changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from storage.catalogue import NEUTRAL, Catalogue
from storage.engine import Engine, Query, Vector
from storage.errors import Conflict, Invalid, Refused
from storage.memories import LIVE, Memories, Vectors, missing
from storage.model import (
    SENSITIVITIES,
    Memory,
    Synapse,
    Version,
    cleared,
    content_hash,
    ends_with_question,
    scored_text,
)
from storage.records import Records
from storage.synapses import Synapses, associate
from storage.where import Where

#: Edits of these make a new version, and stand in its change summary.
VERSIONED: Final = ("content", "type", "tags", "metadata", "sensitivity")
CONNECT_WEIGHT: Final = 2.0  # a manual edge, as `connect` makes it
NEXT_WEIGHT: Final = 1.0
NEIGHBOURS: Final = 12  # asked for, so that three of exactly this scope are among them


class NeedsVectors(Exception):
    """The write needs the vectors of `text`, which were not made yet."""

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
    """What a write did, and to which version of which memory."""

    memory: Memory
    created: bool
    restored: bool = False


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
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._memories = memories
        self._synapses = synapses
        self._records = records
        self._default_sensitivity = default_sensitivity

    def text_to_embed(self, write: Write) -> str | None:
        """The text whose vectors this write needs; None where it needs none or will be refused."""
        fields = write.fields
        row = self._catalogue.get(fields["id"]) if "id" in fields else None
        if row is None:
            known = "id" not in fields and self._same(write)
            return None if known else scored_text(fields.get("author", ""), fields.get("content", ""))
        if row.state != "live" or not {"content", "author"} & fields.keys():
            return None
        content = fields["content"] if "content" in fields else self._memories.read_one(row.id).content
        return scored_text(fields.get("author", row.author), content)

    def remember(self, write: Write, vectors: Vectors | None, now: float, new_id: str) -> Written:
        """Create a memory, or do what its id or its content says of one that exists."""
        fields = write.fields
        if "id" in fields and (row := self._catalogue.get(fields["id"])) is not None:
            self._check_reusable(row, write)
            return self.update(row.id, write, vectors, now)
        if "content" not in fields:
            raise Invalid("`content` is missing.", hint='dreamctl remember "text"', field="content")
        if "id" not in fields and (known := self._same(write)) is not None:
            return self._again(known, write, now)
        if vectors is None:
            raise NeedsVectors(scored_text(fields.get("author", ""), fields["content"]))
        return Written(self._create(write, vectors, now, fields.get("id", new_id)), created=True)

    def update(
        self, memory: str, write: Write, vectors: Vectors | None, now: float, *, if_version: int | None = None
    ) -> Written:
        """Edit the fields given; an edit of content, type, tags, metadata or sensitivity makes a new version."""
        row = self._visible_live(memory, write.clearance)
        if if_version is not None and if_version != row.version:
            raise Conflict(
                f"Memory {memory!r} is at version {row.version}, not {if_version}.",
                hint=f"dreamctl get {memory}", version=row.version,
            )  # fmt: skip
        if write.fields.get("scope", row.scope) != row.scope:
            raise Invalid(
                "A memory cannot change its scope.",
                hint="Remember it in the other scope and forget this one.",
                field="scope",
            )
        former = self._memories.read_one(memory)
        changed = self._changes(former, write)
        if not changed:
            return Written(former, created=False)
        if {"content", "author"} & changed.keys() and vectors is None:
            raise NeedsVectors(
                scored_text(changed.get("author", former.author), changed.get("content", former.content))
            )
        return Written(self._edit(former, changed, vectors, now), created=False)

    def revert(self, memory: str, version: Version, write: Write, vectors: Vectors | None, now: float) -> Written:
        """Edit a memory back to what a former version said; that is itself a new version."""
        fields = {"content": version.content, "context": version.context, "type": version.type, "tags": version.tags}
        return self.update(memory, write._replace(fields=fields | {"metadata": version.metadata}), vectors, now)

    # -- deciding

    def _same(self, write: Write) -> Memory | None:
        """The memory that this content already is: a live one first, else one that was forgotten."""
        fields = write.fields
        rows = self._catalogue.same_content(fields.get("scope", "default"), _hash(fields))
        rows = [row for row in rows if row.state != "superseded" and cleared(row.sensitivity, write.clearance)]
        return min(rows, key=lambda row: (row.state != "live", row.created_at, row.id), default=None)

    def _again(self, row: Memory, write: Write, now: float) -> Written:
        """Known content: a live memory is reinforced once, a forgotten one comes back. Marks are only ever raised."""
        fields: dict[str, Any] = {"accessed_at": now, "access_count": row.access_count + 1}
        wanted = _highest(write.fields.get("sensitivity"), write.fields.get("sensitivity_floor"), row.sensitivity)
        if wanted != row.sensitivity:
            fields["sensitivity"] = wanted
        expired = row.expires_at is not None and row.expires_at <= now
        if expired:
            fields["expires_at"] = write.fields.get("expires_at")
        if row.state == "live":
            self._memories.patch({row.id: fields})
        else:
            self._memories.move({row.id: fields | {"forgotten_at": None, "forgotten_reason": ""}})
        return Written(self._memories.row(row.id), created=False, restored=row.state != "live" or expired)

    def _check_reusable(self, row: Memory, write: Write) -> None:
        if not cleared(row.sensitivity, write.clearance):
            raise missing(row.id)
        if write.fields.get("scope", "default") != row.scope:
            raise Conflict(f"The id {row.id!r} is taken in another scope.", hint="Choose another id, or leave it out.")
        if row.state != "live":
            raise Conflict(f"Memory {row.id!r} is {row.state}.", hint=f"dreamctl restore {row.id}", state=row.state)

    def _visible_live(self, memory: str, clearance: str) -> Memory:
        row = self._memories.row(memory)
        if not cleared(row.sensitivity, clearance):
            raise missing(memory)
        if row.state != "live":
            raise Conflict(f"Memory {memory!r} is {row.state}.", hint=f"dreamctl restore {memory}", state=row.state)
        return row

    def _changes(self, former: Memory, write: Write) -> dict[str, Any]:
        """The fields that really change, with what follows from them."""
        given = {
            name: value
            for name, value in write.fields.items()
            if name not in ("id", "scope", "sensitivity_floor", "connect_to")
        }
        floor = write.fields.get("sensitivity_floor")
        given["sensitivity"] = _highest(given.get("sensitivity", former.sensitivity), floor)
        changed = {name: value for name, value in given.items() if getattr(former, name) != value}
        if {"content", "author", "event_at", "session", "type"} & changed.keys():
            after = replace(former, **changed)
            changed["content_hash"] = _hash_of(after)
            twins = [
                row
                for row in self._catalogue.same_content(former.scope, changed["content_hash"])
                if row.id != former.id
            ]
            twin = next(
                (row for row in twins if row.state == "live" and cleared(row.sensitivity, write.clearance)), None
            )
            if twin is not None:
                raise Conflict(
                    f"Memory {twin.id!r} already says this.",
                    hint=f"dreamctl merge {twin.id} {former.id}",
                    duplicate_of=twin.id,
                )
        if "content" in changed:
            changed["asks"] = ends_with_question(changed["content"])
            changed["entities"] = self._entities(former.scope, changed.get("author", former.author), changed["content"])
            changed["redactions"] = dict(write.redactions)
        return changed

    # -- doing

    def _edit(self, former: Memory, changed: dict[str, Any], vectors: Vectors | None, now: float) -> Memory:
        versioned = [name for name in VERSIONED if name in changed]
        if versioned:
            self._records.add_version(_version(former, now))
            changed |= {"version": former.version + 1, "change_summary": f"{', '.join(versioned)} changed"}
        if "content" in changed:
            changed["updated_at"] = now
        if vectors is not None:
            edited = self._memories.rewrite(replace(former, **changed), vectors)
        else:
            self._memories.patch({former.id: changed})
            edited = self._memories.read_one(former.id)
        if "session" in changed:
            moved = [edge.key for edge in self._synapses.of(former.id) if edge.kind == "next"]
            self._synapses.drop(moved)
        return edited

    def _create(self, write: Write, vectors: Vectors, now: float, new_id: str) -> Memory:
        fields = dict(write.fields)
        connect_to = fields.pop("connect_to", ())
        floor = fields.pop("sensitivity_floor", None)
        scope = fields.get("scope", "default")
        self._check_ends(connect_to, scope, write.clearance)
        fields["sensitivity"] = _highest(fields.get("sensitivity", self._default_sensitivity), floor)
        if "emotion" not in fields:
            fields["emotion"] = self._inherited_emotion(scope, vectors.dense, now)
        created_at = self._catalogue.stamp(now)
        memory = Memory(**fields | {
            "id": new_id, "created_at": created_at, "updated_at": created_at, "provenance": write.provenance,
            "redactions": dict(write.redactions), "content_hash": _hash(fields), "asks": ends_with_question(fields["content"]),
            "entities": self._entities(scope, fields.get("author", ""), fields["content"]),
        })  # fmt: skip
        last = self._catalogue.last_in_session(scope, memory.session) if memory.session else None
        self._memories.insert([(memory, vectors)])
        edges = [associate(memory.id, other, "manual", CONNECT_WEIGHT, created_at) for other in connect_to]
        if last is not None:
            edges.append(Synapse(last, memory.id, "next", NEXT_WEIGHT, created_at, created_at))
        self._synapses.put(edges)
        return memory

    def _check_ends(self, ends: Sequence[str], scope: str, clearance: str) -> None:
        for end in ends:
            row = self._visible_live(end, clearance)
            if row.scope != scope:
                raise Refused(
                    f"Memory {end!r} lies in another scope; no edge crosses scopes.", hint=f"dreamctl get {end}"
                )

    def _entities(self, scope: str, author: str, content: str) -> tuple[str, ...]:
        return tuple(sorted(self._catalogue.names_in(scope, content) - {author}))

    def _inherited_emotion(self, scope: str, dense: Vector, now: float) -> float:
        """P * mean of the three nearest + (1 - p) / 2; p = .05 where they agree (variance <= .02), .15 where not."""
        if not self._catalogue.scope(scope).felt:
            return NEUTRAL
        where = Where(now=now, scope=scope)
        scored = self._engine.search(LIVE, [Query(dense, where.condition(), NEIGHBOURS)])[0]
        near = [row for row in (self._catalogue.at_point(one.id) for one in scored) if row is not None]
        felt = [row.emotion for row in near if row.scope == scope and where.admits(row)][:3]
        if not felt:
            return NEUTRAL
        mean = sum(felt) / len(felt)
        variance = sum((emotion - mean) ** 2 for emotion in felt) / len(felt)
        pull = 0.15 if variance > 0.02 else 0.05
        return pull * mean + (1 - pull) * NEUTRAL


def _version(former: Memory, now: float) -> Version:
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
