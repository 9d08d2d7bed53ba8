"""Comments on memories: a record each under the memory that it is about, and a row each in RAM without its text.

A comment can be seen where its memory can be seen, in whatever state that is, and where its own level is cleared. It is
neither an access nor an edit of the memory. All calls are made in the lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from storage.catalogue import Catalogue
from storage.engine import Payload
from storage.errors import NotFound, Refused, command
from storage.memories import binned, missing
from storage.model import EVERY_SCOPE, SENSITIVITIES, Memory, cleared, covers
from storage.records import Records, owner_of, record_key
from storage.where import visible

READER: Final = "ai"  # who the unread ones wait for: what it says itself is born read
MOST: Final = 500  # comments in one answer


class Row(NamedTuple):
    """What is known of a comment in RAM."""

    id: str
    memory: str
    scope: str
    sensitivity: str
    created_at: float
    read: bool
    reply_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment with its text; `reply_to` is the comment that it answers, if that is still there and may be seen."""

    id: str
    memory: str
    scope: str
    author: str
    content: str
    sensitivity: str
    created_at: float
    reply_to: str | None = None
    read: bool = False
    read_at: float | None = None


class Selected(NamedTuple):
    """Comments, oldest first, and how many unread ones there are where they were looked for."""

    comments: list[Comment]
    unread: int


class Marked(NamedTuple):
    """How many comments are read now, and which ids do not exist."""

    read: int
    missing: list[str]


