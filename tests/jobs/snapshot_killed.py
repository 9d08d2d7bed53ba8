"""Takes a night's snapshot again and again, each time on a copy of one state folder, and is killed at the next step.

Run as `python snapshot_killed.py FOLDER`: the state of step n is left in FOLDER/killed/n; the last was not killed. It prints
how many there are. Two older ones lie there, of which one is to go when the new one is there.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parents[2]))

from jobs import snapshot
from jobs.context import Context, Settings
from storage import snapshots
from storage.edge_files import copy_sparse
from storage.lane import Lane
from storage.model import DAY
from tests.storage.kept import filled, take
from tests.storage.opened import Opened

#: Of what is done once for each file, the kill comes before these.
SOME = (1, 30)


def step(event: str, arguments: tuple[object, ...]) -> str:
    """What is done to a snapshot, in a word; nothing where it is done to something else."""
    path = str(arguments[0]) if arguments else ""
    if f"/{snapshots.SNAPSHOTS}/" not in path:
        return ""
    if event == "open" and arguments[1] in ("x", "xb"):
        return "read back" if "read-back" in path else "copied"
    if event in ("os.link", "os.remove", "os.rmdir"):
        return f"{event} {'.leaving' in path}"
    return "moved" if event == "os.rename" and "/store/" not in path else ""


def kill_at(number: int) -> None:
    """End this process before the step of that number."""
    left = [number]
    seen: dict[str, int] = {}

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        what = step(event, arguments)
        if not what:
            return
        seen[what] = seen.get(what, 0) + 1
        if what == "moved" or seen[what] in SOME:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run(opened: Opened, *, number: int) -> None:
    """One run of the job on these stores, which ends at the step of that number."""
    ctx = Context(
        stores=opened.stores, lane=Lane("store"), settings=Settings(reserve_mb=1), run_id="run", now=opened.now,
        rng=random.Random(1), dry_run=False, stopping=lambda: False, progress=lambda _done, _total: None,
        learned=cast("Any", None), texts=cast("Any", None),
    )  # fmt: skip
    kill_at(number)
    snapshot.run(ctx)


def forked(work: Any) -> bool:
    """Do it in a child, where an engine may run threads; whether it was killed."""
    child = os.fork()
    if not child:
        sys.stdout = sys.stderr
        work()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
        raise SystemExit(1)
    return os.WIFSIGNALED(status)


def prepared(folder: Path) -> None:
    """A store with two snapshots of nights; today's is not taken yet, and the first is of the same day as the second."""
    opened = filled(Opened(folder))
    take(opened, snapshots.NIGHTLY)
    opened.clock.advance(DAY)
    take(opened, snapshots.NIGHTLY)
    opened.close()


def killed(folder: Path, number: int) -> None:
    """The run on this folder, at half past a day in which one was taken already."""
    opened = Opened(folder)
    opened.clock.advance(1.5 * DAY)
    run(opened, number=number)
    opened.close()


def main(folder: Path) -> int:
    """The number of the last step."""
    (folder / "state").mkdir()
    forked(lambda: prepared(folder / "state"))
    number = 0
    while True:
        copy = folder / "killed" / str(number)
        copy.parent.mkdir(exist_ok=True)
        copy_sparse(folder / "state", copy)
        if not forked(lambda copy=copy, number=number: killed(copy, number + 1)):
            return number
        number += 1


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
