"""One look ahead at a time: starts its process, hears its days, and ends it whatever happens."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import structlog

from daemon.config import environment
from daemon.simulation import ORDER, Order
from storage.errors import Conflict, Unavailable
from storage.lane import Stopping

log = structlog.get_logger("daemon.simulator")

COMMAND: Final = (sys.executable, "-m", "daemon.simulation")
HOME: Final = Path(__file__).resolve().parents[1]  # where the three packages lie: no other of their names comes first
SAME_EVERY_TIME: Final = {"PYTHONHASHSEED": "0"}  # sets in one order: the same store gives the same answer
LOG_HINT: Final = "journalctl --user -u dreamd"

_LONGEST: Final = 1 << 20  # bytes of one line
_KEPT: Final = 1 << 16  # bytes of what it said last on standard error
#: Of what a process says as it fails, what quotes nothing: places in source files, and the types of errors.
_PLACE: Final = re.compile(
    r'^ +File "[\w./-]+\.py", line \d+, in [\w<>]+$|panicked at [\w./-]+\.rs:\d+|^[A-Za-z_][\w.]*(?:Error|Exception)(?=:|$)',
    re.MULTILINE,
)


class Simulator:
    """The look ahead that is under way in one daemon, if there is one."""

    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._days: int | None = None  # of the one under way
        self._done = 0
        self._stopping = False

    @contextmanager
    def turn(self, days: int) -> Iterator[None]:
        """Let no other one begin until this ends. Raises Conflict where one is under way."""
        if self._stopping:
            raise Stopping
        if self._days is not None:
            raise Conflict(
                f"A simulation is under way: day {self._done} of {self._days}.", hint="Try again when it has ended."
            )
        self._days, self._done = days, 0
        try:
            yield
        finally:
            self._days = None

    async def run(self, order: Order, tell: Callable[[int], None]) -> list[Any]:
        """The days of a simulation; `tell` hears of each. Raises Unavailable where it does not come to its end."""
        rows: list[Any] = []
        process = await self._started()
        said = asyncio.create_task(_tail(process.stderr))
        try:
            if self._stopping:
                raise Stopping
            _hand_over(process, order)
            assert process.stdout is not None
            async for line in process.stdout:
                row = json.loads(line)
                if "kind" in row:
                    raise _told(row, len(rows))
                rows.append(row)
                self._done = len(rows)
                tell(self._done)
            code = await process.wait()
        finally:
            await _ended(process)
            errors = await said
            self._process = None
        if self._stopping:
            raise Stopping
        if code != 0:
            raise _failed(code, errors, len(rows))
        return rows

    def stop(self) -> None:
        """End what is under way, and let none begin any more: the daemon stops."""
        self._stopping = True
        if self._process is not None:
            _kill(self._process)

    async def _started(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=HOME, env={**environment(), **SAME_EVERY_TIME},
                limit=_LONGEST, start_new_session=True,  # an interrupt at the terminal is the daemon's to handle
            )  # fmt: skip
        except OSError as error:
            detail = f"The process of the simulation cannot be started: {error.strerror}."
            raise Unavailable(detail, hint="dreamctl health, free some memory, then try again") from None
        return self._process


def _hand_over(process: asyncio.subprocess.Process, order: Order) -> None:
    """Send the order; standard input stays open, for its end tells the process to end."""
    assert process.stdin is not None
    process.stdin.write(ORDER.dump_json(order) + b"\n")


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        _kill(process)
    await process.wait()


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    """Read to the end; what came last of it."""
    assert stream is not None
    tail = b""
    while piece := await stream.read(_KEPT):
        tail = (tail + piece)[-_KEPT:]
    return tail


def _told(error: Mapping[str, Any], done: int) -> Unavailable:
    """What the process itself says went wrong."""
    if "detail" in error:
        return Unavailable(f"The simulation could not go on: {error['detail']}", hint=error["hint"])
    log.error("simulate.failed", days=done, traceback=error["traceback"])
    return Unavailable(f"The simulation met a bug {_when(done)}; the log tells where.", hint=LOG_HINT)


def _when(done: int) -> str:
    return f"after day {done}" if done else "before its first day was over"


def places(errors: bytes) -> list[str]:
    """Where and by what kind of error the interpreter or the engine failed, without what it quoted."""
    return [found.strip() for found in _PLACE.findall(errors.decode("utf-8", "replace"))]


def _failed(code: int, errors: bytes, done: int) -> Unavailable:
    log.error("simulate.failed", code=code, days=done, places=places(errors))
    if code < 0:
        name = signal.Signals(-code).name
        short = ", as happens where memory runs short" if -code == signal.SIGKILL else ""
        return Unavailable(f"The simulation was ended by {name} {_when(done)}{short}.", hint=f"free -m, or: {LOG_HINT}")
    return Unavailable(f"The simulation ended {_when(done)} with exit code {code}; the log tells where.", hint=LOG_HINT)
