"""Answers calls: finds the method, validates its params, keeps retries from doing a thing twice, hands over to the handler.

What the socket knows of the daemon is this object (`daemon.rpc.Service`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from daemon import shapes
from daemon.methods import METHODS
from daemon.metrics import Metrics
from daemon.parts import Parts, count_withheld
from daemon.rpc import Caller
from daemon.wire import Method, find, openapi, validated
from storage.errors import NotFound

#: Asking how the daemon is does not keep it from being idle.
INSPECTING: Final = ("night", "care")
#: What a method may tell beside a memory; none of it is text that somebody remembered.
BESIDE: Final = ("run_id", "changed", "note")

Progress = Callable[[dict[str, Any]], None]


class DreamdService:
    """The daemon behind its wire."""

    def __init__(self, parts: Parts, metrics: Metrics) -> None:
        self._parts = parts
        self._metrics = metrics
        self.last_used_at = parts.clock.monotonic()
        self.open = True

    async def call(
        self, method: str, params: dict[str, Any], caller: Caller, progress: Progress | None = None
    ) -> dict[str, Any]:
        """The method's result. Raises DreamdError."""
        try:
            return await self._call(method, params, caller, progress)
        except NotFound as error:
            count_withheld(self._parts, error)
            raise

    async def _call(
        self, method: str, params: dict[str, Any], caller: Caller, progress: Progress | None
    ) -> dict[str, Any]:
        entry = find(METHODS, method)
        if entry.group not in INSPECTING:
            self.last_used_at = self._parts.clock.monotonic()
        checked = validated(method, entry.params, params)
        if not entry.writes:
            return await self._handle(entry, checked, progress)
        if not entry.mends:
            self._parts.stores.check_writable()
        request = getattr(checked, "request_id", None) or caller.request_id
        if not request:
            return await self._write(entry, checked, progress)
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

    def leaves(self, method: str) -> bool:
        """Whether a call of a method is cancelled when its client is gone."""
        return method in METHODS and METHODS[method].leaves

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        """The metrics as Prometheus reads them."""
        return await self._metrics.render(self._parts, accept)

    def ready(self) -> tuple[bool, str]:
        """Whether it can serve."""
        if not self.open:
            return False, "it is stopping"
        damage = self._parts.stores.damage
        return not damage, "; ".join(damage)

    def observe(self, method: str, outcome: str, seconds: float) -> None:
        """Count a request."""
        self._metrics.observe_request(method, outcome, seconds)

    async def _handle(self, entry: Method, params: Any, progress: Progress | None) -> dict[str, Any]:
        arguments = (self._parts, params, progress) if entry.streams else (self._parts, params)
        return dict(await entry.handler(*arguments))

    async def _write(self, entry: Method, params: Any, progress: Progress | None) -> dict[str, Any]:
        """A write and its acknowledgement: in the engine's log it survives a kill, `durability = "power"` waits for the disk."""
        result = await self._handle(entry, params, progress)
        if self._parts.config.storage.durability == "power":
            await self._parts.lane.run(self._parts.stores.engine.flush)
        if _wrote(entry, result):
            self._parts.meter.note_write(self._parts.clock.now())
        return result

    async def _once(
        self, request: str, entry: Method, checked: Any, params: Mapping[str, Any], progress: Progress | None
    ) -> dict[str, Any]:
        """Do a write for this request id, or repeat the answer that it had."""
        parts, now = self._parts, self._parts.clock.now()
        # A batch holds its own id while it waits for those of its items, which are ids of `remember`; all others share one
        # set of ids, whatever their method.
        claimed = f"{entry.name} {request}" if entry.name == "remember_many" else request
        async with parts.retries.claim([claimed]):
            kept = await parts.lane.run(parts.retries.answer, claimed, entry.name, params, now)
            if kept is not None:
                return await parts.lane.run(_repeated, parts, kept, getattr(checked, "clearance", "secret"))
            result = await self._write(entry, checked, progress)
            if not result.get("failed"):  # what failed in part is worth another try
                await parts.lane.run(parts.retries.keep, claimed, entry.name, params, _without_text(result), now)
            return result


def _wrote(entry: Method, result: Mapping[str, Any]) -> bool:
    """Whether memories were written: a batch may have failed in every item, and a dry run writes none."""
    if result.get("dry_run"):
        return False
    return entry.group not in INSPECTING and ("failed" not in result or result["failed"] < len(result["results"]))


def _without_text(result: dict[str, Any]) -> dict[str, Any]:
    """What the ledger keeps of an answer: of a memory its id and what is told beside it, of an edge all but its label."""
    if "content" in result:
        return {"memory": result["id"], "beside": {name: result[name] for name in BESIDE if name in result}}
    if {"a", "b", "label"} <= result.keys():
        return {"edge": {name: value for name, value in result.items() if name != "label"}}
    return result


def _repeated(parts: Parts, kept: dict[str, Any], clearance: str) -> dict[str, Any]:
    """A kept answer, with the text that was not kept with it as it is now. Called in the lane."""
    stores = parts.stores
    if "beside" in kept:  # not an answer that names a memory of its own
        row = stores.memories.visible(kept["memory"], clearance)
        return {**shapes.memory(stores.memories.read_one(row.id)), **kept["beside"]}
    if "edge" in kept:
        a, b = (stores.memories.visible(kept["edge"][end], clearance).id for end in ("a", "b"))
        edge = stores.synapses.between(a, b)
        return {**kept["edge"], "label": "" if edge is None else edge.label}
    return kept
