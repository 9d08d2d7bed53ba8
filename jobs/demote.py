"""Demotion and promotion: heat follows recent use, tier follows proven worth.

Heat: hot idle > 7 days -> warm; warm idle > 30 days -> cold; hot above 50 a scope: the least recently used -> warm; cold
accessed since it cooled -> warm; 3 accesses since the last demotion -> hot. Tier: short with >= 3 accesses on >= 2 days, or
emotion >= 0.7 with one access -> long; long unused 180 days with R < 0.05 and no manual edge -> short. Idle time counts
from the last access, edit or creation, and only while awake. Sources: Animus' tiers, mended (newborns are not idle, hot
does not last for ever).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Patch
from storage.fading import Awake, Retention
from storage.model import DAY, EVERY_SCOPE, Memory

HOT_IDLE: Final = 7 * DAY
WARM_IDLE: Final = 30 * DAY
HOT_SHARE: Final = 50  # a scope
TO_HOT: Final = 3  # accesses since the last demotion
TO_LONG: Final = (3, 2)  # accesses, distinct days
FELT: Final = 0.7
LONG_IDLE: Final = 180 * DAY
LONG_FLOOR: Final = 0.05


class Plan(NamedTuple):
    """The fields to set, and why, in one order: (patch, reason)."""

    moves: tuple[tuple[Patch, str], ...]
    examined: int


def plan(rows: Sequence[Memory], manual: Collection[str], now: float, awake: Awake, retention: Retention) -> Plan:
    """Decide each memory's heat and tier; `manual` are the memories that a person connected."""
    strength = retention.of_rows(rows, now, awake)
    heat = {row.id: _heat(row, now, awake) for row in rows}
    for crowded in _crowded(rows, heat):
        heat[crowded.id] = ("warm", f"more than {HOT_SHARE} hot in the scope")
    moves = []
    for row, remembered in zip(rows, strength, strict=True):
        fields: dict[str, Any] = {}
        why: list[str] = []
        wanted, reason = heat[row.id]
        if wanted != row.heat:
            fields |= {"heat": wanted} | ({} if wanted == "hot" else {"cooled_at_count": row.access_count})
            why.append(reason)
        tier, reason = _tier(row, float(remembered), manual, now, awake)
        if tier != row.tier:
            fields["tier"] = tier
            why.append(reason)
        if fields:
            moves.append((Patch(row.id, row.seq, fields), "; ".join(why)))
    return Plan(tuple(moves), len(rows))


def _heat(row: Memory, now: float, awake: Awake) -> tuple[str, str]:
    idle = awake.seconds(row.used_at, now)
    fresh = row.access_count - row.cooled_at_count
    if row.heat == "cold" and fresh <= 0:
        return "cold", ""
    if row.heat == "hot":
        return ("warm", "hot, unused for 7 days") if idle > HOT_IDLE else ("hot", "")
    if fresh >= TO_HOT and idle <= HOT_IDLE:
        return "hot", f"{fresh} accesses since the last demotion"
    if row.heat == "cold":
        return "warm", "accessed again"
    return ("cold", "unused for 30 days") if idle > WARM_IDLE else ("warm", "")


def _crowded(rows: Sequence[Memory], heat: dict[str, tuple[str, str]]) -> list[Memory]:
    """The least recently used hot memories above a scope's share."""
    hot: dict[str, list[Memory]] = {}
    for row in rows:
        if heat[row.id][0] == "hot":
            hot.setdefault(row.scope, []).append(row)
    return [
        row
        for members in hot.values()
        for row in sorted(members, key=lambda one: (one.used_at, one.id), reverse=True)[HOT_SHARE:]
    ]


def _tier(row: Memory, retention: float, manual: Collection[str], now: float, awake: Awake) -> tuple[str, str]:
    accesses, days = TO_LONG
    if row.tier == "short":
        if row.access_count >= accesses and row.access_days >= days:
            return "long", f"{row.access_count} accesses on {row.access_days} days"
        if row.emotion >= FELT and row.access_count >= 1:
            return "long", f"emotion {row.emotion:.2f} and accessed"
    idle_long = row.tier == "long" and awake.seconds(row.used_at, now) > LONG_IDLE
    if idle_long and retention < LONG_FLOOR and row.id not in manual and not row.pinned:
        return "short", "unused for 180 days"
    return row.tier, ""


def run(ctx: Context) -> Report:
    """Move heat and tier where use says so."""
    rows, manual = ctx.read(_snapshot, ctx)
    planned = plan(rows, manual, ctx.now, ctx.stores.awake, ctx.settings.retention)
    applied = ctx.apply([patch for patch, _ in planned.moves])
    done = (
        [patch for patch, _ in planned.moves]
        if ctx.dry_run
        else [one for one in applied.done if isinstance(one, Patch)]
    )
    counts = Counter(
        f"to_{value}" for patch in done for name, value in patch.fields.items() if name in ("heat", "tier")
    )
    examples = [
        {"id": patch.memory, "to": dict(patch.fields), "reason": reason} for patch, reason in planned.moves[:EXAMPLES]
    ]
    return Report(
        {"examined": planned.examined, **counts, "skipped": len(applied.skipped)}, examples, changed=len(done)
    )


def _snapshot(ctx: Context) -> tuple[list[Memory], set[str]]:
    edges = (edge for _, edge in ctx.stores.synapses.every() if edge.kind == "manual")
    return list(ctx.stores.catalogue.rows(EVERY_SCOPE)), {end for edge in edges for end in (edge.a, edge.b)}
