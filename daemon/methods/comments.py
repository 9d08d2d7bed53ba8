"""Methods for comments on memories. To comment is neither an access nor an edit of the memory."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field
from typing_extensions import TypedDict

from daemon.methods.embedding import admitted
from daemon.methods.filters import read_scope
from daemon.parts import Parts
from daemon.wire import Id, Method, Scoped, Writing
from storage.comments import MOST, READER, Comment, Marked, Selected
from storage.errors import Invalid
from storage.gate import Admitted
from storage.instants import format_instant
from storage.model import EVERY_SCOPE
from storage.text import is_blank

MAX_IDS: Final = 1_000

CommentId = Annotated[str, Field(min_length=1, max_length=128, description="A comment's id.")]


class CommentParams(Writing):
    """What to say about a memory."""

    id: Id
    content: str = Field(description="The comment, at most 64 KiB.")
    author: str = Field(
        default=READER,
        description=f"Who says it. {READER!r} is who reads the comments: its own are read from the start, all others unread.",
    )
    reply_to: CommentId | None = Field(default=None, description="The comment that it answers, in the same scope.")


class CommentsParams(Scoped):
    """Which comments to show."""

    id: Id | None = Field(default=None, description="Only those on this memory, whatever its scope.")
    unread: bool = Field(default=False, description="Only what is unread; without an id, on live memories.")


class MarkParams(Writing):
    """Which comments were read."""

    ids: list[CommentId] = Field(max_length=MAX_IDS, description="Their ids.")


class Commented(TypedDict):
    """The comment that was made, and what was masked in it."""

    id: str
    memory: str
    created_at: str
    redactions: dict[str, int]


class CommentShape(TypedDict):
    """A comment; `reply_to` is null where it answers none that is there and may be seen."""

    id: str
    memory: str
    author: str
    content: str
    reply_to: str | None
    created_at: str
    read: bool
    read_at: str | None


class Comments(TypedDict):
    """Comments, oldest first, and how many unread ones there are, shown or not."""

    comments: list[CommentShape]
    unread: int


class MarkedRead(TypedDict):
    """How many of them are read now, and which ids do not exist."""

    read: int
    missing: list[str]


async def comment(parts: Parts, params: CommentParams) -> Commented:
    """Say something about a memory."""
    if is_blank(params.author):
        raise Invalid("The author is blank.", hint=f"Leave it out for {READER!r}.", field="author")
    kept = await admitted(parts, {"comment": params.content, "author": params.author})
    made = await parts.lane.run(_comment, parts, params, kept)
    parts.meter.count_redactions(kept.redactions)
    return {
        "id": made.id, "memory": made.memory, "created_at": format_instant(made.created_at) or "",
        "redactions": kept.redactions,
    }  # fmt: skip


def _comment(parts: Parts, params: CommentParams, kept: Admitted) -> Comment:
    fields = kept.fields
    made = parts.stores.comments.add(
        params.id, fields["comment"], fields["author"], parts.clock.now(), parts.clock.new_id(),
        clearance=params.clearance, reply_to=params.reply_to, floor=fields.get("sensitivity_floor"),
    )  # fmt: skip
    parts.events.emit("commented", made.scope, [made.memory])
    return made


async def comments(parts: Parts, params: CommentsParams) -> Comments:
    """What was said about one memory, or about all of a scope."""
    selected = await parts.lane.run(_select, parts, params, read_scope(params.scope))
    return {"comments": [shape(one) for one in selected.comments], "unread": selected.unread}


def _select(parts: Parts, params: CommentsParams, scope: str) -> Selected:
    return parts.stores.comments.select(
        parts.clock.now(), clearance=params.clearance, memory=params.id,
        scope=scope if params.id is None else EVERY_SCOPE, unread=params.unread,
    )  # fmt: skip


async def mark_comments_read(parts: Parts, params: MarkParams) -> MarkedRead:
    """Take comments off what is unread."""
    marked = await parts.lane.run(_mark, parts, params)
    return {"read": marked.read, "missing": marked.missing}


def _mark(parts: Parts, params: MarkParams) -> Marked:
    return parts.stores.comments.mark_read(params.ids, parts.clock.now(), clearance=params.clearance)


def shape(one: Comment) -> CommentShape:
    """A comment as it looks on the wire."""
    return {
        "id": one.id, "memory": one.memory, "author": one.author, "content": one.content, "reply_to": one.reply_to,
        "created_at": format_instant(one.created_at) or "", "read": one.read, "read_at": format_instant(one.read_at),
    }  # fmt: skip


METHODS: Final = (
    Method(
        "comment", "talk", CommentParams, Commented, comment, True, "Comment on a memory, or answer a comment.",
        ("id", "content"),
    ),
    Method(
        "comments", "talk", CommentsParams, Comments, comments, False,
        f"Show comments on memories: the {MOST} oldest.", ("id",),
    ),
    Method(
        "mark_comments_read", "talk", MarkParams, MarkedRead, mark_comments_read, True, "Mark comments as read.", ("ids",)
    ),
)  # fmt: skip
