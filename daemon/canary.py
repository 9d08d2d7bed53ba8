"""The daemon's canaries: keeps real questions, asks them around a night, and says so where the night did harm.

A measure never decides whether a night takes place: where it cannot be taken, the log says so, and the night goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from daemon.events import Events
from daemon.health import Health
from daemon.options import Canary as Options
from jobs.canary import Answer, ask, measure, survivor
from jobs.undo import stands
from storage.canaries import RING, Canary
from storage.embed import Fingerprint
from storage.errors import DreamdError, command
from storage.lane import Lane
from storage.ledger import Run
from storage.model import EVERY_SCOPE
from storage.store import Stores

T = TypeVar("T")

log = structlog.get_logger("daemon.canary")

REASON: Final = "canary"
ALARM: Final = "canary_alarm"
ENOUGH: Final = 8  # questions from which on a night may be taken back for them; of fewer, chance moves one


class Noted(NamedTuple):
    """A question as it was asked, and what its vector came from."""

    canary: Canary
    embedder: Fingerprint


class Canaries:
    """Collects questions in RAM, so that no answer waits for it; `keep` brings them to the ledger."""

    def __init__(self, stores: Stores, lane: Lane, events: Events, health: Health, options: Options) -> None:
        self._stores = stores
        self._lane = lane
        self._events = events
        self._health = health
        self._options = options
        self._noted: deque[Noted] = deque(maxlen=RING)

    def note(self, canary: Canary, embedder: Fingerprint) -> None:
        """Note a question that a person or an agent really asked."""
        if self._options.enabled:
            self._noted.append(Noted(canary, embedder))

    async def keep(self) -> None:
        """Bring what was noted to the ledger; what cannot be written now waits for the next time."""
        noted = [*self._noted]
        self._noted.clear()
        if noted:
            try:
                await self._lane.run(self._keep, noted, urgent=False)
            except DreamdError:
                self._noted.extendleft(reversed(noted[-RING + len(self._noted) :]))
                raise

    async def settle(self) -> None:
        """At the start: let go of the ring where it is turned off, and say what the last measured night was like."""
        if not self._options.enabled:
            await self._lane.run(self._stores.ledger.canaries.clear)
        await self.reconsider()

    async def reconsider(self) -> None:
        """Say anew what the last night was like that was measured and stands: one was undone, or a snapshot restored."""
        last = await self._lane.run(self._last) if self._options.enabled else None
        if last is None:
            self._health.mend(REASON)
        else:
            self._judge(last)

    async def asked(self, now: float) -> list[Answer]:
        """What the questions of the ring find now; nothing where they cannot be asked."""
        return await _or_nothing(self._asked(now)) or []

    async def measured(self, before: Sequence[Answer], now: float) -> dict[str, Any] | None:
        """What the same questions find after a night, compared; None where there is nothing to compare."""
        return await _or_nothing(self._measured(before, now))

    def tell(self, night: Run) -> str | None:
        """Say what a measured night was like, in health and as an event; why it is to be undone, if it is."""
        alarm = self._judge(night)
        if alarm is None:
            return None
        self._events.emit(ALARM, EVERY_SCOPE, [night.id])
        found = night.canary or {}
        return alarm if self._options.undo and found["questions"] >= ENOUGH else None

    def _judge(self, night: Run) -> str | None:
        """What is wrong with what a night did, if something is."""
        found = night.canary
        if found is None:
            return None
        if not found["alarm"]:
            self._health.mend(REASON)
            return None
        questions = "1 real question finds" if found["questions"] == 1 else f"{found['questions']} real questions find"
        alarm = (
            f"{questions} {found['overlap']:.1%} of what was found before it, less than {self._options.min_overlap:.1%}"
        )
        self._health.degrade(REASON, f"After the night {night.id} {alarm}.", command("undo", night.id))
        return alarm

    async def _asked(self, now: float) -> list[Answer]:
        await self.keep()
        ring = await self._lane.run(self._stores.ledger.canaries.every, urgent=False)
        return [await self._lane.run(ask, self._stores, one, now, urgent=False) for one in ring]

    async def _measured(self, before: Sequence[Answer], now: float) -> dict[str, Any] | None:
        after = [await self._lane.run(ask, self._stores, one.canary, now, urgent=False) for one in before]
        live = await self._lane.run(self._survivors, before, urgent=False)
        found = measure(before, after, live.get)
        if found is None:
            return None
        overlap = round(found.overlap, 4)
        return {
            "questions": found.questions, "overlap": overlap, "rank": round(found.rank, 2),
            "rank_before": round(found.rank_before, 2), "alarm": overlap < self._options.min_overlap,
        }  # fmt: skip

    # -- in the lane

    def _keep(self, noted: Sequence[Noted]) -> None:
        """Keep what still fits: what was erased since, or was asked of other vectors, leaves no question behind."""
        embedder, known = self._stores.records.fingerprint(), self._stores.catalogue
        fitting = [one for one, made_by in noted if made_by == embedder and all(memory in known for memory in one.ids)]
        if fitting:
            self._stores.ledger.canaries.add(fitting)

    def _last(self) -> Run | None:
        last = self._stores.ledger.last_measured()
        return last if last is not None and stands(self._stores.ledger, last) else None

    def _survivors(self, answers: Sequence[Answer]) -> Mapping[str, str | None]:
        ids = {memory for answer in answers for memory in (*answer.found, *answer.canary.ids)}
        return {memory: survivor(self._stores, memory) for memory in ids}


async def _or_nothing(measuring: Awaitable[T]) -> T | None:
    """What is measured, or None and a line in the log."""
    try:
        return await measuring
    except DreamdError as error:
        log.warning("canary.failed", kind=error.kind, detail=error.detail)
    except Exception:
        log.exception("canary.failed", kind="internal")
    return None
