"""Restores a snapshot in a daemon again and again, each time on a copy of one state folder, and kills it at the next step.

Run as `python restore_killed.py FOLDER NAME`: the state of step n is left in FOLDER/killed/n, 0 being the kill while files
were copied; the last was not killed. It prints how many there are.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from storage.edge_files import copy_sparse
from tests.fakes import SettableClock
from tests.harness import BY_HAND, Daemon

COPIED_FILES = 40  # before the kill while files are copied


def moves(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether the exchange goes one step further."""
    return event in ("os.rename", "os.remove") and "state" in str(arguments[0])


def copies(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether another file of the new store is made."""
    return event == "open" and "store.next" in str(arguments[0]) and arguments[1] in ("x", "xb")


def kill_at(number: int, counts: Callable[[str, tuple[object, ...]], bool]) -> None:
    """End this process before the event of that number."""
    left = [number]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if counts(event, arguments):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def restore(folder: Path, name: str, number: int) -> None:
    """Start a daemon on the folder and restore, as far as it comes."""
    clock = SettableClock()
    clock.advance(60)
    daemon = Daemon(folder, clock=clock, options=BY_HAND).start()
    kill_at(number or COPIED_FILES, moves if number else copies)
    daemon.call("restore_snapshot", name=name)
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path, name: str) -> int:
    """The number of the last step."""
    number = 0
    while True:
        copy = folder / "killed" / str(number)
        copy.parent.mkdir(exist_ok=True)
        copy.mkdir()
        copy_sparse(folder / "state", copy / "state")
        child = os.fork()
        if not child:
            sys.stdout = sys.stderr
            restore(copy, name, number)
            os._exit(1)
        if os.WTERMSIG(os.waitpid(child, 0)[1]) != signal.SIGKILL:
            return number
        number += 1


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), sys.argv[2]))
