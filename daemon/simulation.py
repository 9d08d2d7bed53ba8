"""The process in which a look ahead runs, so that a minute of work holds up no request: `python -m daemon.simulation`.

On standard input comes one line, the `Order`; on standard output goes a line a day, and last, where it could not go on, the
error. It is nicer than anything else on the machine. When its standard input ends nobody waits for it any more, and it ends
at once: the daemon that asked may have been killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from daemon.backup import LEDGER
from daemon.calls import frames
from daemon.clock import SystemClock
from jobs import simulate
from jobs.context import Settings
from jobs.simulate import Day, Recalls, World
from storage.edge import EdgeEngine
from storage.errors import Corrupt, DreamdError
from storage.instants import format_instant
from storage.lane import Lane
from storage.ledger import Ledger
from storage.memories import LIVE
from storage.rank import Weights
from storage.store import Stores, collections
from storage.swap import STORE

NICEST: Final = 19
FAILED: Final = 1
_INPUT, _OUTPUT = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to simulate: a copy of store and ledger in `folder`, and what the daemon whose they are was told."""

    folder: Path
    now: float
    days: int
    recalls: Recalls
    recalls_a_day: int
    clearance: str
    settings: Settings
    weights: Weights
    default_sensitivity: str
    reserve_mb: int


ORDER: Final = TypeAdapter(Order)


class Throwaway(EdgeEngine):
    """An engine on files that nobody will open again."""

    def flush(self, collection: str | None = None) -> None:
        """Do nothing: of what is thrown away, nothing need reach the disk."""


def main() -> int:
    """Read the order, tell the days; returns 0, or 1 where it could not go on."""
    os.nice(NICEST)
    order = ORDER.validate_json(_first_line())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        for day in days(order):
            _tell(day._asdict() | {"at": format_instant(day.at)})
    except DreamdError as error:
        _tell({"kind": error.kind, "detail": error.detail, "hint": error.hint})
        return FAILED
    except Exception as error:  # noqa: BLE001  # told without its message, which may quote a memory
        _tell({"kind": DreamdError.kind, "traceback": frames(error)})
        return FAILED
    return 0


def days(order: Order) -> Iterator[Day]:
    """Open the copy, live through the days, close it. Raises DreamdError."""
    with ExitStack() as stack:
        dimension = EdgeEngine.stored_dimension(order.folder / STORE, LIVE)
        if dimension is None:
            raise Corrupt(f"{order.folder} holds no copy of a store.", hint="dreamctl doctor")
        ledger = Ledger(order.folder / LEDGER)
        stack.callback(ledger.close)
        engine = Throwaway.open(order.folder / STORE, collections(dimension), reserve_mb=order.reserve_mb)
        stack.callback(engine.close)
        stores = Stores(engine, ledger, weights=order.weights, default_sensitivity=order.default_sensitivity)
        lane = Lane("store")
        stack.callback(lane.close)
        lane.call(stores.load)
        world = World(stores, lane, order.settings, SystemClock().rng, order.clearance)
        yield from simulate.run(world, order.now, order.days, order.recalls, recalls_a_day=order.recalls_a_day)


def _first_line() -> bytes:
    """The first line of standard input; without a buffer, since a thread waits there for its end when this process does."""
    line = b""
    while not line.endswith(b"\n") and (piece := os.read(_INPUT, 1 << 16)):
        line += piece
    return line


def _end_with_input() -> None:
    while os.read(_INPUT, 1 << 10):
        pass
    os._exit(FAILED)


def _tell(line: dict[str, Any]) -> None:
    os.write(_OUTPUT, json.dumps(line, ensure_ascii=False).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
