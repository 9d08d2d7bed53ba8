"""Methods that forget many memories at once: by a rule, or a whole scope."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain
from typing import Final, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from daemon.methods.filters import read_scope
from daemon.parts import Parts
from daemon.wire import Method, Share, Writing
from jobs import forget_scope as scopes
from jobs import forget_where as rules
from jobs.table import Job
from storage.errors import Invalid, NotFound, Refused, Unavailable, command
from storage.ledger import SUCCESSES, Run
from storage.model import cleared
from storage.snapshots import holding
from storage.text import clean_scope

#: The param that a strategy reads; without its own it is not told what to do, with another's it does not do what was meant.
OWN: Final = {"importance": "threshold", "age": "max_age_days", "capacity": "keep"}


class ForgetWhereParams(Writing):
    """What to forget, by a rule. Core, pinned and newborn memories stay, and the ceiling of `decay` holds."""

    strategy: Literal["importance", "age", "capacity"] = Field(
        default="importance", description="What goes: the unimportant, the unused, or what is beyond a number."
    )
    threshold: Share = Field(default=0.3, description="Of `importance`: what lies below goes.")
    max_age_days: float | None = Field(
        default=None, ge=0, description="Of `age`: what was neither used nor edited for more awake days goes."
    )
    keep: int | None = Field(
        default=None, ge=0, description="Of `capacity`: so many stay, the most important, then the last used."
    )
    scope: str = Field(description="In this scope and those below it; '*' = in every scope.")
    dry_run: bool = Field(default=True, description="Say what would go and change nothing; --no-dry-run acts.")


class ForgottenWhere(TypedDict):
    """What went to the bin, or would go; `deferred` more wait for the ceiling, and the reason says so."""

    run_id: str
    ids: list[str]
    deferred: int
    dry_run: bool
    reason: str | None


class ForgetScopeParams(Writing):
    """A scope to forget, with every scope below it."""

    scope: str = Field(description="This scope and every one below it.")
    confirm: str = Field(default="", description="The scope again, since all of it goes.")
    hard: bool = Field(
        default=False, description="Erase everywhere at once instead of moving to the bin; cannot be taken back."
    )


class ForgottenScope(TypedDict):
    """How many memories went, and how many facts, turns and session states; `run_id` can be undone.

    Of what was erased, `snapshots` says how many snapshots may still hold some of it.
    """

    scope: str
    forgotten: int
    records: int
    run_id: NotRequired[str]
    snapshots: NotRequired[int]


async def forget_where(parts: Parts, params: ForgetWhereParams) -> ForgottenWhere:
    """Move what a rule names to the bin, or with `dry_run` only say what that would be."""
    rule = _rule(params)
    outcome = rules.Outcome()
    job = Job(rules.NAME, partial(rules.run, rule=rule, outcome=outcome), rules.DEADLINE, "forget by a rule")
    run = await parts.runner.perform(job, dry_run=params.dry_run, scope=rule.scope)
    if not params.dry_run:
        parts.meter.count_forgotten("request", len(outcome.ids))
    _check_ended(run, "dreamctl forget_where again")
    return {
        "run_id": run.id, "ids": list(outcome.ids), "deferred": outcome.deferred, "dry_run": run.dry_run,
        "reason": run.reason,
    }  # fmt: skip


def _rule(params: ForgetWhereParams) -> rules.Rule:
    """The rule that the params make. Raises Invalid."""
    own = OWN[params.strategy]
    if getattr(params, own) is None:
        raise Invalid(
            f"The strategy {params.strategy} needs `{own}`.",
            hint=command("forget_where", strategy=params.strategy, **{own: "N"}, scope=params.scope), field=own,
        )  # fmt: skip
    for strategy, name in OWN.items():
        if name != own and name in params.model_fields_set:
            raise Invalid(
                f"`{name}` belongs to the strategy {strategy}, not to {params.strategy}.",
                hint=f"Leave it out, or: {command('forget_where', strategy=strategy)}", field=name,
            )  # fmt: skip
    return rules.Rule(
        strategy=params.strategy, threshold=params.threshold, max_age_days=params.max_age_days or 0.0,
        keep=params.keep or 0, scope=read_scope(params.scope), clearance=params.clearance,
    )  # fmt: skip


async def forget_scope(parts: Parts, params: ForgetScopeParams) -> ForgottenScope:
    """Forget everything in a scope and below it that the clearance covers."""
    scope = clean_scope(params.scope)
    again = command("forget_scope", params.scope, confirm=params.scope, hard=params.hard)
    if params.confirm != params.scope:
        raise Refused(f"This forgets everything in {scope!r} and in every scope below it.", hint=again)
    if not await _is_known(parts, scope, params.clearance):
        raise NotFound(f"There is nothing in the scope {scope!r}.", hint="dreamctl stats --scope '*'")
    rule, outcome = scopes.Rule(scope, params.clearance, params.hard), scopes.Outcome()
    job = Job(scopes.NAME, partial(scopes.run, rule=rule, outcome=outcome), scopes.DEADLINE, "forget a whole scope")
    run = await parts.runner.perform(job, scope=scope)
    parts.meter.count_forgotten("hard" if params.hard else "request", outcome.live)
    _check_ended(run, again)
    result: ForgottenScope = {"scope": scope, "forgotten": len(outcome.forgotten), "records": outcome.records}
    if params.hard:
        result["snapshots"] = await asyncio.to_thread(holding, parts.config.state_dir, outcome.since)
    else:
        result["run_id"] = run.id
    return result


async def _is_known(parts: Parts, scope: str, clearance: str) -> bool:
    """Whether the caller may know of anything there, in the bin too."""
    if await parts.lane.run(_has_memories, parts, scope, clearance):
        return True
    batches = parts.stores.records.within(scope)
    while (batch := await parts.lane.run(next, batches, None)) is not None:
        if any(scopes.is_covered(record, clearance) for record in batch.values()):
            return True
    return False


def _has_memories(parts: Parts, scope: str, clearance: str) -> bool:
    catalogue = parts.stores.catalogue
    return any(cleared(row.sensitivity, clearance) for row in chain(catalogue.rows(scope), catalogue.gone(scope)))


def _check_ended(run: Run, again: str) -> None:
    """Raise where a run was not gone through with; what it did until then stands, and can be undone."""
    if run.outcome not in SUCCESSES:
        raise Unavailable(f"The {run.job} did not finish ({run.reason}).", hint=again, run_id=run.id)


METHODS: Final = (
    Method(
        "forget_where",
        "write",
        ForgetWhereParams,
        ForgottenWhere,
        forget_where,
        True,
        "Forget by a rule; tells first what would go.",
    ),
    Method(
        "forget_scope",
        "write",
        ForgetScopeParams,
        ForgottenScope,
        forget_scope,
        True,
        "Forget everything in a scope and below it.",
        ("scope",),
    ),
)
