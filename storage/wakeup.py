"""What an agent reads first: which memories, and which of them where there is not room for all. Pure.

    pinned        every pinned memory, the most important and then the oldest first
    active        live context, the newest first
    recent        the 5 newest of the others
    high_emotion  the 5 most strongly felt of the last 3 days that are not among those
    random_old    2 older than 3 days, drawn by lot
    timeline      the last 20 episodes, ends of sessions among them, a line each

No memory is in two sections; a line of the timeline may speak of one that is shown elsewhere.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from storage.instants import format_instant
from storage.model import DAY, Memory

RECENT: Final = 5
FELT: Final = 5
OLD: Final = 2
FRESH_DAYS: Final = 3.0
EPISODES: Final = 20
TURNS: Final = 10  # of the last session
LINE: Final = 80  # characters of a text in the timeline

CONVERSATION: Final = "conversation"  # the subtype of a session's end
#: Whose room comes first: over budget the last section goes first, and of each its last item.
KEPT_FIRST: Final = (
    "pinned", "active", "session_state", "unread_comments", "high_emotion", "timeline", "last_session", "recent",
    "random_old",
)  # fmt: skip
STATE: Final = "session_state"
LONG: Final = 256  # tokens of a text that is not long in any budget that holds it
SHARE: Final = 4  # a long text is cut to the budget divided by this


class Chosen(NamedTuple):
    """The rows of each section, best first."""

    pinned: list[Memory]
    active: list[Memory]
    recent: list[Memory]
    high_emotion: list[Memory]
    random_old: list[Memory]
    timeline: list[Memory]


def choose(rows: Sequence[Memory], now: float, dice: random.Random) -> Chosen:
    """Share the rows that a caller may see out over the sections."""
    pinned = [row for row in rows if row.pinned]
    active = [row for row in rows if row.type == "active" and not row.pinned]
    others = [row for row in rows if row.type != "active" and not row.pinned]
    pinned.sort(key=lambda row: (-row.importance, row.created_at, row.id))
    recent = _latest(others, _CREATED, RECENT)
    shown = {row.id for row in recent}
    since = now - FRESH_DAYS * DAY
    fresh = (row for row in others if row.created_at >= since and row.id not in shown)
    felt = heapq.nlargest(FELT, fresh, key=attrgetter("emotion", "created_at", "id"))
    old = [row for row in others if row.created_at < since]
    drawn = [row for row in dice.sample(old, min(OLD + RECENT, len(old))) if row.id not in shown]
    episodes = [row for row in rows if row.type == "episodic"]
    return Chosen(
        pinned, _latest(active, _CREATED, len(active)), recent, felt, drawn[:OLD], _latest(episodes, _moment, EPISODES)
    )


def line(episode: Memory) -> str:
    """An episode in a line: when, and how its first line begins; of a session's end, which one it was and of how long."""
    what = f"session {episode.session} ended after {_turns(episode)}: " if _is_end(episode) else ""
    return f"{format_instant(math.floor(_moment(episode)))} {what}{beginning(episode.content)}"


def beginning(text: str) -> str:
    """The first line of a text that says something, at most `LINE` characters of it."""
    first = next(filter(None, map(str.strip, text.splitlines())), "")
    return first if len(first) <= LINE else first[:LINE].rstrip() + "…"


def allot(costs: Sequence[tuple[str, int]], budget: int) -> list[int | None]:
    """How many tokens each text may take, given as (section, tokens) in the order of `KEPT_FIRST`; None = it is left out.

    Over the budget, what is longer than a quarter of it is cut to that, so that one text cannot push out all others;
    then the last go until the rest fits. The session's state is cut to what there is before it goes.
    """
    if sum(tokens for _, tokens in costs) <= budget:
        return [tokens for _, tokens in costs]
    allotted: list[int | None] = []
    room = budget
    for section, tokens in costs:
        is_long = section != "timeline" and tokens > min(budget, max(LONG, budget // SHARE))
        wanted = budget // SHARE if is_long else tokens
        if section == STATE:
            wanted = min(wanted, room)
        fits = 0 < wanted <= room
        allotted.append(wanted if fits else None)
        room = room - wanted if fits else 0
    return allotted


_CREATED: Final[Callable[[Memory], float]] = attrgetter("created_at")


def _latest(rows: Sequence[Memory], moment: Callable[[Memory], float], count: int) -> list[Memory]:
    """The last so many, the last one first. Only those in question are sorted: of 20,000 by tuples it takes 15 ms."""
    moments = list(map(moment, rows))
    first = min(heapq.nlargest(count, moments), default=math.inf)
    late = [(at, row.id, row) for at, row in zip(moments, rows, strict=True) if at >= first]
    return [row for *_, row in heapq.nlargest(count, late)]


def _is_end(row: Memory) -> bool:
    return row.subtype == CONVERSATION and bool(row.session)


def _moment(row: Memory) -> float:
    """When it happened; a session ends when the memory of it is made."""
    return row.created_at if _is_end(row) else row.happened_at


def _turns(row: Memory) -> str:
    count = len(row.source_turns)
    return "1 turn" if count == 1 else f"{count} turns"
