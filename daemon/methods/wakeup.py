"""`wakeup`: what an agent reads first, within a budget of tokens. It teaches nothing."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from daemon import shapes
from daemon.methods.context import BATCH, MAX_TOKENS, still_there
from daemon.methods.counting import Cut, counted, cut
from daemon.methods.filters import read_scope
from daemon.methods.talk import StateShape, state_shape
from daemon.parts import Parts
from daemon.shapes import BriefShape
from daemon.wire import Method, Scoped
from storage.comments import Comment
from storage.instants import format_instant
from storage.model import Memory
from storage.talk import Turn
from storage.text import is_blank
from storage.wakeup import KEPT_FIRST, STATE, TURNS, Chosen, allot, beginning, choose, line
from storage.where import Where, visible

COMMENTS: Final = 100  # the oldest unread ones, of which as many are shown as fit
LATEST_LAST: Final = ("timeline", "last_session")  # of these the latest are kept, and shown in the order of time


class WakeupParams(Scoped):
    """What an agent wants to know before it begins."""

    max_tokens: int = Field(default=3000, gt=0, le=MAX_TOKENS, description="What all of it may take.")


class WakeupMemory(BriefShape):
    """A memory, of which `get` shows more; `truncated` where it was cut to fit, its tags first."""

    truncated: NotRequired[bool]


class UnreadComment(TypedDict):
    """A comment that nobody has read, and how the text of its memory begins."""

    id: str
    memory: str
    about: str
    author: str
    content: str
    created_at: str
    reply_to: str | None
    truncated: NotRequired[bool]


class SaidLast(TypedDict):
    """A turn of the session in which something was said last."""

    id: str
    scope: str
    session: str
    role: str
    content: str
    at: str
    truncated: NotRequired[bool]


class WakeupState(StateShape):
    """Where the last one stood."""

    truncated: NotRequired[bool]


class Wakeup(TypedDict):
    """All that an agent needs to stand up; `left_out` is what there was no room for.

    `tokens` is what its texts take, with their authors, tags and what comments are about.
    """

    pinned: list[WakeupMemory]
    active: list[WakeupMemory]
    recent: list[WakeupMemory]
    high_emotion: list[WakeupMemory]
    random_old: list[WakeupMemory]
    unread_comments: list[UnreadComment]
    session_state: WakeupState | None
    timeline: list[str]
    last_session: list[SaidLast]
    tokens: int
    left_out: dict[str, int]


class Offer(NamedTuple):
    """Something that may be shown, its text, and what counts with that text: before it, and the tags after it."""

    section: str
    shape: Any
    text: str
    before: str = ""
    after: str = ""

    @property
    def told(self) -> str:
        """All that counts."""
        return f"{self.before}{self.text}{self.after}"

    def shortened(self, begun: str) -> Any | None:
        """With what of its text is in this beginning, and without tags; None where nothing of it can be seen."""
        text = begun[len(self.before) :]
        if is_blank(text):
            return None
        cut = {("text" if self.section == STATE else "content"): text, "truncated": True}
        return {**self.shape, **cut, **({"tags": []} if self.after else {})}


class Rest(NamedTuple):
    """What is offered beside pinned and live memories, and how many unread comments there are."""

    offers: list[Offer]
    unread: int


async def wakeup(parts: Parts, params: WakeupParams) -> Wakeup:
    """Choose, count, and leave out what there is no room for."""
    now = parts.clock.now()
    where = Where(now=now, scope=read_scope(params.scope), clearance=params.clearance)
    rows = await parts.lane.run(_rows, parts, where.scope)
    chosen = await asyncio.to_thread(_choose, rows, where, parts.clock.rng(round(now * 1e6)))
    rest = await parts.lane.run(_rest, parts, where, chosen)
    offers, counts = await _offered(parts, where, chosen, rest, params.max_tokens)
    shown: dict[str, list[Any]] = {section: [] for section in KEPT_FIRST}
    tokens = 0
    for section, shape, size in await _fitted(parts, offers, counts, params.max_tokens):
        shown[section].append(shape)
        tokens += size
    return _laid_out(shown, tokens, _there(chosen, rest))


def _rows(parts: Parts, scope: str) -> list[Memory]:
    """Called in the lane, which other calls wait for: nothing is chosen yet."""
    return list(parts.stores.catalogue.rows(scope))


def _choose(rows: Sequence[Memory], where: Where, dice: random.Random) -> Chosen:
    """Pure: it runs outside the lane."""
    return choose([row for row in rows if visible(row, where.clearance, where.now)], where.now, dice)


async def _offered(
    parts: Parts, where: Where, chosen: Chosen, rest: Rest, budget: int
) -> tuple[list[Offer], list[int]]:
    """All that may be shown in the order in which it is kept, with its tokens, up to where there is no more room.

    Of a thousand pinned memories only those are read that may fit.
    """
    offers: list[Offer] = []
    counts: list[int] = []

    async def offer(more: Sequence[Offer]) -> bool:
        """Offer these too; true while there is room."""
        offers.extend(more)
        counts.extend(await counted(parts, [one.told for one in more], most=budget))
        if sum(counts) <= budget:
            return True
        costs = [(one.section, count) for one, count in zip(offers, counts, strict=True)]
        return None not in allot(costs, budget)

    for section, rows in (("pinned", chosen.pinned), ("active", chosen.active)):
        for start in range(0, len(rows), BATCH):
            memories = await parts.lane.run(still_there, parts, where, rows[start : start + BATCH])
            if not await offer([_memory(section, memory) for memory in memories]):
                return offers, counts
    await offer(rest.offers)
    return offers, counts


def _rest(parts: Parts, where: Where, chosen: Chosen) -> Rest:
    """Called in the lane."""
    stores = parts.stores
    states = stores.talk.read_states(stores.talk.states(where.scope, where.clearance)[:1])
    selected = stores.comments.select(
        where.now, clearance=where.clearance, scope=where.scope, unread=True, limit=COMMENTS
    )
    about = stores.memories.read(dict.fromkeys(comment.memory for comment in selected.comments))
    said = list(stores.talk.read(stores.talk.latest(where.scope, where.clearance)[-TURNS:]))
    episodes = [Offer("timeline", text, text) for text in map(line, still_there(parts, where, chosen.timeline))]
    sections: dict[str, list[Offer]] = {
        STATE: [_state(state_shape(state)) for state in states],
        "unread_comments": [_comment(one, about[one.memory]) for one in selected.comments if one.memory in about],
        "timeline": episodes,
        "last_session": [_turn(turn) for turn in reversed(said)],
    }
    for section in ("high_emotion", "recent", "random_old"):
        memories = still_there(parts, where, getattr(chosen, section))
        sections[section] = [_memory(section, memory) for memory in memories]
    offers = [offer for section in KEPT_FIRST for offer in sections.get(section, ())]
    return Rest(offers, selected.unread)


async def _fitted(
    parts: Parts, offers: Sequence[Offer], counts: Sequence[int], budget: int
) -> list[tuple[str, Any, int]]:
    """The section, the shape and the tokens of each offer that there is room for, up to one that nothing is left of."""
    rooms = allot([(offer.section, count) for offer, count in zip(offers, counts, strict=True)], budget)
    fitting = [
        (offer, count, room) for offer, count, room in zip(offers, counts, rooms, strict=True) if room is not None
    ]
    wanted = [Cut(f"{offer.before}{offer.text}", room) for offer, count, room in fitting if room < count]
    cuts = iter(await cut(parts, wanted))
    fitted: list[tuple[str, Any, int]] = []
    for offer, count, room in fitting:
        shape, tokens = offer.shape, count
        if room < count:
            begun, tokens = next(cuts)
            shape = offer.shortened(begun)
        if shape is None:
            break
        fitted.append((offer.section, shape, tokens))
    return fitted


def _there(chosen: Chosen, rest: Rest) -> dict[str, int]:
    """How much there is in each section, whether there is room for it or not."""
    there = Counter(offer.section for offer in rest.offers)
    return {**there, "pinned": len(chosen.pinned), "active": len(chosen.active), "unread_comments": rest.unread}


def _laid_out(shown: dict[str, list[Any]], tokens: int, there: dict[str, int]) -> Wakeup:
    for section in LATEST_LAST:
        shown[section].reverse()
    return {
        "pinned": shown["pinned"], "active": shown["active"], "recent": shown["recent"],
        "high_emotion": shown["high_emotion"], "random_old": shown["random_old"],
        "unread_comments": shown["unread_comments"], "session_state": shown[STATE][0] if shown[STATE] else None,
        "timeline": shown["timeline"], "last_session": shown["last_session"], "tokens": tokens,
        "left_out": {
            section: there[section] - len(shown[section])
            for section in KEPT_FIRST if there.get(section, 0) > len(shown[section])
        },
    }  # fmt: skip


def _memory(section: str, memory: Memory) -> Offer:
    before = f"{memory.author}: " if memory.author else ""
    return Offer(section, shapes.brief(memory), memory.content, before, "".join(f" #{tag}" for tag in memory.tags))


def _state(shape: StateShape) -> Offer:
    return Offer(STATE, shape, shape["text"])


def _turn(turn: Turn) -> Offer:
    shape: SaidLast = {
        "id": turn.id, "scope": turn.scope, "session": turn.session, "role": turn.role, "content": turn.content,
        "at": format_instant(turn.at) or "",
    }  # fmt: skip
    return Offer("last_session", shape, turn.content)


def _comment(comment: Comment, memory: Memory) -> Offer:
    about = beginning(memory.content)
    shape: UnreadComment = {
        "id": comment.id, "memory": comment.memory, "about": about, "author": comment.author, "content": comment.content,
        "created_at": format_instant(comment.created_at) or "", "reply_to": comment.reply_to,
    }  # fmt: skip
    return Offer("unread_comments", shape, comment.content, f"{comment.author}, on {about}\n")


METHODS: Final = (
    Method(
        "wakeup", "talk", WakeupParams, Wakeup, wakeup, False, "Read what you need to know before you begin."
    ),
)  # fmt: skip
