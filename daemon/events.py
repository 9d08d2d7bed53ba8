"""The event stream: what happened to the memories, as it happens, in numbers and ids and never in text.

The last `CAPACITY` events lie in a ring in RAM; what happened before is what `runs` tells. An id is `<boot>-<number>`: the
numbers of one process run on without a hole, and `boot` differs from start to start. A follower keeps nothing but its
place and reads from the ring, so that a slow one holds neither memory nor the emitter.

Where events that a follower wanted are no longer there, a line of type `gap` stands in their place. It looks like an event
and passes every filter; `counts.missed` says how many events of any kind it stands for, and is absent where the place to go
on from is another process's. Its id is the one to resume from, as every id is.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from daemon.wire import did_you_mean
from storage.errors import Invalid
from storage.instants import format_instant
from storage.model import EVERY_SCOPE, covers
from storage.text import clean_scope

CAPACITY: Final = 10_000
MAX_IDS: Final = 100  # listed in one event
GAP: Final = "gap"
#: Every type of event, and what its ids are.
TYPES: Final[Mapping[str, str]] = {
    "remembered": "memories",
    "updated": "memories",
    "forgotten": "memories",
    "restored": "memories",
    "expired": "memories",
    "decayed": "memories",
    "purged": "memories",
    "merged": "memories",
    "superseded": "memories",
    "extracted": "memories",
    "consolidated": "memories",
    "evicted": "turns",
    "compacted": "turns",
    "tier_changed": "memories",
    "heat_changed": "memories",
    "linked": "memories",  # at the ends of the edges that `counts.edges` counts
    "pruned": "memories",
    "commented": "memories",
    "job_started": "runs",
    "job_finished": "runs",
    "spend_refused": "runs",
    "canary_alarm": "runs",
}

_BATCH: Final = 64  # events that a follower takes from the ring at once
_ID: Final = re.compile(r"([0-9a-z]{1,32})-([0-9]{1,15})")


class Event(NamedTuple):
    """One event as the ring holds it."""

    number: int
    at: float
    type: str
    scope: str
    ids: tuple[str, ...]
    counts: Mapping[str, int]


class Events:
    """The ring, and who follows it. `boot` is of small letters and digits, and tells this process from every other."""

    def __init__(self, now: Callable[[], float], boot: str, *, capacity: int = CAPACITY) -> None:
        self._now = now
        self._boot = boot
        self._capacity = capacity
        self._ring: list[Event] = []  # event n lies at (n - 1) % capacity
        self._last = 0
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # the followers'
        self._waking = False  # the loop was told of news and has not looked yet
        self._news = asyncio.Event()  # set once, at the next event, and replaced by another

    def emit(
        self,
        type: str,  # noqa: A002  # as on the wire
        scope: str,
        ids: Sequence[str] = (),
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Tell that something happened; from any thread, and never waiting for a follower.

        `scope` is the exact one, or `*` for what concerns every scope. Of many ids the first `MAX_IDS` are listed; how
        many there are stands in `counts`, under what they are ids of. A type that is none of `TYPES` is a ValueError.
        """
        if type not in TYPES:
            raise ValueError(f"there is no type of event {type!r}")
        told = dict(counts or {})
        if ids and TYPES[type] != "runs":
            told.setdefault(TYPES[type], len(ids))
        with self._lock:
            self._last += 1
            event = Event(self._last, self._now(), type, scope, tuple(ids[:MAX_IDS]), told)
            if self._last <= self._capacity:
                self._ring.append(event)
            else:
                self._ring[(self._last - 1) % self._capacity] = event
            if self._loop is not None and not self._waking:
                self._waking = True
                with suppress(RuntimeError):  # the loop has ended: nobody follows any more
                    self._loop.call_soon_threadsafe(self._wake)

    def follow(self, types: Collection[str], scope: str, after: str) -> AsyncIterator[dict[str, Any]]:
        """Events of these types (none = all) in or below a scope (empty or `*` = all), from the loop that calls.

        They begin right after the event with the id `after`, or where that is empty with the next one. Raises Invalid.
        """
        for word in types:
            if word not in TYPES:
                hint = did_you_mean(word, TYPES) or f"The types are: {', '.join(TYPES)}."
                raise Invalid(f"There is no type of event {word[:100]!r}.", hint=hint, field="types")
        wanted = EVERY_SCOPE if scope in ("", EVERY_SCOPE) else clean_scope(scope)
        with self._lock:
            self._loop = asyncio.get_running_loop()
            place = self._place(after) if after else self._last
        return self._tell(frozenset(types or TYPES), wanted, place)

    async def _tell(self, types: frozenset[str], scope: str, place: int | None) -> AsyncIterator[dict[str, Any]]:
        """The lines from a place on, for as long as somebody asks for them; None = a place in another process."""
        while True:
            news = self._news  # taken before the look, so that what comes after the look is not missed
            events, gap = self._after(place)
            if gap is not None:
                yield gap
            for event in events:
                place = event.number
                if event.type in types and covers(scope, event.scope):
                    yield self._line(event)
            if place is None:
                place = 0
            if events:
                await asyncio.sleep(0)  # a client that takes all at once must not keep the loop from the others
            else:
                await news.wait()

    def _after(self, place: int | None) -> tuple[list[Event], dict[str, Any] | None]:
        """Some of the events after a place, and the gap before them, if there is one."""
        with self._lock:
            first = self._last - len(self._ring) + 1
            gone = place is None or place < first - 1
            start = first if gone else (place or 0) + 1
            numbers = range(start, min(start + _BATCH, self._last + 1))
            events = [self._ring[(number - 1) % self._capacity] for number in numbers]
        if not gone:
            return events, None
        counts = {} if place is None else {"missed": start - 1 - place}
        return events, self._line(Event(start - 1, self._now(), GAP, EVERY_SCOPE, (), counts))

    def _place(self, after: str) -> int | None:
        """The number in an id, or None where it is not an id of this process."""
        matched = _ID.fullmatch(after)
        if matched is None or (matched[1] == self._boot and int(matched[2]) > self._last):
            raise Invalid(
                f"{after[:100]!r} is not the id of an event.",
                hint="Send the id of the last line that came, or leave Last-Event-ID out to begin with the next event.",
                field="Last-Event-ID",
            )
        return int(matched[2]) if matched[1] == self._boot else None

    def _line(self, event: Event) -> dict[str, Any]:
        return {
            "id": f"{self._boot}-{event.number}", "at": format_instant(event.at), "type": event.type,
            "scope": event.scope, "ids": list(event.ids), "counts": dict(event.counts),
        }  # fmt: skip

    def _wake(self) -> None:
        """Let everybody who waits look again. Called in the loop."""
        with self._lock:
            self._waking = False
        news, self._news = self._news, asyncio.Event()
        news.set()
