"""Every job, and the order of the night.

To add a job: one file with `plan` and `run`, one line here; its name is then a route, a flag, a label and a config key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from jobs import decay, dedup, demote, dream, hebbian, prune, purge, scrub, snapshot, vacuum
from jobs.context import Context, Report


class Job(NamedTuple):
    """A job as the runner knows it; `deadline` in seconds. A night takes a `destructive` one only after a fresh snapshot."""

    name: str
    run: Callable[[Context], Report]
    deadline: float
    about: str
    destructive: bool = False


JOBS: Final = {
    job.name: job
    for job in (
        Job("snapshot", snapshot.run, 600, "keep a copy of the store, read back; let older ones go"),
        Job("hebbian", hebbian.run, 300, "fold what recalls taught into edges and access counts"),
        Job("dedup", dedup.run, 1800, "merge twins, propose what is nearly the same", destructive=True),
        Job("dream", dream.run, 1800, "replay memories, link the near, let emotions settle"),
        Job("prune", prune.run, 600, "drop edges that have faded", destructive=True),
        Job("demote", demote.run, 600, "move heat and tier by use"),
        Job("decay", decay.run, 600, "move expired and faded memories to the bin", destructive=True),
        Job("purge", purge.run, 600, "erase what is past its time in the bin", destructive=True),
        Job("vacuum", vacuum.run, 600, "give back the room of deleted points"),
        Job("scrub", scrub.run, 600, "leave no byte of what was erased for good"),
    )
}

NIGHT: Final = ("snapshot", "hebbian", "dedup", "dream", "prune", "demote", "decay", "purge")

#: What `run_job` takes.
RUNNABLE: Final = (*JOBS, "night")
#: Recorded beside jobs, never run by name: they have methods of their own.
RECORDED: Final = (*RUNNABLE, "undo", "forget_where", "forget_scope", "merge", "import", "reindex")
