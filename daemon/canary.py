"""The daemon's canaries: keeps real questions, asks them around a night, and says so where the night did harm."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from daemon.events import Events
from daemon.health import Health
from daemon.options import Canary as Options
from jobs.canary import Answer, ask, measure, survivor
from storage.canaries import RING, Canary
from storage.errors import command
from storage.lane import Lane
from storage.ledger import Run
from storage.model import EVERY_SCOPE
from storage.store import Stores

REASON: Final = "canary"
ALARM: Final = "canary_alarm"


class Canaries:
    """Collects questions in RAM, so that no answer waits for it; `keep` brings them to the ledger."""

    def __init__(self, stores: Stores, lane: Lane, events: Events, health: Health, options: Options) -> None:
        self._stores = stores
        self._lane = lane
        self._events = events
        self._health = health
        self._options = options
        self._lock = threading.Lock()
        self._noted: list[Canary] = []

    def note(self, canary: Canary) -> None:
        """Note a question that a person or an agent really asked."""
        if self._options.enabled:
            with self._lock:
                self._noted = [*self._noted[1 - RING :], canary]

    async def keep(self) -> None:
        """Bring what was noted to the ledger."""
        with self._lock:
            noted, self._noted = self._noted, []
        if noted:
            await self._lane.run(self._stores.ledger.canaries.add, noted, urgent=False)

    async def settle(self) -> None:
        """At the start: let go of the ring where it is turned off, and recall what the last measured night was like."""
        if not self._options.enabled:
            await self._lane.run(self._stores.ledger.canaries.clear)
            return
        last = await self._lane.run(self._stores.ledger.last_measured)
        if last is not None and last.undone_by is None:
            self._judge(last)

    async def asked(self, now: float) -> list[Answer]:
        """What the questions of the ring find now."""
        await self.keep()
        ring = await self._lane.run(self._stores.ledger.canaries.every, urgent=False)
        dimension = self._stores.records.fingerprint()
        fitting = [one for one in ring if dimension is None or len(one.dense) == dimension.dimension]
        return [await self._lane.run(ask, self._stores, one, now, urgent=False) for one in fitting]

    async def measured(self, before: Sequence[Answer], now: float) -> dict[str, Any] | None:
        """What the same questions find after a night, compared; None where there is nothing to compare."""
        after = [await self._lane.run(ask, self._stores, one.canary, now, urgent=False) for one in before]
        live = await self._lane.run(self._survivors, before, urgent=False)
        found = measure(before, after, live.get)
        if found is None:
            return None
        return {
            "questions": found.questions, "overlap": round(found.overlap, 4), "rank": round(found.rank, 2),
            "rank_before": round(found.rank_before, 2), "alarm": found.overlap < self._options.min_overlap,
        }  # fmt: skip

    def tell(self, night: Run) -> bool:
        """Say what a measured night was like, in health and as an event; whether it is to be undone."""
        alarm = self._judge(night)
        if alarm:
            self._events.emit(ALARM, EVERY_SCOPE, [night.id])
        return alarm and self._options.undo

    def mend(self) -> None:
        """A night that did harm was taken back."""
        self._health.mend(REASON)

    def _judge(self, night: Run) -> bool:
        found = night.canary
        if found is None:
            return False
        if not found["alarm"]:
            self._health.mend(REASON)
            return False
        detail = (
            f"After the night {night.id} {found['questions']} real questions find {found['overlap']:.0%} of what they "
            f"found before it; the least is {self._options.min_overlap:.0%}."
        )
        self._health.degrade(REASON, detail, command("undo", night.id))
        return True

    def _survivors(self, answers: Sequence[Answer]) -> Mapping[str, str | None]:
        ids = {memory for answer in answers for memory in (*answer.found, *answer.canary.ids)}
        return {memory: survivor(self._stores, memory) for memory in ids}
