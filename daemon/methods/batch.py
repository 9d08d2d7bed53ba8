"""`remember_many`: a slice at a time is admitted, embedded and stored together; each item stands or falls alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from daemon import announce, problem
from daemon.methods.embedding import size_of, vectors_of
from daemon.methods.write import TRIES, RememberParams, remembered
from daemon.parts import Parts, count_withheld
from daemon.wire import Method, Writing, validated
from storage.errors import Conflict, DreamdError, Invalid, Unavailable
from storage.gate import Gate
from storage.lane import Stopping
from storage.memories import Vectors
from storage.model import SENSITIVITIES
from storage.remember import NeedsVectors, Write

MAX_ITEMS: Final = 10_000
SLICE: Final = 32  # items that are admitted, embedded and stored together
SLICE_CHARS: Final = 64_000  # of such items; a larger one goes alone

_CHANGED: Final = Conflict("The memory kept changing meanwhile.", hint="Send this item again.")

Result = dict[str, Any]  # what `remember` answers, or a problem document


class RememberManyParams(Writing):
    """Many memories; a bad one never stops the rest."""

    items: list[Annotated[Any, WithJsonSchema({"type": "object"})]] = Field(
        max_length=MAX_ITEMS, description="Each as the params of `remember`, a `request_id` of its own among them."
    )


class RememberedMany(TypedDict):
    """A result or a problem for each item, in their order."""

    results: list[Result]
    created: int
    failed: int


class Item(NamedTuple):
    """An item that may be stored; `request` is its request id, or empty."""

    given: Mapping[str, Any]
    request: str
    write: Write


async def remember_many(parts: Parts, params: RememberManyParams) -> RememberedMany:
    """Keep many memories; each item has its own result or problem.

    Raises Stopping where the daemon stops meanwhile. What was stored by then is met again when the batch is sent again.
    """
    results: list[Result] = []
    for items in _slices(params.items):
        results += await _remember_slice(parts, items, params.clearance)
    failed = sum("kind" in result for result in results)
    return {"results": results, "created": sum(result.get("created", False) for result in results), "failed": failed}


def _slices(items: Sequence[Any]) -> Iterator[list[Any]]:
    """The items in their order; in one slice no request id comes twice, so that the second finds the first's answer."""
    part: list[Any] = []
    requests: set[str] = set()
    chars = 0
    for item in items:
        request, size = _request_of(item), size_of(item)
        if part and (len(part) == SLICE or chars + size > SLICE_CHARS or request in requests):
            yield part
            part, requests, chars = [], set(), 0
        part.append(item)
        requests |= {request} - {""}
        chars += size
    if part:
        yield part


def _request_of(item: Any) -> str:
    request = item.get("request_id") if isinstance(item, dict) else None
    return request if isinstance(request, str) else ""


async def _remember_slice(parts: Parts, items: Sequence[Any], clearance: str) -> list[Result]:
    admitted, results = await parts.embedding.run(_admit_slice, parts.gate, items, clearance, urgent=False)
    async with parts.retries.claim(item.request for item in admitted.values() if item.request):
        known, texts = await parts.lane.run(_look_up, parts, admitted)
        results |= known
        await _store_all(parts, {number: admitted[number] for number in texts}, texts, results)
    return [results[number] for number in range(len(items))]


async def _store_all(
    parts: Parts, items: dict[int, Item], texts: Mapping[int, str | None], results: dict[int, Result]
) -> None:
    """Embed and store, in their order; an item whose text depends on what an earlier one did is embedded anew."""
    vectors: dict[int, Vectors] = {}
    wanted = {number: text for number, text in texts.items() if text is not None}
    tries: Counter[int] = Counter()
    while items:
        made, failed = await _embed(parts, wanted)
        tries.update(wanted.keys())
        failed |= {number: _CHANGED for number in wanted if tries[number] > TRIES}
        vectors |= made
        results |= {number: problem.document(error) for number, error in failed.items()}
        items = {number: item for number, item in items.items() if number not in results}
        stored, wanted = await parts.lane.run(_store, parts, items, vectors)
        results |= stored
        items = {number: item for number, item in items.items() if number not in results}


