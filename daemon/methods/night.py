"""Methods on the scheduled work: what runs when, what it did, and taking it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from daemon import shapes
from daemon.methods.filters import read_scope
from daemon.parts import Parts
from daemon.shapes import CanaryShape, RunShape
from daemon.wire import Cleared, Empty, Instant, Method, Params, Share, validated
from jobs.table import JOBS, RECORDED, RUNNABLE
from storage.errors import Invalid, command
from storage.instants import format_instant
from storage.ledger import Run
from storage.model import EVERY_SCOPE, cleared
from storage.store import Stores

JobName = Literal[RUNNABLE]  # type: ignore[valid-type]
RecordedName = Literal[RECORDED]  # type: ignore[valid-type]


class RunJobParams(Cleared):
    """Which job to run, and how."""

    name: JobName = Field(description="A job, or `night` for all of a night in order.")
    dry_run: bool = Field(default=False, description="Report what it would do and change nothing.")
    wait: bool = Field(default=True, description="Answer when it is done.")
    at: Instant | None = Field(default=None, description="As of this instant; only with dry_run.")
    scope: str = Field(default=EVERY_SCOPE, description="Only this scope and those below it; for `decay`.")
    params: dict[str, Any] = Field(default={}, description="Of `decay`: only = expired|decayed, threshold.")


class DecayParams(Params):
    """The params of a `decay` by hand."""

    only: Literal["expired", "decayed"] | None = None
    threshold: Share | None = None


class RunsParams(Cleared):
    """Which runs to show."""

    job: RecordedName | None = Field(default=None, description="Only runs of this job.")
    limit: int = Field(default=20, ge=1, le=500, description="How many, newest first.")


class UndoParams(Cleared):
    """Which run to take back."""

    run_id: str = Field(min_length=1, max_length=128, description="As `runs` shows it.")


class JobShape(TypedDict):
    """A job and its last run."""

    name: str
    about: str
    schedule: str
    next_run: str | None
    last_run: str | None
    last_outcome: str | None
    running: bool


class Jobs(TypedDict):
    """Every job; `paused` holds scheduled runs back."""

    jobs: list[JobShape]
    paused: bool


class Ran(TypedDict):
    """What a run did, or would do."""

    run_id: str
    job: str
    dry_run: bool
    outcome: str | None
    reason: str | None
    counts: dict[str, int]
    examples: list[dict[str, Any]]
    took_s: float | None
    canary: CanaryShape | None
    undone_by: str | None
    steps: list[RunShape]


class Runs(TypedDict):
    """Runs, newest first."""

    runs: list[RunShape]


class UndoneShape(TypedDict):
    """The undoing run, what came back, and what was left since it had changed or is gone."""

    run_id: str
    restored: list[str]
    left: list[str]


class Paused(TypedDict):
    """Whether scheduled runs are held back."""

    paused: bool


async def jobs(parts: Parts, params: Empty) -> Jobs:
    """Every job with its schedule and its last run."""
    del params
    last_runs = await parts.lane.run(_last_runs, parts.stores)
    next_runs = parts.next_runs()
    shown: list[JobShape] = [
        {
            "name": name, "about": JOBS[name].about if name in JOBS else "all of a night in order",
            "schedule": getattr(parts.config.schedule, name, ""), "next_run": format_instant(next_runs.get(name)),
            "last_run": None if last is None else format_instant(last.started_at),
            "last_outcome": None if last is None else last.outcome, "running": parts.runner.is_active(name),
        }
        for name, last in last_runs.items()
    ]  # fmt: skip
    return {"jobs": shown, "paused": parts.runner.paused}


def _last_runs(stores: Stores) -> dict[str, Run | None]:
    return {name: stores.ledger.last_run(name) for name in RUNNABLE}


async def run_job(parts: Parts, params: RunJobParams, progress: Callable[[dict[str, Any]], None] | None = None) -> Ran:
    """Run a job by hand; it is never held back by a pause, a cooldown or a minimum gap."""
    if params.at is not None and not params.dry_run:
        raise Invalid(
            "`at` is only for a dry run.", hint=f"{command('run', params.name, dry_run=True)} --at ...", field="at"
        )
    model = DecayParams if params.name == "decay" else Empty
    checked = validated("run_job", model, params.params, within="params")
    if params.scope != EVERY_SCOPE and params.name != "decay":
        raise Invalid("`scope` is only for decay.", hint=command("run", params.name), field="scope")
    run = await parts.runner.run(
        params.name, trigger="manual", dry_run=params.dry_run, wait=params.wait, at=params.at, scope=read_scope(params.scope),
        parameters=checked.model_dump(exclude_none=True), listener=progress,
    )  # fmt: skip
    run, *steps = await parts.lane.run(_with_steps, parts.stores, run, params.clearance)
    return {
        "run_id": run.id, "job": run.job, "dry_run": run.dry_run, "outcome": run.outcome, "reason": run.reason,
        "counts": run.counts, "examples": run.examples, "took_s": shapes.took(run),
        "canary": shapes.canary(run), "undone_by": run.undone_by,
        "steps": [shapes.run(step) for step in steps],
    }  # fmt: skip


async def runs(parts: Parts, params: RunsParams) -> Runs:
    """What the last runs did, by count and by example."""
    found = await parts.lane.run(_runs, parts.stores, params)
    return {"runs": [shapes.run(run) for run in found]}


def _runs(stores: Stores, params: RunsParams) -> list[Run]:
    return [_covered(stores, run, params.clearance) for run in stores.ledger.runs(job=params.job, limit=params.limit)]


def _with_steps(stores: Stores, run: Run, clearance: str) -> list[Run]:
    return [_covered(stores, one, clearance) for one in (run, *stores.ledger.steps_of(run.id))]


def _covered(stores: Stores, run: Run, clearance: str) -> Run:
    """A run with those of its examples whose every memory the clearance covers; its counts stay."""
    examples = [one for one in run.examples if all(_covers(stores, clearance, key) for key in _named(one))]
    return run._replace(examples=examples)


def _named(example: Mapping[str, Any]) -> list[str]:
    alone = [example[name] for name in ("id", "survivor", "duplicate") if name in example]
    return [*alone, *example.get("edge", ()), *example.get("pair", ())]


def _covers(stores: Stores, clearance: str, key: str) -> bool:
    """Whether a memory, or both ends of an edge, may be known of; what is gone had a level that nobody can tell now."""
    if clearance == "secret":
        return True
    row, edge = stores.catalogue.get(key), stores.synapses.get(key)
    if row is not None:
        return cleared(row.sensitivity, clearance)
    return edge is not None and all(_covers(stores, clearance, end) for end in (edge.a, edge.b))


async def undo(parts: Parts, params: UndoParams) -> UndoneShape:
    """Take back what a run changed, except what was changed since."""
    gone = await parts.lane.run(_gone, parts.stores)
    run, restored, left = await parts.runner.undo(params.run_id)
    back = gone & set(restored) - await parts.lane.run(_gone, parts.stores)
    parts.meter.count_restored(len(back))
    restored, left = await parts.lane.run(_seen, parts.stores, params.clearance, restored, left)
    return {"run_id": run.id, "restored": restored, "left": left}


def _seen(stores: Stores, clearance: str, *lists: list[str]) -> list[list[str]]:
    return [[key for key in keys if _covers(stores, clearance, key)] for keys in lists]


def _gone(stores: Stores) -> set[str]:
    return {row.id for row in stores.catalogue.gone()}


async def pause_jobs(parts: Parts, params: Empty) -> Paused:
    """Hold scheduled runs back; it survives restarts, and `run_job` still works."""
    del params
    await parts.runner.pause(paused=True)
    return {"paused": True}


async def resume_jobs(parts: Parts, params: Empty) -> Paused:
    """Let scheduled runs go again."""
    del params
    await parts.runner.pause(paused=False)
    return {"paused": False}


METHODS: Final = (
    Method("jobs", "night", Empty, Jobs, jobs, False, "Show every job, its schedule and its last run."),
    Method(
        "run_job", "night", RunJobParams, Ran, run_job, True, "Run a job or the night now.", ("name",), streams=True
    ),
    Method("runs", "night", RunsParams, Runs, runs, False, "Show what the last runs did."),
    Method("undo", "night", UndoParams, UndoneShape, undo, True, "Take back what a run changed.", ("run_id",)),
    Method("pause_jobs", "night", Empty, Paused, pause_jobs, True, "Hold scheduled runs back."),
    Method("resume_jobs", "night", Empty, Paused, resume_jobs, True, "Let scheduled runs go again."),
)
