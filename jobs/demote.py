"""Demotion and promotion: heat follows recent use, tier follows proven worth.

Heat: hot idle > 7 days -> warm; idle > 30 days -> cold; hot above 50 a scope: the least recently used -> warm; cold
accessed since it cooled -> warm; 3 accesses since the last demotion -> hot. Tier: short with >= 3 accesses on >= 2 days, or
emotion >= 0.7 with one access -> long; long unused 180 days with R < 0.05 and no manual edge -> short. What is pinned or
core is never demoted. Idle time counts from the last access, edit or creation, and only while awake; a promotion needs
use that is younger than the idleness which would take it back, so that no memory goes up and down in turn. Sources:
Animus' tiers, mended (newborns are not idle, hot does not last for ever).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jobs.context import EXAMPLES, Context, Report
from storage.changes import Patch
from storage.fading import Awake, Retention
from storage.model import DAY, HEATS, Memory
from storage.synapses import Synapses

HOT_IDLE: Final = 7 * DAY
WARM_IDLE: Final = 30 * DAY
HOT_SHARE: Final = 50  # a scope
TO_HOT: Final = 3  # accesses since the last demotion
TO_LONG: Final = (3, 2)  # accesses, distinct days
FELT: Final = 0.7
LONG_IDLE: Final = 180 * DAY
LONG_FLOOR: Final = 0.05
BATCH: Final = 1_000  # memories whose edges are looked at in one lane call: 3 ms of six each


class Plan(NamedTuple):
    """The fields to set, and why, in one order: (patch, reason)."""

    moves: tuple[tuple[Patch, str], ...]
    examined: int


def plan(rows: Sequence[Memory], manual: Collection[str], now: float, awake: Awake, retention: Retention) -> Plan:
    """Decide each memory's heat and tier; `manual` are the memories that a person connected."""
    idle = {row.id: awake.seconds(row.used_at, now) for row in rows}
    heat = {row.id: _heat(row, idle[row.id]) for row in rows}
    for crowded in _crowded(rows, heat):
        heat[crowded.id] = ("warm", f"more than {HOT_SHARE} hot in the scope")
    fallen = {
        row.id
        for row in rows
        if row.tier == "long" and idle[row.id] > LONG_IDLE and not row.pinned and row.id not in manual
        and _remembered(row, now, awake, retention) < LONG_FLOOR
    }  # fmt: skip
    moves = []
    for row in rows:
        fields: dict[str, Any] = {}
        wanted, *why = heat[row.id]
        if wanted != row.heat:
            fell = HEATS.index(wanted) < HEATS.index(row.heat)
            fields |= {"heat": wanted} | ({"cooled_at_count": row.access_count} if fell else {})
        else:
            why = []
        tier, reason = ("short", "unused for 180 days") if row.id in fallen else _promoted(row, idle[row.id])
        if tier != row.tier:
            fields["tier"] = tier
            why.append(reason)
        if fields:
            moves.append((Patch(row.id, row.seq, fields), "; ".join(why)))
    return Plan(tuple(moves), len(rows))


def _heat(row: Memory, idle: float) -> tuple[str, str]:
    fresh = row.access_count - row.cooled_at_count
    if row.heat != "hot" and fresh >= TO_HOT and idle <= HOT_IDLE:
        return "hot", f"{fresh} accesses since the last demotion"
    if row.heat == "cold" and fresh > 0 and idle <= WARM_IDLE:
        return "warm", "accessed again"
    if row.heat == "cold" or _protected(row):
        return row.heat, ""
    if idle > WARM_IDLE:
        return "cold", "unused for 30 days"
    return ("warm", "hot, unused for 7 days") if row.heat == "hot" and idle > HOT_IDLE else (row.heat, "")


def _crowded(rows: Sequence[Memory], heat: dict[str, tuple[str, str]]) -> list[Memory]:
    """The least recently used hot memories above a scope's share, after those that are never demoted."""
    hot: dict[str, list[Memory]] = {}
    for row in rows:
        if heat[row.id][0] == "hot":
            hot.setdefault(row.scope, []).append(row)
    crowded = []
    for members in hot.values():
        others = [row for row in members if not (row.heat == "hot" and _protected(row))]
        left = max(HOT_SHARE - (len(members) - len(others)), 0)
        crowded += sorted(others, key=_last_use, reverse=True)[left:]
    return crowded


def _last_use(row: Memory) -> tuple[float, str]:
    return row.used_at, row.id


def _protected(row: Memory) -> bool:
    return row.pinned or row.tier == "core"


def _remembered(row: Memory, now: float, awake: Awake, retention: Retention) -> float:
    return retention.of(row.used_at, row.access_count, row.importance, row.emotion, now, awake)


def _promoted(row: Memory, idle: float) -> tuple[str, str]:
    """The tier that a short memory has earned by use within the time in which it would keep it."""
    accesses, days = TO_LONG
    if row.tier == "short" and idle <= LONG_IDLE:
        if row.access_count >= accesses and row.access_days >= days:
            return "long", f"{row.access_count} accesses on {row.access_days} days"
        if row.emotion >= FELT and row.access_count >= 1:
            return "long", f"emotion {row.emotion:.2f} and accessed"
    return row.tier, ""


def run(ctx: Context) -> Report:
    """Move heat and tier where use says so."""
    rows = ctx.read(_rows, ctx)
    manual = connected(ctx, [row.id for row in rows if row.tier == "long"])
    planned = plan(rows, manual, ctx.now, ctx.stores.awake, ctx.settings.retention)
    applied = ctx.apply([patch for patch, _ in planned.moves])
    done = [change for change in applied.done if isinstance(change, Patch)]
    counts = Counter(f"to_{patch.fields[name]}" for patch in done for name in ("heat", "tier") if name in patch.fields)
    reasons = {patch.memory: reason for patch, reason in planned.moves}
    examples = [
        {"id": patch.memory, "to": _shown(patch.fields), "reason": reasons[patch.memory]} for patch in done[:EXAMPLES]
    ]
    counted = {"examined": planned.examined, **counts, "skipped": len(applied.skipped)}
    return Report(counted, examples, changed=len(done))


def _rows(ctx: Context) -> list[Memory]:
    return list(ctx.stores.catalogue.rows())


def connected(ctx: Context, ids: Sequence[str]) -> set[str]:
    """Those of the memories that a person connected, looked up slice by slice.

    An edge that comes or goes between two slices counts or does not, as if it were made right before the run or right after
    it. All that it decides is whether a memory unused for half a year is `long`, which its next use sets right.
    """
    found: set[str] = set()
    for start in range(0, len(ids), BATCH):
        found |= ctx.read(_manual, ctx.stores.synapses, ids[start : start + BATCH])
    return found


def _manual(synapses: Synapses, ids: Sequence[str]) -> set[str]:
    """Which of some memories have an edge that was made by hand. Called in the lane."""
    return {memory for memory in ids if any(edge.kind == "manual" for edge in synapses.of(memory))}


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What of a move a person wants to know."""
    return {name: fields[name] for name in ("heat", "tier") if name in fields}
