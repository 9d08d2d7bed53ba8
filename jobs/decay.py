"""Decay: what nobody used for long goes to the bin, from where it can come back.

    R = e^(-t/S), t = awake time since the last access or edit; a `short` memory with R < 0.1 fades (`storage.fading`)

Source: Ebbinghaus' curve as in astro-anchor, with a base in days instead of one hour and with importance and emotion in S.
Never: core, long, pinned, younger than a day, or more than max(5 %, 10) of a scope in any 24 awake hours, counted from the
journal at every level of the scope path, so that it holds for coarse scopes and for fine ones. Memories past
`expires_at` go first, whatever their class, outside the ceiling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report, check_counts
from storage.changes import Move
from storage.fading import Awake, Retention
from storage.model import DAY, EVERY_SCOPE, Memory, covers, prefixes

NEWBORN: Final = DAY  # protected from its creation
LEAST: Final = 10  # a ceiling never lies below so many memories a scope
FADED: Final = "forget"  # the journal's word for a move that the ceiling counts


class Plan(NamedTuple):
    """What goes and why; `deferred` waits for the ceiling; `retention` of what fades, by id; `total` was looked at."""

    expired: tuple[Move, ...]
    decayed: tuple[Move, ...]
    deferred: int
    retention: dict[str, float]
    total: int


def plan(
    rows: Sequence[Memory], now: float, awake: Awake, retention: Retention, *, ceiling: float, moved: Mapping[str, int],
    scope: str = EVERY_SCOPE, only: str | None = None, threshold: float | None = None,
) -> Plan:  # fmt: skip
    """Choose what goes from `scope`, weakest first.

    `rows` are all live memories, since the ceiling of a coarse scope counts those outside `scope` too; `moved` says how
    many each exact scope lost to decay lately, as `moved_lately` counts; `only` is expired or decayed.
    """
    looked_at = [row for row in rows if covers(scope, row.scope)]
    expired = [row for row in looked_at if has_expired(row, now)]
    candidates = [row for row in looked_at if may_fade(row, now) and not has_expired(row, now)]
    floor = retention.threshold if threshold is None else threshold
    strength = dict(
        zip((row.id for row in candidates), retention.of_rows(candidates, now, awake).tolist(), strict=True)
    )
    fading = sorted((row for row in candidates if strength[row.id] < floor), key=lambda row: (strength[row.id], row.id))
    chosen = within(fading, room(Counter(row.scope for row in rows), moved, ceiling))
    return Plan(
        () if only == "decayed" else tuple(_move(row, now, "expired", "expire") for row in expired),
        () if only == "expired" else tuple(_move(row, now, "decayed", FADED) for row in chosen),
        0 if only == "expired" else len(fading) - len(chosen),
        {row.id: strength[row.id] for row in fading},
        len(looked_at),
    )


def may_fade(row: Memory, now: float) -> bool:
    """Whether decay may ever take this memory as it stands: short, not pinned, at least a day old."""
    return row.tier == "short" and not row.pinned and now - row.created_at >= NEWBORN


def has_expired(row: Memory, now: float) -> bool:
    """Whether its time is over."""
    return row.expires_at is not None and row.expires_at <= now


def room(live: Mapping[str, int], moved: Mapping[str, int], ceiling: float) -> Counter[str]:
    """How many more may go, at every level: a share of what is there and what went in 24 hours, less what went."""
    there: Counter[str] = Counter()
    went: Counter[str] = Counter()
    for counts, levels in ((live, there), (moved, went)):
        for scope, count in counts.items():
            levels.update(dict.fromkeys(prefixes(scope), count))
    scopes = there.keys() | went.keys()
    return Counter({scope: max(int(ceiling * (there[scope] + went[scope])), LEAST) - went[scope] for scope in scopes})


def within(going: Sequence[Memory], left: Counter[str]) -> list[Memory]:
    """Those, in their order, for which there is room at every level of their scope."""
    chosen = []
    for row in going:
        levels = list(prefixes(row.scope))
        if all(left[level] > 0 for level in levels):
            left.subtract(levels)
            chosen.append(row)
    return chosen


def waiting(deferred: int, ceiling: float) -> str | None:
    """What a run says of those that wait for the ceiling, if there are any."""
    if not deferred:
        return None
    return f"{deferred} more wait: at most max({ceiling:.0%}, {LEAST}) of a scope go in 24 hours"


def _move(row: Memory, now: float, reason: str, op: str) -> Move:
    return Move(row.id, row.seq, {"forgotten_at": now, "forgotten_reason": reason}, op)


def run(ctx: Context) -> Report:
    """Move what expired and what faded to the bin."""
    rows, moved = ctx.read(_snapshot, ctx)
    planned = plan(
        rows, ctx.now, ctx.stores.awake, ctx.settings.retention, ceiling=ctx.settings.ceiling, moved=moved,
        scope=ctx.scope, only=ctx.parameters.get("only"), threshold=ctx.parameters.get("threshold"),
    )  # fmt: skip
    applied = ctx.apply([*planned.expired, *planned.decayed])
    done = [change for change in applied.done if isinstance(change, Move)]
    ops = Counter(move.op for move in done)
    counts = {
        "expired": ops["expire"], "decayed": ops[FADED], "total": planned.total,
        "remaining": planned.total - len(done) if ctx.dry_run else ctx.read(_remaining, ctx),
        "deferred": planned.deferred, "skipped": len(applied.skipped),
    }  # fmt: skip
    reason = waiting(planned.deferred, ctx.settings.ceiling)
    return Report(counts, _examples(done, planned), changed=len(done), reason=reason)


def _examples(done: Sequence[Move], planned: Plan) -> list[dict[str, Any]]:
    return [
        {
            "id": move.memory,
            "reason": f"retention {planned.retention[move.memory]:.3f}" if move.op == FADED else "expired",
        }
        for move in done[:EXAMPLES]
    ]


def _snapshot(ctx: Context) -> tuple[list[Memory], dict[str, int]]:
    return list(ctx.stores.catalogue.rows()), moved_lately(ctx)


def moved_lately(ctx: Context, op: str = FADED) -> dict[str, int]:
    """How many each exact scope lost in the last 24 awake hours, so that a clock that jumps ahead makes no room.

    What seems to have gone later counts up to a day ahead of now: a clock set back a little must make none either, and one
    set back by years must not leave none for years. Called in the lane.
    """
    return ctx.stores.ledger.moved_since(ctx.stores.awake.before(ctx.now, DAY), op, until=ctx.now + DAY)


def _remaining(ctx: Context) -> int:
    """How many live memories there are now, which the engine confirms."""
    check_counts(ctx.stores)
    return ctx.stores.catalogue.count(ctx.scope)
