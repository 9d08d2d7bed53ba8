"""Forgetting by a rule, asked for by hand: what matters little, what was not used for long, or what is beyond a number.

    importance   importance < threshold
    age          awake time since the last access or edit > max_age_days
    capacity     not among the `keep` most important of the scope, of equals the most recently used

Never core, pinned, or younger than a day, and never more than `decay` may take: its ceiling counts these moves as its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from jobs.context import EXAMPLES, Context, Report, check_counts
from jobs.decay import FADED, NEWBORN, moved_lately, room, waiting, within
from storage.changes import Move
from storage.fading import Awake
from storage.model import DAY, EVERY_SCOPE, Memory
from storage.where import Where

NAME: Final = "forget_where"
DEADLINE: Final = 600.0  # seconds
REASON: Final = "request"

Strategy = Literal["importance", "age", "capacity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What is to go, out of what a caller may see in a scope and below it; a strategy reads its own field alone."""

    strategy: Strategy
    threshold: float = 0.3
    max_age_days: float = 0.0
    keep: int = 0
    scope: str = EVERY_SCOPE
    clearance: str = "secret"


class Plan(NamedTuple):
    """What goes, and why, by id; `deferred` waits for the ceiling; `total` was looked at."""

    moves: tuple[Move, ...]
    reasons: dict[str, str]
    deferred: int
    total: int


def plan(
    rows: Sequence[Memory], rule: Rule, now: float, awake: Awake, *, ceiling: float, moved: Mapping[str, int]
) -> Plan:
    """Choose what goes, what is missed least first.

    `rows` are all live memories, since the ceiling of a coarse scope counts those outside the rule's too; `moved` says
    how many each exact scope lost in the last 24 hours.
    """
    where = Where(now=now, scope=rule.scope, clearance=rule.clearance)
    seen = [row for row in rows if where.admits(row)]
    meant = {row.id: (row, reason) for row, reason in _CHOICES[rule.strategy](seen, rule, now, awake)}
    going = [row for row, _ in meant.values() if may_go(row, now)]
    chosen = within(going, room(Counter(row.scope for row in rows), moved, ceiling))
    fields = {"forgotten_at": now, "forgotten_reason": REASON}
    return Plan(
        tuple(Move(row.id, row.seq, fields, FADED) for row in chosen),
        {row.id: meant[row.id][1] for row in chosen},
        len(going) - len(chosen),
        len(seen),
    )


def may_go(row: Memory, now: float) -> bool:
    """Whether any rule may ever take this memory as it stands."""
    return row.tier != "core" and not row.pinned and now - row.created_at >= NEWBORN


_Choice = list[tuple[Memory, str]]


def _unimportant(rows: Sequence[Memory], rule: Rule, _now: float, _awake: Awake) -> _Choice:
    return [(row, f"importance {row.importance:.3g}") for row in _ranked(rows)[::-1] if row.importance < rule.threshold]


def _unused(rows: Sequence[Memory], rule: Rule, now: float, awake: Awake) -> _Choice:
    days = ((awake.seconds(row.used_at, now) / DAY, row) for row in rows)
    idle = [(age, row) for age, row in days if age > rule.max_age_days]
    return [(row, f"unused for {age:.3g} days") for age, row in sorted(idle, key=lambda one: (-one[0], one[1].id))]


def _beyond(rows: Sequence[Memory], rule: Rule, _now: float, _awake: Awake) -> _Choice:
    return [(row, f"not among the first {rule.keep}") for row in _ranked(rows)[rule.keep :][::-1]]


def _ranked(rows: Sequence[Memory]) -> list[Memory]:
    """The most important first, of equals the most recently used."""
    return sorted(rows, key=lambda row: (-row.importance, -row.used_at, row.id))


_CHOICES: Final[Mapping[Strategy, Callable[[Sequence[Memory], Rule, float, Awake], _Choice]]] = {
    "importance": _unimportant,
    "age": _unused,
    "capacity": _beyond,
}


@dataclass(slots=True)
class Outcome:
    """What went, or in a dry run would go, and how many more wait for the ceiling."""

    ids: tuple[str, ...] = ()
    deferred: int = 0


def run(ctx: Context, rule: Rule, outcome: Outcome) -> Report:
    """Move what the rule names to the bin; `outcome` tells all of it, where the report has but examples."""
    rows, moved = ctx.read(_snapshot, ctx)
    planned = plan(rows, rule, ctx.now, ctx.stores.awake, ceiling=ctx.settings.ceiling, moved=moved)
    applied = ctx.apply(planned.moves)
    outcome.ids = tuple(move.memory for move in applied.done if isinstance(move, Move))
    outcome.deferred = planned.deferred
    if not ctx.dry_run:
        ctx.read(check_counts, ctx.stores)
    counts = {
        "forgotten": len(outcome.ids), "deferred": planned.deferred, "skipped": len(applied.skipped), "total": planned.total,
    }  # fmt: skip
    examples: list[dict[str, Any]] = [
        {"id": memory, "reason": planned.reasons[memory]} for memory in outcome.ids[:EXAMPLES]
    ]
    reason = waiting(planned.deferred, ctx.settings.ceiling)
    return Report(counts, examples, changed=len(outcome.ids), reason=reason)


def _snapshot(ctx: Context) -> tuple[list[Memory], dict[str, int]]:
    return list(ctx.stores.catalogue.rows()), moved_lately(ctx)
