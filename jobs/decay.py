"""Decay: what nobody used for long goes to the bin, from where it can come back.

    R = e^(-t/S), t = awake time since the last access or edit; a `short` memory with R < 0.1 fades (`storage.fading`)

Source: Ebbinghaus' curve as in astro-anchor, with a base in days instead of one hour and with importance and emotion in S.
Never: core, long, pinned, younger than a day, or more than max(5 %, 10) of a scope in any 24 hours, counted from the
journal at every level of the scope path, so that it holds for coarse scopes and for fine ones. Memories past
`expires_at` go first, whatever their class, outside the ceiling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Move
from storage.fading import Awake, Retention
from storage.model import DAY, EVERY_SCOPE, Memory, prefixes

NEWBORN: Final = DAY  # protected from its creation
LEAST: Final = 10  # a ceiling never lies below so many memories a scope


class Plan(NamedTuple):
    """What goes and why; `deferred` waits for the ceiling; `retention` of what goes, by id."""

    expired: tuple[Move, ...]
    decayed: tuple[Move, ...]
    deferred: int
    retention: dict[str, float]


def plan(
    rows: Sequence[Memory], now: float, awake: Awake, retention: Retention, *, ceiling: float, moved: Mapping[str, int],
    threshold: float | None = None,
) -> Plan:  # fmt: skip
    """Choose what goes, weakest first; `moved` counts what each exact scope lost to decay in the last 24 hours."""
    expired = [row for row in rows if row.expires_at is not None and row.expires_at <= now]
    gone = {row.id for row in expired}
    floor = retention.threshold if threshold is None else threshold
    candidates = [row for row in rows if row.id not in gone and may_fade(row, now)]
    strength = dict(zip((row.id for row in candidates), retention.of_rows(candidates, now, awake), strict=True))
    fading = sorted((row for row in candidates if strength[row.id] < floor), key=lambda row: (strength[row.id], row.id))
    room = _room(rows, moved, ceiling)
    chosen: list[Memory] = []
    for row in fading:
        levels = list(prefixes(row.scope))
        if all(room[level] > 0 for level in levels):
            room.subtract(levels)
            chosen.append(row)
    return Plan(
        tuple(Move(row.id, row.seq, {"forgotten_at": now, "forgotten_reason": "expired"}, "expire") for row in expired),
        tuple(Move(row.id, row.seq, {"forgotten_at": now, "forgotten_reason": "decayed"}, "forget") for row in chosen),
        len(fading) - len(chosen),
        {row.id: float(strength[row.id]) for row in chosen},
    )


def may_fade(row: Memory, now: float) -> bool:
    """Whether decay may ever take this memory as it stands: short, not pinned, at least a day old."""
    return row.tier == "short" and not row.pinned and now - row.created_at >= NEWBORN


def _room(rows: Sequence[Memory], moved: Mapping[str, int], ceiling: float) -> Counter[str]:
    """How many more may go, at every level: a share of what the scope held 24 hours ago, less what went since."""
    live: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for row in rows:
        live.update(prefixes(row.scope))
    for scope, count in moved.items():
        lost.update(dict.fromkeys(prefixes(scope), count))
    levels = live.keys() | lost.keys()
    return Counter({level: max(int(ceiling * (live[level] + lost[level])), LEAST) - lost[level] for level in levels})


def run(ctx: Context) -> Report:
    """Move what expired and what faded to the bin."""
    rows, moved = ctx.read(_snapshot, ctx)
    planned = plan(
        rows, ctx.now, ctx.stores.awake, ctx.settings.retention, ceiling=ctx.settings.ceiling, moved=moved,
        threshold=ctx.parameters.get("threshold"),
    )  # fmt: skip
    only = ctx.parameters.get("only")
    expired = planned.expired if only != "decayed" else ()
    decayed = planned.decayed if only != "expired" else ()
    applied = ctx.apply([*expired, *decayed])
    done = [*expired, *decayed] if ctx.dry_run else applied.done
    counts = Counter(change.op for change in done if isinstance(change, Move))
    deferred = planned.deferred if only != "expired" else 0
    return Report(
        {
            "expired": counts["expire"], "decayed": counts["forget"], "total": len(rows),
            "remaining": len(rows) - len(done), "deferred": deferred, "skipped": len(applied.skipped),
        },
        _examples(planned, len(expired) > 0 and only != "decayed"),
        changed=len(done),
        reason=f"{deferred} more wait for the ceiling of {ctx.settings.ceiling:.0%} of a scope a day" if deferred else None,
    )  # fmt: skip


def _examples(planned: Plan, with_expired: bool) -> list[dict[str, Any]]:
    expired = [{"id": move.memory, "reason": "expired"} for move in planned.expired] if with_expired else []
    faded = [
        {"id": move.memory, "reason": f"retention {planned.retention[move.memory]:.3f}"} for move in planned.decayed
    ]
    return (expired + faded)[:EXAMPLES]


def _snapshot(ctx: Context) -> tuple[list[Memory], dict[str, int]]:
    rows = list(ctx.stores.catalogue.rows(EVERY_SCOPE if ctx.scope == EVERY_SCOPE else ctx.scope))
    return rows, ctx.stores.ledger.moved_since(ctx.now - DAY, "forget")
