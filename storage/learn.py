"""The learn buffer: what recalls taught since the last flush. In RAM, so that an answer never waits for its side effects.

Stated loss: a kill may lose the last `learn.flush_seconds` of implicit learning, never an acknowledged write.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from storage.model import DAY, Memory

ANSWER: Final = 0.3  # evidence from which a hit counts as an answer; what is returned for want of better has about 0.2
ANSWER_SHARE: Final = (
    0.5  # and of the evidence of the best hit: at 0.3 what merely hangs on an answer is kept alive with it
)
CO_ACTIVATED: Final = 10  # top hits of one recall that are wired together
MOST: Final = 200_000  # pairs and accesses kept; a store that cannot be written must not fill the RAM


class Accesses(NamedTuple):
    """How often a memory was returned, and when last."""

    times: int
    last_at: float


class Learned(NamedTuple):
    """What there is to fold: how often each unordered pair was returned together, and the accesses."""

    pairs: dict[tuple[str, str], int]
    accesses: dict[str, Accesses]


class LearnBuffer:
    """Collects co-activations and accesses; `take` empties it. Noted by the event loop, taken by a job's thread too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._accesses: dict[str, Accesses] = {}

    def __len__(self) -> int:
        return len(self._pairs) + len(self._accesses)

    def note(self, hits: Sequence[str], now: float) -> None:
        """Note the distinct hits of one recall, best first."""
        distinct = list(dict.fromkeys(hits))
        with self._lock:
            if len(self) >= MOST:
                return
            for memory in distinct:
                former = self._accesses.get(memory)
                self._accesses[memory] = Accesses(former.times + 1 if former else 1, now)
            for a, b in combinations(distinct[:CO_ACTIVATED], 2):
                self._pairs[(a, b) if a < b else (b, a)] += 1

    def take(self, *, keep: bool = False) -> Learned:
        """All that was noted since the last call; with `keep` only a look at it."""
        with self._lock:
            learned = Learned(dict(self._pairs), dict(self._accesses))
            if not keep:
                self._pairs.clear()
                self._accesses.clear()
        return learned


def taught(hits: Sequence[tuple[str, float]]) -> list[str]:
    """Of the hits of a recall, as (id, evidence), those that answered: a question to which nothing fits teaches nothing."""
    floor = max(ANSWER, ANSWER_SHARE * max((evidence for _, evidence in hits), default=0.0))
    return [memory for memory, evidence in hits if evidence >= floor]


def accessed(row: Memory, times: int, at: float) -> dict[str, Any]:
    """The fields of a memory after so many more accesses, the last of them at `at`; days are UTC days."""
    last = max(at, row.accessed_at or 0.0)
    new_day = row.accessed_at is None or row.accessed_at // DAY != last // DAY
    return {"accessed_at": last, "access_count": row.access_count + times, "access_days": row.access_days + new_day}
