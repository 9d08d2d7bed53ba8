"""Answers calls: finds the method, validates its params, keeps retries from doing a thing twice, hands over to the handler.

What the socket knows of the daemon is this object (`daemon.rpc.Service`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from daemon.methods import METHODS
from daemon.metrics import Metrics
from daemon.parts import Parts
from daemon.rpc import Caller
from daemon.wire import Method, find, openapi, validated
from storage.errors import Conflict
from storage.model import DAY

KEPT_SECONDS: Final = DAY  # how long a retry is recognised

Progress = Callable[[dict[str, Any]], None]


class DreamdService:
    """The daemon behind its wire."""

    def __init__(self, parts: Parts, metrics: Metrics) -> None:
        self._parts = parts
        self._metrics = metrics
        self._in_flight: dict[str, asyncio.Future[None]] = {}
        self.last_call_at = parts.clock.monotonic()
        self.open = True

    async def call(
        self, method: str, params: dict[str, Any], caller: Caller, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The method's result. Raises DreamdError."""
        self.last_call_at = self._parts.clock.monotonic()
        entry = find(METHODS, method)
        checked = validated(entry.params, params)
        if not entry.writes:
            return dict(await self._handle(entry, checked, progress))
        self._parts.stores.check_writable()
        request = str(getattr(checked, "request_id", None) or caller.request_id)
        if not request:
            return dict(await self._handle(entry, checked, progress))
        return await self._once(request, entry, checked, params, progress)

    def methods(self) -> list[dict[str, Any]]:
        """Every method with what it is for."""
        return [
            {"name": one.name, "group": one.group, "writes": one.writes, "about": one.about} for one in METHODS.values()
        ]

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi(METHODS)

    def streams(self, method: str) -> bool:
        """Whether a method tells its progress."""
        return method in METHODS and METHODS[method].streams

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """The metrics as Prometheus reads them."""
        return await self._metrics.render(self._parts, accept)

    def ready(self) -> tuple[bool, str]:
        """Whether it can serve."""
        if not self.open:
            return False, "stopping"
        return (not self._parts.stores.damage), "; ".join(self._parts.stores.damage)

    def observe(self, method: str, outcome: str, seconds: float) -> None:
        """Count a request."""
        self._metrics.observe_request(method, outcome, seconds)

    async def _handle(self, entry: Method, params: Any, progress: Progress | None) -> Mapping[str, Any]:
        if entry.streams:
            handler: Callable[..., Any] = entry.handler
            result: Mapping[str, Any] = await handler(self._parts, params, progress)
            return result
        return await entry.handler(self._parts, params)

    async def _once(
        self, request: str, entry: Method, checked: Any, params: Mapping[str, Any], progress: Progress | None
    ) -> dict[str, Any]:
        """Do a write for this request id, or repeat the answer that it had."""
        while request in self._in_flight:
            await asyncio.shield(self._in_flight[request])
        turn = self._in_flight[request] = asyncio.get_running_loop().create_future()
        try:
            digest = _digest(params)
            now = self._parts.clock.now()
            ledger = self._parts.stores.ledger
            kept = await self._parts.lane.run(lambda: ledger.answer(request, since=now - KEPT_SECONDS))
            if kept is not None:
                if (kept.method, kept.params) != (entry.name, digest):
                    raise Conflict(
                        "This request id was used for another request within 24 hours.",
                        hint="Use a new request_id.",
                        field="request_id",
                    )
                return await self._repeated(kept.answer)
            result = dict(await self._handle(entry, checked, progress))
            await self._parts.lane.run(ledger.keep_answer, request, entry.name, digest, _without_text(result), now)
            return result
        finally:
            del self._in_flight[request]
            turn.set_result(None)

    async def _repeated(self, answer: dict[str, Any]) -> dict[str, Any]:
        """A kept answer; a memory's text was not kept with it and is read again."""
        if not answer.get("memory"):
            return answer
        show = METHODS["get"]
        return dict(await show.handler(self._parts, show.params.model_validate({"id": answer["id"]})))


def _digest(params: Mapping[str, Any]) -> str:
    plain = {name: value for name, value in params.items() if name != "request_id"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _without_text(result: dict[str, Any]) -> dict[str, Any]:
    """Ids and flags only: the ledger keeps no memory's text."""
    if "content" in result:
        return {"memory": True, "id": result["id"]}
    return result
