"""The nouns: memory, synapse, version, and the closed sets of words that describe them.

Instants inside are epoch seconds (float, UTC): arithmetic on them cannot meet a naive time. They become RFC 3339 at the
wire (`daemon.wire`). A field that is None is absent from the payload.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

DAY: Final = 86_400.0  # seconds

TIERS: Final = ("short", "long", "core")  # retention class, rising
HEATS: Final = ("cold", "warm", "hot")  # temperature, rising
SENSITIVITIES: Final = ("public", "personal", "confidential", "secret")  # rising
TYPES: Final = ("semantic", "episodic", "procedural", "active")
SOURCES: Final = ("stated", "inferred", "learned")
PROVENANCES: Final = ("direct", "sync", "import", "consolidation", "extraction", "mcp")
STATES: Final = ("live", "superseded", "forgotten")
EDGE_KINDS: Final = ("hebbian", "manual", "concept", "similar", "next", "derived")

#: Authors that are parts in a conversation: a question about "the user" names nobody.
ROLES: Final = frozenset({"user", "assistant", "system", "tool", "ai", "human", "agent", "bot", "model", "me"})

MAX_ID_CHARS: Final = 128
MAX_CONTENT_BYTES: Final = 256 * 1024
MAX_CONTEXT_BYTES: Final = 1024 * 1024
MAX_EDGE_WEIGHT: Final = 10.0
DEFAULT_SCOPE: Final = "default"
EVERY_SCOPE: Final = "*"

_POINTS: Final = uuid.UUID("6f9a52d2-5c1e-5d0b-9a0e-64726561640a")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory; with `content` and `context` empty, it is its row in the catalogue.

    `asks` says that the text ends with a question; `seq` rises with every stored write of it, `version` with edits only.
    `access_days` counts the days on which it was accessed, `cooled_at_count` is `access_count` at the last demotion.
    """

    id: str
    content: str = ""
    context: str = ""
    author: str = ""
    scope: str = DEFAULT_SCOPE
    session: str = ""
    type: str = "semantic"
    subtype: str = ""
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    tier: str = "short"
    heat: str = "warm"
    pinned: bool = False
    emotion: float = 0.5
    importance: float = 0.5
    confidence: float = 1.0
    source: str = "stated"
    provenance: str = "direct"
    sensitivity: str = "personal"
    source_turns: tuple[str, ...] = ()
    redactions: dict[str, int] = field(default_factory=dict)
    version: int = 1
    change_summary: str = ""
    seq: int = 1
    created_at: float = 0.0
    updated_at: float = 0.0
    event_at: float | None = None
    accessed_at: float | None = None
    access_count: int = 0
    access_days: int = 0
    cooled_at_count: int = 0
    expires_at: float | None = None
    invalid_at: float | None = None  # superseded since
    superseded_by: str | None = None
    forgotten_at: float | None = None
    forgotten_reason: str = ""
    content_hash: str = ""
    asks: bool = False

    @property
    def state(self) -> str:
        """`live`, `superseded` (a newer memory took its place) or `forgotten` (in the bin, restorable)."""
        if self.invalid_at is not None:
            return "superseded"
        return "live" if self.forgotten_at is None else "forgotten"

    @property
    def used_at(self) -> float:
        """The last access or edit, which retention counts from."""
        return max(self.created_at, self.updated_at, self.accessed_at or 0.0)

    @property
    def happened_at(self) -> float:
        """When it happened where that is known, else when it was created; `since` and `until` test this."""
        return self.created_at if self.event_at is None else self.event_at


#: Fields that tuples in memory are lists in the payload.
TUPLES: Final = frozenset({"tags", "entities", "source_turns"})
FIELDS: Final = tuple(f.name for f in fields(Memory))


class Synapse(NamedTuple):
    """An edge between two memories of one scope: its weight was `weight` at `as_of` and has faded since.

    For `next` and `derived` the direction counts (a came before b; a summarises b); all others have a < b.
    """

    a: str
    b: str
    kind: str
    weight: float
    as_of: float
    created_at: float
    label: str = ""

    @property
    def key(self) -> str:
        """The edge's point id: one associative edge a pair, beside at most one `next` and one `derived`."""
        return synapse_key(self.a, self.b, self.kind)

    def other(self, memory: str) -> str:
        """The end that is not `memory`."""
        return self.b if memory == self.a else self.a


class Version(NamedTuple):
    """A former text of a memory: what version `number` said, until `replaced_at`."""

    memory: str
    number: int
    content: str
    context: str
    type: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    sensitivity: str
    change_summary: str
    created_at: float
    replaced_at: float


def point_id(memory: str) -> str:
    """The engine's id of a memory: UUIDv5 of its own id."""
    return str(uuid.uuid5(_POINTS, memory))


def synapse_key(a: str, b: str, kind: str) -> str:
    """The engine's id of an edge: UUIDv5 of the sorted pair and, for `next` and `derived`, the kind."""
    low, high = sorted((a, b))
    slot = kind if kind in ("next", "derived") else ""
    return str(uuid.uuid5(_POINTS, f"{low}\0{high}\0{slot}"))


def prefixes(scope: str) -> Iterator[str]:
    """Every scope that sees `scope`, coarsest first: `a/b` -> `a`, `a/b`."""
    parts = scope.split("/")
    for n in range(1, len(parts) + 1):
        yield "/".join(parts[:n])


def covers(coarse: str, scope: str) -> bool:
    """Whether reading `coarse` sees what lies in `scope`."""
    return coarse in (EVERY_SCOPE, scope) or scope.startswith(coarse + "/")


def cleared(sensitivity: str, clearance: str) -> bool:
    """Whether a caller with `clearance` may see something of `sensitivity`."""
    return SENSITIVITIES.index(sensitivity) <= SENSITIVITIES.index(clearance)


def content_hash(author: str, content: str, *, event_at: float | None, episode_of: str | None) -> str:
    """SHA-256 over what makes two memories the same one: author, text, the event's time and, for episodes, the session."""
    parts = (
        author,
        content,
        "" if event_at is None else repr(event_at),
        "" if episode_of is None else f"episode:{episode_of}",
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def ends_with_question(content: str) -> bool:
    """Whether the last 60 characters ask something, in any script's question mark."""
    return any(mark in content[-60:] for mark in "?？؟՞፧⁇")


def is_role(author: str) -> bool:
    """Whether an author is a part in a conversation, not somebody with a name."""
    return author.lower() in ROLES


def scored_text(author: str, content: str) -> str:
    """What is embedded and tokenised: the author's name belongs to the text (worth .03 of R@5 on LoCoMo), a role does not."""
    return f"{author}: {content}" if author and not is_role(author) else content
