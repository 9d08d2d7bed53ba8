"""Reindex: every memory gets new vectors, by the embedder that the configuration names, while the old ones serve on.

The new store is made beside the present one (`storage.rebuild`) and takes its place when it holds all that is there. What
changes meanwhile is copied again: a copy knows which state of its memory it is of. A run that is cut short, by a stop or a
kill, goes on at the next call. The former store stays as a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from jobs.context import Context, Report
from storage import swap
from storage.embed import Fingerprint
from storage.memories import Vectors
from storage.rebuild import Copied, Rebuild, Source
from storage.snapshots import Coming

BATCH: Final = 32  # memories that are read together
CHARS: Final = 64_000  # of the texts that are embedded and written together: about half a second
FEW: Final = 16  # so many are copied in the lane, at the last moment: 50 ms

Embed: TypeAlias = Callable[[Sequence[str]], list[Vectors]]


class Plan(NamedTuple):
    """The points to copy, since their copy is missing or out of date, and the copies to drop, whose memory is gone."""

    make: list[str]
    drop: list[str]


class Tools(NamedTuple):
    """What the daemon brings: the new embedder, which nobody else uses yet, and the exchange of the stores."""

    embedder: Fingerprint
    embed: Embed
    exchange: Callable[[Coming], str | None]  # returns what the former store is called from then on
    reserve_mb: int


def plan(present: Mapping[str, Copied], copied: Mapping[str, Copied]) -> Plan:
    """Compare what is there with what was copied, by point."""
    make = [point for point, state in present.items() if copied.get(point) != state]
    return Plan(make, [point for point in copied if point not in present])


def run(ctx: Context, tools: Tools) -> Report:
    """Copy until next to nothing is left, then copy that and exchange the stores in one lane call."""
    if ctx.read(ctx.stores.settle_fingerprint, None) == tools.embedder:
        ctx.read(swap.discard, ctx.stores.folder)  # of another embedder that was configured for a while
        return Report({"memories": 0})
    rebuild = ctx.read(Rebuild.begin, ctx.stores, tools.embedder, tools.reserve_mb)
    try:
        return _run(ctx, tools, rebuild)
    finally:
        ctx.read(rebuild.close)


def _run(ctx: Context, tools: Tools, rebuild: Rebuild) -> Report:
    done = 0
    while not ctx.must_stop():
        planned = ctx.read(_planned, rebuild)
        if len(planned.make) > FEW:
            done += _copy(ctx, tools, rebuild, planned.make, done)
            continue
        rebuild.sync()
        finished = ctx.read(_finish, tools, rebuild)
        if finished is not None:
            last, former = finished
            examples = [{"snapshot": former, "reason": "the former store"}] if former else []
            return Report({"memories": done + last}, examples, changed=1)
    return Report({"memories": done})


def _copy(ctx: Context, tools: Tools, rebuild: Rebuild, points: Sequence[str], before: int) -> int:
    """Copy these behind the requests, until told to stop; returns how many.

    The texts are embedded in the jobs' own thread: in the lane of the embedder that serves, questions would wait for them.
    """
    done = 0
    for start in range(0, len(points), BATCH):
        for part in slices(ctx.read(rebuild.sources, points[start : start + BATCH])):
            if ctx.must_stop():
                return done
            ctx.read(rebuild.put, part, tools.embed([one.text for one in part]))
            done += len(part)
        ctx.progress(before + done, before + len(points))
    return done


def slices(sources: Sequence[Source]) -> Iterator[list[Source]]:
    """The sources in their order, in parts of at most `CHARS`; a longer one is a part of its own."""
    part: list[Source] = []
    size = 0
    for one in sources:
        if part and size + len(one.text) > CHARS:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one.text)
    if part:
        yield part


# -- in the lane


def _planned(rebuild: Rebuild) -> Plan:
    return plan(rebuild.present(), rebuild.copied)


def _finish(tools: Tools, rebuild: Rebuild) -> tuple[int, str | None] | None:
    """Copy what is left and exchange the stores: how many, and what the former store is called; None if too much came."""
    planned = _planned(rebuild)
    if len(planned.make) > FEW:
        return None
    rebuild.drop(planned.drop)
    sources = rebuild.sources(planned.make)
    rebuild.put(sources, tools.embed([one.text for one in sources]) if sources else [])
    return len(sources), tools.exchange(rebuild.complete())
