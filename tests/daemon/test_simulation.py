"""The process of a look ahead, from inside: a real one, over a real copy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daemon.methods.snapshots import copied_whole
from daemon.simulation import NICEST, ORDER, Order
from daemon.simulator import COMMAND, HOME
from jobs.context import Settings
from jobs.simulate import Day
from storage.rank import Weights
from tests.daemon.serving import PATIENCE
from tests.harness import BY_HAND, Daemon, started

FOR_EVER = 10**6


@pytest.fixture(scope="module")
def source() -> Iterator[Daemon]:
    with started(options=BY_HAND) as daemon:
        for n in range(6):
            daemon.remember(f"w{n}a w{n}b", id=f"m{n}")
        yield daemon


@pytest.fixture
def order(source: Daemon) -> Order:
    """Three days of a copy of that store."""
    return Order(
        folder=source.in_lane(copied_whole, source.parts, "test").folder, now=source.clock.now(), days=3, recalls="uniform",
        recalls_a_day=2, clearance="secret", settings=Settings(), weights=Weights(), default_sensitivity="personal",
        reserve_mb=16,
    )  # fmt: skip


def process_of(order: Order) -> subprocess.Popen[bytes]:
    """It runs, and waits with its input open."""
    process = subprocess.Popen(COMMAND, cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(ORDER.dump_json(order) + b"\n")
    process.stdin.flush()
    return process


def result_of(order: Order) -> tuple[int, list[Any], bytes]:
    """Exit code, lines and what it says on standard error."""
    with process_of(order) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stdout]
        return process.wait(PATIENCE), lines, process.stderr.read()


def test_it_tells_each_day_and_ends_well(order: Order) -> None:
    code, lines, errors = result_of(order)

    assert (code, errors) == (0, b"")
    assert [(line["day"], line["at"]) for line in lines] == [(n, f"2026-01-{n + 1:02}T00:00:00Z") for n in (1, 2, 3)]
    assert all(line.keys() == set(Day._fields) for line in lines)
    assert lines[-1]["live"] == 6


def test_it_is_nicer_than_the_daemon_and_ends_when_nobody_holds_its_input_any_more(order: Order) -> None:
    """A daemon that is killed lets go of it, whatever its process is doing."""
    with process_of(replace(order, days=FOR_EVER)) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        niceness = os.getpriority(os.PRIO_PROCESS, process.pid)
        process.stdin.close()
        process.stdin = None

        assert process.wait(PATIENCE) == 1
        assert niceness == NICEST


def test_a_folder_without_a_store_is_an_error_that_it_tells(order: Order, tmp_path: Path) -> None:
    code, (line,), errors = result_of(replace(order, folder=tmp_path))

    assert (code, errors) == (1, b"")
    assert line["kind"] == "corrupt"
    assert str(tmp_path) in line["detail"]
    assert line["hint"]


def test_without_room_on_the_disk_it_says_so(order: Order) -> None:
    code, (line,), _ = result_of(replace(order, reserve_mb=1 << 40))

    assert (code, line["kind"]) == (1, "unavailable")
    assert "MiB free" in line["detail"]


def test_a_bug_is_told_by_its_place_and_without_its_message(order: Order) -> None:
    code, (line,), errors = result_of(replace(order, settings=Settings(sweep_days=0.0)))

    assert (code, errors) == (1, b"")
    assert line.keys() == {"kind", "traceback"}
    assert "jobs/dream.py" in line["traceback"]
    assert "ZeroDivisionError" in line["traceback"]
    assert "division by zero" not in line["traceback"]
