"""The process of a look ahead, from outside: what it tells, how it may fail, and that it never outlives whoever asked."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from daemon.simulation import Order
from daemon.simulator import Simulator, places
from jobs.context import Settings
from storage.errors import Conflict, DreamdError, Unavailable
from storage.lane import Stopping
from storage.rank import Weights
from tests.daemon.serving import PATIENCE

ORDER = Order(
    folder=Path("/nowhere"), now=1_767_225_600.0, days=3, recalls="zipf", recalls_a_day=1, clearance="secret",
    settings=Settings(left_out=frozenset({"decay"})), weights=Weights(), default_sensitivity="personal", reserve_mb=1,
)  # fmt: skip
SECRET = "the vault code is 1234"


def simulator(script: str) -> Simulator:
    """One whose process is this program."""
    return Simulator((sys.executable, "-c", f"import sys, os, json, time, signal\n{script}"))


def told(of: Simulator, tell: Callable[[int], None] = lambda _: None) -> list[Any]:
    return asyncio.run(of.run(ORDER, tell))


def failure(script: str) -> tuple[DreamdError, list[dict[str, Any]]]:
    """How a simulation fails, and what is logged of it."""
    with capture_logs() as logs, pytest.raises(Unavailable) as caught:
        told(simulator(script))
    return caught.value, list(logs)


def test_the_order_goes_in_and_each_day_comes_out() -> None:
    seen: list[int] = []
    echo = "for day in range(json.loads(sys.stdin.readline())['days']): print(json.dumps({'day': day}))"

    assert told(simulator(echo), seen.append) == [{"day": 0}, {"day": 1}, {"day": 2}]
    assert seen == [1, 2, 3]


def test_the_order_says_all_that_the_daemon_was_told() -> None:
    (order,) = told(simulator("print(sys.stdin.readline(), end='')"))

    assert order["settings"]["retention"]["threshold"] == ORDER.settings.retention.threshold
    assert order["settings"]["left_out"] == ["decay"]
    assert order["weights"]["recency_halflife_days"] == ORDER.weights.recency_halflife_days


def test_the_same_store_gives_the_same_answer_whatever_order_sets_come_in() -> None:
    name = "print(json.dumps({'hash': hash('m1')}))"

    assert told(simulator(name)) == told(simulator(name))


def test_an_error_that_the_process_tells_is_told_on() -> None:
    error, logs = failure(
        "print(json.dumps({'day': 1}))\n"
        "print(json.dumps({'kind': 'corrupt', 'detail': 'bin holds 2 memories.', 'hint': 'dreamctl doctor'}))"
    )

    assert error.detail == "The simulation could not go on: bin holds 2 memories."
    assert error.hint == "dreamctl doctor"
    assert logs == []


def test_a_bug_is_logged_by_its_place_and_told_by_its_day() -> None:
    error, logs = failure(
        "print(json.dumps({'day': 1}))\nprint(json.dumps({'kind': 'internal', 'traceback': 'File decay.py'}))\nsys.exit(1)"
    )

    assert error.detail == "The simulation met a bug after day 1; the log tells where."
    assert [(entry["event"], entry["days"], entry["traceback"]) for entry in logs] == [
        ("simulate.failed", 1, "File decay.py")
    ]


def test_what_a_process_says_as_it_dies_is_logged_without_what_it_quotes() -> None:
    error, logs = failure(f"raise ValueError('{SECRET}\\n{SECRET}')")

    assert error.detail == "The simulation ended before its first day was over with exit code 1; the log tells where."
    assert error.hint
    (entry,) = logs
    assert entry["places"] == ["ValueError"]
    assert "vault" not in str(logs)


def test_only_places_and_types_are_taken_from_what_was_said() -> None:
    said = f"""\
Traceback (most recent call last):
  File "/opt/dreamd/jobs/decay.py", line 12, in run
    plan("{SECRET}")
storage.errors.Corrupt: {SECRET}
KeyError: '{SECRET}'
thread '<unnamed>' panicked at lib/segment/src/index.rs:12:34:
cannot read {SECRET}
File "{SECRET}.py", line 1, in x
An Error in {SECRET}
"""

    assert places(said.encode()) == [
        'File "/opt/dreamd/jobs/decay.py", line 12, in run', "KeyError", "panicked at lib/segment/src/index.rs:12",
    ]  # fmt: skip


def test_a_process_that_was_killed_is_told_by_the_signal() -> None:
    error, logs = failure("print(json.dumps({'day': 1}), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)")

    assert error.detail == "The simulation was ended by SIGKILL after day 1, as happens where memory runs short."
    assert logs[0]["code"] == -signal.SIGKILL


def test_a_process_that_cannot_be_started_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be started: No such file"):
        told(Simulator(("/nowhere/python",)))


def test_only_one_at_a_time_and_the_other_is_told_how_far_it_is() -> None:
    one = simulator("print(json.dumps({}))")

    with one.turn(3):
        asyncio.run(one.run(ORDER, lambda _: None))
        with pytest.raises(Conflict, match="day 1 of 3"), one.turn(9):
            pass
    with one.turn(9):
        pass


WAITING = "print(json.dumps({}), flush=True)\ntime.sleep(60)"


def is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


async def begun(one: Simulator) -> tuple[asyncio.Task[list[Any]], int]:
    """A simulation under way, and its process."""
    said = asyncio.Queue[int]()
    task = asyncio.create_task(one.run(ORDER, said.put_nowait))
    await asyncio.wait_for(said.get(), PATIENCE)
    assert one._process is not None
    return task, one._process.pid


def test_a_stop_ends_it_at_once_and_lets_none_begin() -> None:
    async def stopped() -> int:
        one = simulator(WAITING)
        task, process = await begun(one)
        one.stop()
        with pytest.raises(Stopping):
            await asyncio.wait_for(task, PATIENCE)
        with pytest.raises(Stopping), one.turn(1):
            pass
        return process

    assert is_gone(asyncio.run(stopped()))


def test_a_stop_that_comes_while_it_starts_ends_it_too() -> None:
    async def stopped() -> None:
        one = simulator(WAITING)
        task = asyncio.create_task(one.run(ORDER, lambda _: None))
        await asyncio.sleep(0)
        one.stop()
        with pytest.raises(Stopping):
            await asyncio.wait_for(task, PATIENCE)

    asyncio.run(stopped())


def test_a_call_that_is_cancelled_takes_the_process_with_it() -> None:
    async def cancelled() -> int:
        task, process = await begun(simulator(WAITING))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        return process

    assert is_gone(asyncio.run(cancelled()))


def test_a_great_noise_on_standard_error_does_not_hold_it_up() -> None:
    assert told(simulator("sys.stderr.write('x' * 10**6)\nprint(json.dumps({'day': 1}))")) == [{"day": 1}]


def test_an_interrupt_at_the_terminal_is_the_daemon_s_to_handle() -> None:
    (row,) = told(simulator("print(json.dumps({'group': os.getpgid(0), 'id': os.getpid()}))"))

    assert row["group"] == row["id"] != os.getpgid(0)


def test_packages_of_the_same_name_where_the_daemon_was_started_do_not_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "daemon").mkdir()
    (tmp_path / "daemon" / "__init__.py").write_text("raise SystemExit('not ours')")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Unavailable, match="holds no copy of a store"):
        told(Simulator())
