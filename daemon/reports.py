"""How runs, jobs, what was forgotten and the daemon's health are shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from daemon.terminal import Screen, ago, fields, table, wrap
from daemon.transfers import number

#: What these do cannot be taken back: room is given back, bytes are gone, what was erased stays erased.
FOR_GOOD: Final = ("snapshot", "vacuum", "scrub", "purge")
NIGHT: Final = "night"
INDENT: Final = "    "
STEP: Final = "- "  # before a job that ran as part of a night
SHOWN: Final = 2  # examples under each of many runs
FULL: Final = 10  # examples that a run tells at most; with fewer, a greater count is of something else


def run(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What a run did or would do, its steps where it is a night, and how to take it back."""
    yield f"{screen.bold(result['job'])}: {_outcome(result, screen)}{_took(result, ' in ')}"
    counts = "" if result["steps"] else _counts(result)
    yield from fields(screen, [
        ("run", result["run_id"]), ("reason", result["reason"] or ""), ("counts", counts),
        ("measured", "".join(_measured(result))),
    ])  # fmt: skip
    if result["steps"]:
        rows = [[step["job"], _outcome(step, screen), _took(step), _counts(step)] for step in result["steps"]]
        yield from table(screen, ["STEP", "OUTCOME", ">TOOK", "COUNTS"], rows)
    else:
        yield from (f"  {_example(example)}" for example in result["examples"])
        if FULL <= len(result["examples"]) < max(result["counts"].values(), default=0):
            yield screen.dim("  These are examples; the counts tell how many there are.")
    if result.get("undone_by"):
        yield screen.yellow("It was taken back at once, since it upset what your questions find (canary.undo).")
        yield screen.dim(f"Have it after all: dreamctl undo {result['undone_by']}")
    elif result["outcome"] == "changed" and not result["dry_run"] and result["job"] not in FOR_GOOD:
        yield screen.dim(f"Take it back: dreamctl undo {result['run_id']}")


