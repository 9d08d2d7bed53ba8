"""Keeps a retry from doing a thing twice: a request id is recognised for a day, over restarts too.

Who is to do a request claims its id first, so that a second one with the same id waits, finds the first one's answer
and repeats it. The ledger keeps ids and flags of an answer, never a memory's text.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from storage.errors import Conflict
from storage.ledger import Ledger
from storage.model import DAY

KEPT_SECONDS: Final = DAY


class Retries:
    """The requests of the last day, and those under way."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._in_flight: dict[str, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def claim(self, requests: Iterable[str]) -> AsyncIterator[None]:
        """Wait until none of these is under way, then hold all of them.

        All or none are held, so that no two claims can wait for each other.
        """
        wanted = set(requests)
        while others := [self._in_flight[request] for request in wanted & self._in_flight.keys()]:
            await asyncio.wait(others)
        turn = asyncio.get_running_loop().create_future()
        self._in_flight |= dict.fromkeys(wanted, turn)
        try:
            yield
        finally:
            for request in wanted:
                del self._in_flight[request]
            turn.set_result(None)

    def answer(self, request: str, method: str, params: Mapping[str, Any], now: float) -> dict[str, Any] | None:
        """What this request was answered before, or None. Raises Conflict where its id stood for another request."""
        kept = self._ledger.answer(request, since=now - KEPT_SECONDS)
        if kept is None:
            return None
        if (kept.method, kept.params) != (method, _digest(params)):
            raise Conflict(
                "This request id was used for another request within 24 hours.",
                hint="Send it again with a new request_id.",
                field="request_id",
            )
        return kept.answer

    def keep(self, request: str, method: str, params: Mapping[str, Any], answer: dict[str, Any], now: float) -> None:
        """Keep an answer for retries."""
        self._ledger.keep_answer(request, method, _digest(params), answer, now)


def _digest(params: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in params.items() if name != "request_id"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
