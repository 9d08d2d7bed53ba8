"""Nights that are killed: SIGKILL at random points of real nights of a real daemon, while a client writes.

Ten kills, or five stores with ten each where the whole proof is asked for (`make proof`). The dice are seeded; where a kill
falls depends on the machine all the same.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from daemon.client import Client
from tests.bench.process import Process
from tests.daemon.serving import until
from tests.nightwork import Book, Noted, Writer, asked, audit, bring_in, check, check_back, earlier, read_book
from tests.requirements import whole_proof

STORES = 5 if whole_proof() else 1
KILLS = 10  # of each store
FIRST = 36  # of each kind of memory, at first: 648 in all
MORE = 6  # of each, for every night
SUCCESSES = ("changed", "unchanged")
LONG_AGO = "0-0"  # no daemon's event: those that follow are all that there were


@pytest.fixture
def process(folder: Path) -> Iterator[Process]:
    """A real daemon with the quicker embedder, whose scheduled hour is not near."""
    hour = (datetime.now(UTC).hour + 12) % 24
    options = {
        "DREAMD_EMBEDDING__PROVIDER": "wordllama", "DREAMD_STORAGE__RESERVE_MB": "16",
        "DREAMD_SCHEDULE__NIGHT": f"0 {hour} * * *", "DREAMD_SCHEDULE__TIMEZONE": "UTC",
    }  # fmt: skip
    process = Process(folder, options)
    yield process
    process.kill()


class Nights:
    """One store, whose nights are killed one after the other."""

    def __init__(self, process: Process, seed: int) -> None:
        self.process = process
        self.dice = random.Random(seed)
        self.noted = Noted()
        self.gone_on = 0  # nights that the next start went on with
        self.night_s = 0.0  # how long a whole night takes
        self.order: list[str] = []  # of its steps
        self.steps: dict[str, float] = {}  # how long those take that change memories
        self.lines: list[str] = []  # the jobs that told of their progress in a whole night, in order

    @property
    def folder(self) -> Path:
        return self.process.folder

    def begin(self) -> None:
        """A first night, and one such as those that are killed: how long it takes, and what it tells."""
        self.start_s = self.process.start()
        with self.process.client() as client:
            bring_in(client, self.folder, self.noted, "first", time.time(), FIRST)
            assert run_night(client)["outcome"] == "changed"
            with self.writer(self.prepare(-1)):
                started = time.perf_counter()
                *told, night = client.stream("run_job", name="night")
                self.night_s = time.perf_counter() - started
            assert night["outcome"] == "changed"
            self.lines = [line["progress"]["job"] for line in told]
            self.order = [step["job"] for step in night["examples"]]
            took = {run["run_id"]: run["took_s"] for run in client.call("runs", limit=100)["runs"]}
            self.steps = {
                step["job"]: took[step["run_id"]] for step in night["examples"]
                if step["job"] in self.lines and step["job"] != "snapshot"
            }  # fmt: skip
        self.check()

    def prepare(self, number: int) -> str:
        """Something for the next night to do, and to learn from."""
        name = f"night{number + 1}"
        with self.process.client() as client:
            bring_in(client, self.folder, self.noted, name, time.time(), MORE)
            for n in range(3):
                client.call("recall", query=f"the spare key of {name} {n}", scope=name)
        return name

    def book(self) -> Book:
        with self.process.client() as client:
            return read_book(client, self.folder)

    def check(self) -> Book:
        """Ask for everything, and see that all holds."""
        book = self.book()
        check(book, self.noted)
        return book

    @contextmanager
    def writer(self, name: str) -> Iterator[None]:
        """A client that writes until the daemon is gone, or this ends."""
        writer = Writer(self.noted, name, self.dice)
        with asked(self.process, writer):
            try:
                yield
            finally:
                writer.ended.set()

    def restart(self) -> None:
        """It opens, and is well; that a night changed what recalls find, while a client edits, is no fault of a kill."""
        self.process.start()
        with self.process.client() as client:
            reasons = client.call("health")["reasons"]
        assert {reason["name"] for reason in reasons} <= {"canary"}, reasons

    # -- the ways in which a night is killed

    def by_hand(self, number: int) -> None:
        """At a random moment of a night that was asked for."""
        name = self.prepare(number)
        with self.writer(name), asked(self.process, run_night):
            time.sleep(self.dice.uniform(0.0, self.night_s))
            self.process.kill()
        self.restart()
        self.check()
        self.last_night()

    def by_schedule(self, number: int) -> None:
        """In a step of a night that the schedule began; the next start goes on with it."""
        self.kill_when_due(number)
        self.restart()
        self.wait_for_the_end()

    def at_its_word(self, number: int) -> None:
        """When a night that was asked for tells of its progress in a certain job."""
        name = self.prepare(number)
        job = self.dice.choice(list(self.steps))
        after = self.dice.randrange(self.lines.count(job))
        reached = threading.Event()

        def listen(client: Client) -> None:
            left = after
            for line in client.stream("run_job", name="night"):
                if line.get("progress", {}).get("job") == job:
                    left -= 1
                    if left < 0:
                        reached.set()
            reached.set()

        with self.writer(name), asked(self.process, listen):
            assert reached.wait(60.0)
            self.process.kill()
        self.restart()
        self.check()
        self.last_night()

    def taken_back(self, number: int) -> None:
        """In a step of a night that was asked for, and what it did until then is undone."""
        name = self.prepare(number)
        before = self.book()
        with self.writer(name), self.process.client() as client:
            night = client.call("run_job", name="night", wait=False)["run_id"]
            self.kill_in_a_step(client, night)
        self.restart()
        self.check()
        with self.process.client() as client:
            client.call("undo", run_id=night)
        check_back(before, self.check(), self.noted)

    def twice(self, number: int) -> None:
        """In a step of a night that the schedule began, and the start after it at a random moment."""
        self.kill_when_due(number)
        self.process.launch()
        time.sleep(self.dice.uniform(0.2, 1.2) * self.start_s)
        self.process.kill()
        self.restart()
        self.wait_for_the_end()

    def kill_when_due(self, number: int) -> None:
        """Start a daemon whose last night was whole and longer ago than a day, and kill it in one of the steps."""
        if self.last_night()["outcome"] not in SUCCESSES:
            with self.process.client() as client:
                assert run_night(client)["outcome"] in SUCCESSES
        name = self.prepare(number)
        assert self.process.stop() == 0
        audit(self.folder / "state")
        earlier(self.folder / "state", 25.0)
        self.process.start()
        with self.writer(name), self.process.client() as client:
            self.kill_in_a_step(client)

    def kill_in_a_step(self, client: Client, night: str = "") -> None:
        """Kill as soon as a certain step of a night has begun, of the first where none is named, or a little later."""
        job, begun = self.dice.choice(list(self.steps)), 0
        for event in client.events("job_started,job_finished", after=LONG_AGO):
            run = "".join(event["ids"])
            if event["type"] == "job_started":
                night = night or run
                begun += run == night or begun > 0
            if begun == self.order.index(job) + 2 or (event["type"], run) == ("job_finished", night):
                break
        time.sleep(self.dice.uniform(0.0, self.steps[job]))
        self.process.kill()

    def wait_for_the_end(self) -> None:
        """What a crash cut short goes on once; what crashed twice waits for its next time."""
        nights: list[dict[str, Any]] = []

        def ended() -> bool:
            with self.process.client() as client:
                nights[:] = client.call("runs", job="night", limit=2)["runs"]
            return nights[0]["outcome"] in SUCCESSES or [night["reason"] for night in nights] == ["cut_off"] * 2

        assert until(ended), nights
        self.check()
        self.gone_on += nights[0]["outcome"] in SUCCESSES and nights[1]["reason"] == "cut_off"

    def last_night(self) -> dict[str, Any]:
        """As `runs` tells it; one that was killed may have been through already, or not begun."""
        with self.process.client() as client:
            night: dict[str, Any] = client.call("runs", job="night", limit=1)["runs"][0]
        assert night["outcome"] in SUCCESSES or (night["outcome"], night["reason"]) == ("cancelled", "cut_off"), night
        return night


def run_night(client: Client) -> dict[str, Any]:
    return client.call("run_job", name="night")


@pytest.mark.parametrize("seed", range(STORES))
def test_case47_a25_b16_a_night_killed_anywhere_loses_nothing_leaves_nothing_half_done_and_goes_on(
    process: Process, seed: int
) -> None:
    nights = Nights(process, seed)
    nights.begin()
    ways = (nights.by_schedule, nights.twice, nights.by_hand, nights.at_its_word, nights.taken_back)
    for number in range(KILLS):
        way = ways[number % len(ways)]
        try:
            way(number)
        except Exception as error:
            error.add_note(f"The kill of number {number}: {way.__doc__}")
            raise

    nights.prepare(KILLS)
    with process.client() as client:
        assert run_night(client)["outcome"] == "changed"
    nights.check()
    assert process.stop() == 0
    audit(process.folder / "state")
    nights.restart()
    with process.client() as client:
        assert run_night(client)["outcome"] in SUCCESSES
    nights.check()
    with process.client() as client:
        reasons = [run["reason"] for run in client.call("runs", job="night", limit=500)["runs"]]
    assert reasons.count("cut_off") >= KILLS / 2
    assert nights.gone_on
    assert "Traceback" not in process.log.read_text()