def _admit_slice(gate: Gate, items: Sequence[Any], clearance: str) -> tuple[dict[int, Item], dict[int, Result]]:
    """The items that passed the gate, and the problems of the others."""
    admitted: dict[int, Item] = {}
    refused: dict[int, Result] = {}
    for number, item in enumerate(items):
        try:
            admitted[number] = _admit(gate, item, clearance)
        except DreamdError as error:
            refused[number] = problem.document(error)
    return admitted, refused


def _admit(gate: Gate, given: Any, clearance: str) -> Item:
    """One item through the gate; it may lower the clearance of the call, never raise it."""
    if not isinstance(given, dict):
        raise Invalid("The item is not an object.", hint='Send items such as {"content": "..."}.', field="items")
    params = validated("remember", RememberParams, {"clearance": clearance, **given})
    admitted = gate.admit(params.given())
    lower = min(clearance, params.clearance, key=SENSITIVITIES.index)
    return Item(given, params.request_id or "", Write(admitted.fields, admitted.redactions, lower))


def _look_up(parts: Parts, items: Mapping[int, Item]) -> tuple[dict[int, Result], dict[int, str | None]]:
    """The results of what was done before, and the texts that the others need vectors of. Called in the lane."""
    known: dict[int, Result] = {}
    texts: dict[int, str | None] = {}
    for number, item in items.items():
        try:
            kept = _answer(parts, item)
            if kept is None:
                texts[number] = parts.stores.writer.text_to_embed(item.write)
            else:
                known[number] = kept
        except DreamdError as error:
            known[number] = problem.document(error)
    return known, texts


def _answer(parts: Parts, item: Item) -> Result | None:
    if not item.request:
        return None
    return parts.retries.answer(item.request, "remember", item.given, parts.clock.now())


async def _embed(parts: Parts, texts: Mapping[int, str]) -> tuple[dict[int, Vectors], dict[int, DreamdError]]:
    """The vectors of each text, or its error: where they fail together, each is tried alone, for one text may be at fault."""
    if not texts:
        return {}, {}
    try:
        made = await vectors_of(parts, list(texts.values()))
    except Stopping:
        raise
    except Unavailable as error:
        if len(texts) == 1:
            return {}, dict.fromkeys(texts, error)
        vectors: dict[int, Vectors] = {}
        failed: dict[int, DreamdError] = {}
        for number, text in texts.items():
            good, bad = await _embed(parts, {number: text})
            vectors |= good
            failed |= bad
        return vectors, failed
    return dict(zip(texts, made, strict=True)), {}


def _store(
    parts: Parts, items: Mapping[int, Item], vectors: Mapping[int, Vectors]
) -> tuple[dict[int, Result], dict[int, str]]:
    """Store the items one by one, up to one that needs the vectors of another text. Called in the lane."""
    results: dict[int, Result] = {}
    for number, item in items.items():
        try:
            results[number] = _store_one(parts, item, vectors.get(number))
        except DreamdError as error:
            count_withheld(parts, error)
            results[number] = problem.document(error)
        except NeedsVectors as wanted:
            return results, {number: wanted.text}
    return results, {}


def _store_one(parts: Parts, item: Item, vectors: Vectors | None) -> Result:
    now = parts.clock.now()
    written = parts.stores.writer.remember(item.write, vectors, now, parts.clock.new_id())
    announce.written(parts.events, written)
    result = dict(remembered(parts, written, item.write.redactions))
    parts.meter.count_redactions(item.write.redactions)
    if item.request:
        parts.retries.keep(item.request, "remember", item.given, result, now)
    return result


METHODS: Final = (
    Method(
        "remember_many",
        "write",
        RememberManyParams,
        RememberedMany,
        remember_many,
        True,
        "Remember many texts; a bad one never stops the rest.",
    ),
)