def runs(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """The last runs, newest first, a night before its steps; under each why it did less, and a few of its examples."""
    if not result["runs"]:
        yield "Nothing has run yet."
        return
    told = _nights_first(result["runs"])
    rows = [
        [
            one["run_id"], f"{STEP * (one['parent'] is not None)}{one['job']}", ago(one["started_at"], screen.now),
            _took(one), _outcome(one, screen), _counts(one),
        ]
        for one in told
    ]  # fmt: skip
    header, *lines = table(screen, ["RUN", "JOB", "STARTED", ">TOOK", "OUTCOME", "COUNTS"], rows)
    yield header
    for line, one in zip(lines, told, strict=True):
        yield line
        why = [f"{_span(one['late_by_s'])} late"] if one["late_by_s"] else []
        why += [one["reason"]] if one["reason"] else []
        examples = [] if one["job"] == NIGHT else map(_example, one["examples"][:SHOWN])
        for detail in (*why, *_measured(one), *examples):
            yield from (screen.dim(part) for part in wrap(detail, screen, INDENT))


def _nights_first(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """In their order, but each step behind the night that it is part of, where that is shown too."""
    here = {one["run_id"] for one in runs}
    ordered: list[Mapping[str, Any]] = []
    for one in runs:
        if one["parent"] not in here:
            ordered += [one, *(step for step in reversed(runs) if step["parent"] == one["run_id"])]
    return ordered


def _measured(one: Mapping[str, Any]) -> list[str]:
    """What a night did to what real questions find."""
    found = one.get("canary")
    if not found:
        return []
    questions = (
        "1 question of yours finds" if found["questions"] == 1 else f"{found['questions']} questions of yours find"
    )
    ranks = f"mean place {found['rank']:.2f}, {found['rank_before']:.2f} before"
    return [f"{questions} {found['overlap']:.1%} of what they found before the night; {ranks}"]


def jobs(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Every job: when it runs, when it ran, what it is for."""
    rows = [
        [
            job["name"], job["schedule"] or "-", ago(job["next_run"], screen.now), ago(job["last_run"], screen.now),
            screen.yellow("running") if job["running"] else job["last_outcome"] or "-", job["about"],
        ]
        for job in result["jobs"]
    ]  # fmt: skip
    yield from table(screen, ["JOB", "SCHEDULE", "NEXT", "LAST", "OUTCOME", "ABOUT"], rows)
    if result["paused"]:
        yield screen.yellow("Scheduled runs are held back. Let them go: dreamctl resume_jobs")


def held(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Whether scheduled runs wait, and how to turn that."""
    if result["paused"]:
        yield f"Scheduled runs are {screen.yellow('held back')}. Let them go: dreamctl resume_jobs"
    else:
        yield f"Scheduled runs {screen.green('go on')}. Hold them back: dreamctl pause_jobs"


def undone(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What an undo brought back and what it left."""
    count = len(result["restored"])
    if not count and not result["left"]:
        yield "Nothing was taken back: the run changed no memory and no edge that you may see."
        return
    yield f"{screen.green('Taken back')}: {count:,} {'change' if count == 1 else 'changes'}."
    if result["left"]:
        yield f"{screen.yellow('Left as it is, since it changed meanwhile or is gone')}: {len(result['left']):,}"
        yield from (f"  {one}" for one in result["left"])
    if result["restored"]:
        yield screen.dim(f"Take this back too: dreamctl undo {result['run_id']}")


def forgotten(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Which memories went, which are not there, and how they come back where they are not erased."""
    done = "Erased" if "snapshots" in result else "Forgotten"
    yield from (f"{screen.green(done)}: {one}" for one in result["forgotten"])
    yield from (f"{screen.yellow('Not there')}: {one}" for one in result["missing"])
    for name, told in (("superseded", "Still in the bin, with an older text"), ("merged_into", "Still said by")):
        yield from (f"{screen.yellow(told)}: {one}" for one in result.get(name, ()))
    if result.get("snapshots"):
        yield screen.yellow(f"Snapshots that may still hold it: {result['snapshots']}. See: dreamctl snapshots")
    if result["forgotten"] and "snapshots" not in result:
        back = "Take it back" if len(result["forgotten"]) == 1 else "Take them back one at a time"
        first = result["forgotten"][0]
        yield screen.dim(f"{back}: dreamctl restore {'-- ' * first.startswith('-')}{shlex.quote(first)}")


def by_rule(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What a rule let go or would let go, and how to do it or to take it back."""
    done = screen.yellow("Would forget") if result["dry_run"] else screen.green("Forgotten")
    yield f"{done}: {len(result['ids'])}."
    yield from (f"  {memory}" for memory in result["ids"])
    if result["reason"]:
        yield screen.yellow(result["reason"])
    if result["ids"]:
        take_back = f"Take it back: dreamctl undo {result['run_id']}"
        yield screen.dim("Do it: the same with --no-dry-run" if result["dry_run"] else take_back)


def scope(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What went with a scope, and how to take it back or what may still hold it."""
    records = "fact, turn or session state" if result["records"] == 1 else "facts, turns or session states"
    went = f"{number('memory', result['forgotten'])}, and {result['records']:,} {records}"
    yield f"{screen.green('Forgotten')} in {result['scope']} and below it: {went}."
    if result.get("snapshots"):
        yield screen.yellow(f"{result['snapshots']} snapshots may still hold some of it until they rotate.")
    yield from way_back(result, screen)


def way_back(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """How to take back what was done, where it was a run."""
    if "run_id" in result:
        yield screen.dim(f"Take it back: dreamctl undo {result['run_id']}")


def health(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """Whether the daemon is well, what to do where it is not, and what it keeps."""
    well = result["status"] == "ok"
    yield f"dreamd {result['version']} is {screen.green('well') if well else screen.yellow(result['status'])}."
    for reason in result["reasons"]:
        yield f"  {screen.yellow(reason['name'])}: {reason['detail']}"
        yield f"    {reason['hint']}"
    last = result.get("last_night")
    told = [result["last_night_outcome"] or "under way", *["taken back"] * result["last_night_undone"]]
    night = ", ".join([ago(last, screen.now), *told]) if last else "none yet"
    yield from fields(screen, [
        ("memories", str(result["memories"])), ("in the bin", str(result["bin"])), ("edges", str(result["edges"])),
        ("last night", night), ("running", result["running"] or ""),
        ("jobs", "held back: dreamctl resume_jobs" if result["paused"] else ""), ("up", _span(result["uptime_s"])),
        ("engine", result["engine"]), ("embedder", result["embedder"]), ("pid", str(result["pid"])),
        ("socket", result["socket"]), ("state", result["state_dir"]),
    ])  # fmt: skip


def _outcome(one: Mapping[str, Any], screen: Screen) -> str:
    if one["outcome"] is None:
        return screen.yellow("under way")
    style = {"changed": screen.green, "failed": screen.red, "cancelled": screen.yellow}.get(one["outcome"], str)
    notes = ["dry run"] * one["dry_run"] + ["undone"] * bool(one.get("undone_by"))
    return style(one["outcome"]) + (f" ({', '.join(notes)})" if notes else "")


def _example(example: Mapping[str, Any]) -> str:
    """What a run did to one thing: ids and reasons speak for themselves, other members by their names."""
    shown = {name: _words(value) for name, value in example.items()}
    plain = ("id", "edge", "reason")
    return "  ".join(str(value) if name in plain else f"{name} {value}" for name, value in shown.items())


def _words(value: Any) -> Any:
    if isinstance(value, list):
        return " - ".join(map(str, value))
    return " ".join(f"{name} {one}" for name, one in value.items()) if isinstance(value, dict) else value


def _counts(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in one["counts"].items() if count)


def _took(one: Mapping[str, Any], before: str = "") -> str:
    return "" if one["took_s"] is None else f"{before}{_span(one['took_s'])}"


def _span(seconds: float) -> str:
    """A duration in the unit that leaves few digits."""
    for unit, length, limit in (("ms", 0.001, 1), ("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < limit:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds / 86_400:.3g} d"