class Comments:
    """Comments by id, by memory, and by what they reply to."""

    kind = "comment"
    fields: Sequence[str] = ("owner", "id", "scope", "sensitivity", "created_at", "read", "reply_to")

    def __init__(self, records: Records, catalogue: Catalogue) -> None:
        self._records = records
        self._catalogue = catalogue
        self.clear()
        records.register(self)

    # -- the index

    def clear(self) -> None:
        """Know of none."""
        self._rows: dict[str, Row] = {}  # by record key
        self._of: dict[str, dict[str, None]] = {}  # memory -> record keys
        self._replies: dict[str, dict[str, None]] = {}  # comment id -> record keys of what answers it

    def put(self, key: str, payload: Payload) -> None:
        """Know of a comment as it is stored; a merge may have given it to another memory."""
        self.drop(key)
        row = self._rows[key] = Row(
            payload["id"], payload["owner"], payload["scope"], payload["sensitivity"], payload["created_at"],
            payload["read"], payload.get("reply_to"),
        )  # fmt: skip
        self._of.setdefault(row.memory, {})[key] = None
        if row.reply_to is not None:
            self._replies.setdefault(row.reply_to, {})[key] = None

    def drop(self, key: str) -> None:
        """Know of a comment no more."""
        row = self._rows.pop(key, None)
        if row is not None:
            _take(self._of, row.memory, key)
            if row.reply_to is not None:
                _take(self._replies, row.reply_to, key)

    # -- what may be asked

    def add(
        self, memory: str, content: str, author: str, now: float, new_id: str, *, clearance: str = "secret",
        reply_to: str | None = None, floor: str | None = None,
    ) -> Comment:  # fmt: skip
        """Comment on a memory; texts are as they left the gate, `floor` is what it raised them to.

        Raises NotFound where memory or `reply_to` cannot be seen, Refused where they lie in different scopes, Conflict where
        another memory took the place of this one.
        """
        about = self._about(memory, clearance, now)
        if about.state == "superseded":  # there it would wait for nobody, beside those that a merge took along
            raise binned(self._catalogue, about, clearance, now)
        if reply_to is not None:
            answered = self._visible(reply_to, clearance, now)
            if answered is None:
                raise self._missing(reply_to, clearance)
            if answered.scope != about.scope:
                raise Refused(
                    f"Comment {reply_to!r} is about a memory of another scope; no reply crosses scopes.",
                    hint=command("comments", memory),
                )
        read = author.lower() == READER
        created_at = self._catalogue.stamp(now)
        comment = Comment(
            id=new_id, memory=memory, scope=about.scope, author=author, content=content, created_at=created_at,
            sensitivity=max(about.sensitivity, floor or about.sensitivity, key=SENSITIVITIES.index), reply_to=reply_to,
            read=read, read_at=created_at if read else None,
        )  # fmt: skip
        self._records.put({key_of(new_id): to_payload(comment)})
        return comment

    def select(
        self, now: float, *, clearance: str = "secret", memory: str | None = None, scope: str = EVERY_SCOPE,
        unread: bool = False, limit: int = MOST,
    ) -> Selected:  # fmt: skip
        """The comments on one memory, or on all that reading a scope sees; oldest first, at most `limit`.

        Without a memory, what lies in the bin waits for nobody: its comments neither count as unread nor are asked for
        by `unread`. Raises NotFound for a memory that cannot be seen.
        """
        if memory is not None:
            self._about(memory, clearance, now)
        seen: list[tuple[str, Row]] = []
        waiting: list[tuple[str, Row]] = []
        for key, row in self._rows_of(memory):
            commented = self._catalogue.get(row.memory)
            if commented is None or not covers(scope, row.scope) or not _seen(row, commented, clearance, now):
                continue
            seen.append((key, row))
            if not row.read and (memory is not None or commented.state == "live"):
                waiting.append((key, row))
        wanted = sorted(waiting if unread else seen, key=lambda one: (one[1].created_at, one[1].id))[:limit]
        payloads = self._records.get([key for key, _ in wanted])
        whole = [from_payload(payloads[key]) for key, _ in wanted if key in payloads]
        return Selected([self._masked(comment, clearance, now) for comment in whole], len(waiting))

    def mark_read(self, ids: Sequence[str], now: float, *, clearance: str = "secret") -> Marked:
        """Note that comments were read; those that were keep the time of it. One missing id alone is NotFound."""
        named = {one: self._visible(one, clearance, now) for one in ids}
        unknown = [one for one, row in named.items() if row is None]
        if len(named) == len(unknown) == 1:
            raise self._missing(unknown[0], clearance)
        payloads = self._records.get([key_of(row.id) for row in named.values() if row is not None and not row.read])
        self._records.put({key: payload | {"read": True, "read_at": now} for key, payload in payloads.items()})
        return Marked(len(named) - len(unknown), unknown)

    # -- what goes

    def of(self, memories: Iterable[str]) -> list[str]:
        """The record keys of all comments on these memories."""
        return [key for memory in memories for key in self._of.get(memory, ())]

    def release(self, keys: Iterable[str]) -> None:
        """Take away what points at comments that are about to go: a reply elsewhere stays, and answers nothing then."""
        gone = {key: self._rows[key].id for key in keys if key in self._rows}
        left = [reply for one in gone.values() for reply in self._replies.get(one, ()) if reply not in gone]
        payloads = self._records.get(left)
        self._records.put(
            {key: {name: value for name, value in payload.items() if name != "reply_to"}
             for key, payload in payloads.items()}
        )  # fmt: skip

    def _rows_of(self, memory: str | None) -> Iterable[tuple[str, Row]]:
        return self._rows.items() if memory is None else ((key, self._rows[key]) for key in self._of.get(memory, ()))

    def _about(self, memory: str, clearance: str, now: float) -> Memory:
        row = self._catalogue.get(memory)
        if row is None or not visible(row, clearance, now):
            raise missing(memory, row, clearance)
        return row

    def _visible(self, comment: str, clearance: str, now: float) -> Row | None:
        row = self._rows.get(key_of(comment))
        memory = None if row is None else self._catalogue.get(row.memory)
        return row if row is not None and memory is not None and _seen(row, memory, clearance, now) else None

    def _masked(self, comment: Comment, clearance: str, now: float) -> Comment:
        """The comment without the id of one that it answers and the caller may not know of."""
        if comment.reply_to is None or self._visible(comment.reply_to, clearance, now) is not None:
            return comment
        return replace(comment, reply_to=None)

    def _missing(self, comment: str, clearance: str) -> NotFound:
        """The one answer for a comment that does not exist or cannot be seen."""
        row = self._rows.get(key_of(comment))
        memory = None if row is None else self._catalogue.get(row.memory)
        levels = [one.sensitivity for one in (row, memory) if one is not None]
        hidden = [level for level in levels if not cleared(level, clearance)]
        withheld = max(hidden, key=SENSITIVITIES.index, default=None)
        return NotFound(f"There is no comment {comment!r}.", hint="dreamctl comments --scope '*'", withheld=withheld)


def key_of(comment: str) -> str:
    """The engine's id of a comment's record, the same whichever memory it is about."""
    return record_key(_OWNER, comment)


def to_payload(comment: Comment) -> Payload:
    """A comment as it is stored, under its memory; what is None is left out."""
    told: dict[str, Any] = {name: getattr(comment, name) for name in _FIELDS}
    return {"kind": Comments.kind, "owner": told.pop("memory")} | {
        name: value for name, value in told.items() if value is not None
    }


def from_payload(payload: Payload) -> Comment:
    """The comment in a payload."""
    known = {name: payload[name] for name in _FIELDS if name in payload}
    return Comment(**known | {"memory": payload["owner"]})


_FIELDS: Final = tuple(one.name for one in fields(Comment))
_OWNER: Final = owner_of("comments")


def _seen(row: Row, memory: Memory, clearance: str, now: float) -> bool:
    """Whether a comment on this memory is shown."""
    return cleared(row.sensitivity, clearance) and visible(memory, clearance, now)


def _take(index: dict[str, dict[str, None]], name: str, key: str) -> None:
    """Take a record out of an index, and the name with its last record."""
    del index[name][key]
    if not index[name]:
        del index[name]
