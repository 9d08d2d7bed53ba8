"""The daemon as it is used: real processes, the real socket, real embedders; killed, filled up, damaged, put to sleep."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from daemon.client import CallError, Client, NotRunning
from jobs.table import NIGHT
from storage.instants import parse_instant
from tests.bench.process import Process
from tests.daemon.serving import Wire, until
from tests.harness import Daemon
from tests.requirements import require

ROOT = Path(__file__).parents[1]
WORDLLAMA = {"DREAMD_EMBEDDING__PROVIDER": "wordllama", "DREAMD_STORAGE__RESERVE_MB": "16"}
NOBODY = 65534  # a uid that the daemon does not serve
MIB = 1 << 20

Make = Callable[..., Daemon]


@pytest.fixture
def process(folder: Path) -> Iterator[Process]:
    """A real daemon with the quicker embedder, not started yet."""
    process = Process(folder, WORDLLAMA)
    yield process
    process.kill()


def total(client: Client) -> int:
    return int(client.call("stats", scope="*")["total"])


# -- kills


def name_of(number: int) -> str:
    """A word for a number: 317 is `fabala`."""
    return "".join("jbdfghklmn"[int(digit)] + "a" for digit in f"{number:03}")


def test_case47_a_thousand_acknowledged_memories_survive_ten_kills(process: Process) -> None:
    process.start()
    expected = 0
    for number in range(10):
        with process.client() as client:
            slices = 16 if number == 0 else 0
            for part in range(slices):
                items = [{"content": f"locker {name_of(part * 60 + n)} is on floor {part}"} for n in range(60)]
                expected += client.call("remember_many", items=items)["created"]
            for n in range(40):
                expected += client.call("remember", content=f"round {number} saw visitor {n}")["created"]
        process.kill()
        process.start()
        with process.client() as client:
            assert total(client) == expected
            assert client.call("health")["status"] == "ok"
            best = client.call("recall", query=f"where is locker {name_of(317)}?", k=1)["hits"][0]
            assert best["content"] == f"locker {name_of(317)} is on floor 5"
    assert expected >= 1000


class Load:
    """Clients that write at once, each noting only what was acknowledged."""

    def __init__(self, process: Process, clients: int = 4) -> None:
        self.process = process
        self.texts: dict[str, str] = {}
        self.forgotten: set[str] = set()
        self.edges: set[tuple[str, str]] = set()
        self.ended = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for thread in self._threads:
            thread.join()

    def acknowledged(self, count: int) -> bool:
        """Whether so many writes were acknowledged, after waiting for them."""
        return until(lambda: len(self.texts) + len(self.edges) + len(self.forgotten) >= count)

    def _work(self, client_number: int) -> None:
        dice = random.Random(client_number)
        own: list[str] = []
        with Client(self.process.socket, 30) as client:
            for number in range(10_000):
                if self.ended.is_set():
                    return
                try:
                    self._write(client, dice, own, f"c{client_number}-{number}")
                except NotRunning:
                    return
                except CallError as error:
                    if error.kind != "unavailable":
                        raise
                    return

    def _write(self, client: Client, dice: random.Random, own: list[str], name: str) -> None:
        choice = dice.random()
        if choice < 0.6 or len(own) < 4:
            client.call("remember", content=f"note {name}", id=name, session=name[:2])
            self.texts[name] = f"note {name}"
            own.append(name)
        elif choice < 0.8:
            memory = dice.choice(own)
            self.texts.pop(memory)  # either text is right until the answer comes
            client.call("update", id=memory, content=f"edited {name}")
            self.texts[memory] = f"edited {name}"
        elif choice < 0.9:
            a, b = sorted(dice.sample(own, 2))
            client.call("connect", a=a, b=b)
            self.edges.add((a, b))
        else:
            memory = own.pop(dice.randrange(len(own)))
            self.texts.pop(memory)
            client.call("forget", id=memory)
            self.forgotten.add(memory)

    def check(self) -> None:
        """Every acknowledged write is there."""
        with self.process.client() as client:
            for memory, text in self.texts.items():
                kept = client.call("get", id=memory)
                assert (kept["state"], kept["content"]) == ("live", text)
            for memory in self.forgotten:
                assert client.call("get", id=memory)["state"] == "forgotten"
            for a, b in self.edges - {edge for edge in self.edges if set(edge) & self.forgotten}:
                manual = [one["id"] for one in client.call("neighbors", id=a)["neighbors"] if one["kind"] == "manual"]
                assert b in manual


@pytest.mark.parametrize("count", [60, 300])
def test_a_kill_under_mixed_load_loses_no_acknowledged_write(process: Process, count: int) -> None:
    process.start()
    with Load(process) as load:
        assert load.acknowledged(count)
        process.kill()

    process.start()

    load.check()
    assert len(load.texts) + len(load.forgotten) > 20


def test_sigterm_under_load_ends_with_0_and_loses_nothing(process: Process) -> None:
    process.start()
    with Load(process) as load:
        assert load.acknowledged(150)
        assert process.stop() == 0

    assert "Traceback" not in process.log.read_text()
    process.start()
    load.check()


def test_e7_sigterm_ends_a_night_that_a_client_waits_for_within_a_batch(process: Process) -> None:
    process.start()
    with process.client() as client:
        client.call("remember_many", items=[{"content": f"note {n}"} for n in range(200)])
        night = client.stream("run_job", name="night")
        first = next(night)["progress"]
        assert process.process is not None
        process.process.send_signal(signal.SIGTERM)
        signalled = time.time()
        answer = list(night)[-1]

    assert process.process.wait(30) == 0
    assert first["job"] == "snapshot"
    assert (answer["outcome"], answer["reason"]) == ("cancelled", "stopping")
    assert "Traceback" not in process.log.read_text()
    process.start()
    with process.client() as client:
        steps = [
            run for run in client.call("runs", limit=20)["runs"] if run["trigger"] == "manual" and run["job"] != "night"
        ]
    assert steps[-1]["run_id"] == first["run_id"]
    assert [step["job"] for step in steps if parse_instant(step["started_at"]) > signalled + 0.1] == []
    assert len(steps) < len(NIGHT) - 1


def test_case46_many_clients_write_and_read_at_once_and_everything_is_there(process: Process) -> None:
    """Case 46: eight writers of twenty batches of ten, and searches meanwhile."""
    process.start()

    def write(number: int) -> int:
        with process.client() as client:
            batches = [[{"content": f"writer {number} wrote {part * 10 + n}"} for n in range(10)] for part in range(20)]
            return sum(client.call("remember_many", items=batch)["created"] for batch in batches)

    def read(_: int) -> int:
        with process.client() as client:
            return sum(len(client.call("recall", query=f"writer {n % 8} wrote", k=3)["hits"]) <= 3 for n in range(50))

    with ThreadPoolExecutor(12) as pool:
        written, read_ = pool.map(write, range(8)), pool.map(read, range(4))
        assert sum(written) == 1600
        assert sum(read_) == 200

    with process.client() as client:
        assert total(client) == 1600
        assert len({memory for page in pages(client) for memory in page}) == 1600


def pages(client: Client) -> Iterator[list[str]]:
    cursor: dict[str, Any] = {}
    while cursor is not None:
        page = client.call("list", limit=500, **cursor)
        yield [memory["id"] for memory in page["memories"]]
        cursor = {"cursor": page["cursor"]} if page["cursor"] else None  # type: ignore[assignment]


# -- the disk


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 400 MiB: each of the four logs may grow to 64."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode == 0  # fmt: skip
    require(mounted, "the right to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Take all the room of a disk but so many bytes."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    with ballast.open("wb") as file:
        for _ in range((room.f_bavail * room.f_frsize - leave) // MIB):
            file.write(bytes(MIB))
    return ballast


@pytest.mark.parametrize("leave", [8 * MIB, 0])
def test_on_a_full_disk_writes_are_unavailable_reads_go_on_and_nothing_is_half_written(
    small_disk: Path, leave: int
) -> None:
    process = Process(small_disk, WORDLLAMA)
    try:
        process.start()
        with process.client() as client:
            for n in range(30):
                client.call("remember", content=f"note {n}", id=f"n{n}")
            before = client.call("list", limit=500)
            ballast = fill(small_disk, leave)

            for method, params in (
                ("remember", {"content": "one more"}), ("update", {"id": "n1", "content": "edited"}), ("forget", {"id": "n2"}),
                ("connect", {"a": "n1", "b": "n2"}), ("pin", {"id": "n3"}),
            ):  # fmt: skip
                with pytest.raises(CallError) as caught:
                    client.call(method, **params)
                assert caught.value.kind == "unavailable"
                assert str(small_disk) in caught.value.detail
                assert "MiB are needed" in caught.value.detail
                assert caught.value.hint.startswith("df -h")
            many = client.call("remember_many", items=[{"content": "one more"}])
            assert many["results"][0]["kind"] == "unavailable"
            assert client.call("recall", query="note 7", learn=False)["hits"]
            assert client.call("list", limit=500) == before

            ballast.unlink()
            assert client.call("remember", content="one more")["created"]
            assert client.call("forget", id="n2")["forgotten"] == ["n2"]
        assert process.stop() == 0
        process.start()
        with process.client() as client:
            assert total(client) == 30
    finally:
        process.kill()


def test_below_the_reserve_the_start_is_refused_in_the_words_of_a_write(small_disk: Path) -> None:
    process = Process(small_disk, WORDLLAMA)
    try:
        process.start()
        with process.client() as client:
            client.call("remember", content="Ada likes tea")
        process.stop()
        for leave in (8 * MIB, 0):
            ballast = fill(small_disk, leave)

            done = start_and_end(process)

            assert done.returncode == 1
            assert str(small_disk) in done.stderr
            assert "16 MiB are needed" in done.stderr
            assert "df -h" in done.stderr
            ballast.unlink()
        process.start()
        with process.client() as client:
            assert total(client) == 1
    finally:
        process.kill()


def start_and_end(process: Process) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(process.folder), "DREAMD_METRICS__LISTEN": "", **WORDLLAMA}
    command = [
        sys.executable,
        "-m",
        "daemon",
        "--state-dir",
        str(process.folder / "state"),
        "--socket",
        str(process.socket),
    ]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def damage(state: Path) -> None:
    """Cut an id tracker of the memories in half; the engine loads it without a word."""
    (tracker,) = (state / "store" / "memories" / "segments").glob("*/mutable_id_tracker.mappings")
    os.truncate(tracker, tracker.stat().st_size // 2)


def contents_of(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def test_case48_a_damaged_store_is_served_read_only_and_nothing_of_it_is_overwritten(daemon: Daemon) -> None:
    """Case 48: on any doubt others deleted or replaced the store."""
    daemon.call("remember_many", items=[{"content": f"note {n}", "id": f"n{n}"} for n in range(200)])
    daemon.call("forget", ids=["n0", "n1"])
    daemon.stop()
    damage(daemon.folder / "state")
    store = daemon.folder / "state" / "store"
    before = contents_of(store)

    daemon.start()
    health = daemon.call("health")
    errors = {
        method: error_of(daemon, method, **params)
        for method, params in (
            ("remember", {"content": "one more"}), ("update", {"id": "n2", "content": "x"}), ("forget", {"id": "n2"}),
            ("forget", {"id": "n2", "hard": True}), ("pin", {"id": "n2"}), ("run_job", {"name": "decay"}),
            ("remember_many", {"items": [{"content": "x"}]}),
        )
    }  # fmt: skip
    daemon.call("recall", query="note 150")
    for beat in ("heartbeat", "fold", "flush", "idle_work"):
        daemon.run(getattr(daemon.app.background, beat)())
    readable = daemon.call("list", limit=500)["memories"]
    ready, why = daemon.app.service.ready()
    daemon.stop()

    assert health["status"] == "degraded"
    assert (health["reasons"][0]["name"], health["reasons"][0]["hint"]) == ("store", "dreamctl restore_snapshot NAME")
    assert "of the 198 points" in health["reasons"][0]["detail"]
    assert {(error.kind, error.hint) for error in errors.values()} == {("corrupt", "dreamctl restore_snapshot NAME")}
    assert 0 < len(readable) < 198
    assert (ready, "198 points" in why) == (False, True)
    assert contents_of(store) == before
    assert list((daemon.folder / "state" / ".checked").iterdir()) == []
    assert daemon.start().call("health")["status"] == "degraded"


def error_of(daemon: Daemon, method: str, **params: Any) -> Any:
    with pytest.raises(Exception, match="damaged") as caught:
        daemon.call(method, **params)
    return caught.value


# -- who may ask


def test_another_uid_is_refused_over_the_real_socket(process: Process) -> None:
    require(os.geteuid() == 0, "root, to become somebody else")
    python = next((one for one in (sys.executable, "/usr/bin/python3") if as_nobody(one, "pass").returncode == 0), "")
    require(bool(python), "a Python that any user may run")
    process.start()
    process.folder.chmod(0o755)
    process.socket.chmod(0o666)
    ask = (
        "import socket\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        f"s.connect({str(process.socket)!r})\n"
        "head = b'POST /v1/recall HTTP/1.1\\r\\nHost: dreamd\\r\\nContent-Length: 14\\r\\nConnection: close\\r\\n\\r\\n'\n"
        's.sendall(head + b\'{"query": "x"}\')\n'
        "print(b''.join(iter(lambda: s.recv(65536), b'')).decode())\n"
    )

    asked = as_nobody(python, ask)
    answer = asked.stdout

    assert asked.stderr == ""
    assert answer.startswith("HTTP/1.1 403")
    assert json.loads(answer.partition("\n\n")[2])["kind"] == "unauthorized"
    assert f"uid {NOBODY}" in answer
    with process.client() as client:
        assert b'dreamd_rpc_requests_total{method="unknown",outcome="unauthorized"} 1.0' in client.get("/metrics")


def as_nobody(python: str, code: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [python, "-c", code],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            check=False,
        )
    except PermissionError:
        return subprocess.CompletedProcess([python], 126, "", "")


def test_case79_nothing_that_was_said_or_asked_is_in_the_log(process: Process) -> None:
    """Cases 9 and 79: texts, questions and secrets reach no line of it, whatever becomes of the call."""
    planted = "xylophone-quartz"
    key = "AKIA" + "Z7QX4MNB2VLK9WPD"
    process.start()
    with process.client() as client:
        memory = client.call(
            "remember", content=f"{planted} and {key}", context=planted, author=planted, tags=[planted]
        )["id"]
        other = client.call("remember", content=f"also {planted}", metadata={"k": planted}, request_id=planted)["id"]
        client.call("update", id=memory, content=f"{planted} again", expires_at="2020-01-01")
        client.call("connect", a=memory, b=other, label=planted)
        client.call("recall", query=f"where is {planted}", explain=True)
        client.call(
            "remember_many", items=[{"content": planted, "tier": planted}, {"content": f"{planted}\0"}, planted]
        )
        for method, params in (
            ("recall", {"query": planted, "k": 0}), ("get", {"id": planted}), (planted, {}), ("remember", {planted: planted}),
            ("remember", {"content": f"{planted}\ud800"}), ("list", {"cursor": planted}), ("undo", {"run_id": planted}),
        ):  # fmt: skip
            with pytest.raises(CallError):
                client.call(method, **params)
        client.call("run_job", name="night")
        client.call("forget", ids=[other], hard=True)
        client.call("run_job", name="scrub")
    with Wire(process.socket) as wire:
        wire.post("recall", f'{{"query": "{planted}", }}'.encode())
        wire.ask("GET", f"/v1/{planted}", Referer=planted)
    process.stop()
    log = process.log.read_text()

    assert "job.finished" in log
    assert planted not in log
    assert key not in log
    assert "Traceback" not in log


# -- time


def test_case4_two_months_asleep_forget_nothing(daemon: Daemon) -> None:
    """Case 4: a user away for two months came back to an empty memory."""
    daemon.call("remember_many", items=[{"content": f"note {n}"} for n in range(200)])
    daemon.call("connect", a=daemon.remember("Ada"), b=daemon.remember("Bea"))
    daemon.beat(1)
    daemon.stop()

    daemon.clock.advance(60 * 86_400)
    daemon.start()
    assert until(lambda: daemon.call("health")["last_night_outcome"] is not None)
    night = daemon.call("run_job", name="night")

    assert next(step for step in night["steps"] if step["job"] == "decay")["counts"]["decayed"] == 0
    assert daemon.call("stats")["total"] == 202
    assert daemon.call("graph_stats")["by_kind"]["manual"] == 1
    assert daemon.call("list", sort="retention", limit=1)["memories"][0]["state"] == "live"
    assert daemon.call("get", id=daemon.call("list")["memories"][0]["id"])["retention"] > 0.8


def test_case4_two_months_awake_forget_what_nobody_used_a_share_a_day_and_undo_brings_it_back(daemon: Daemon) -> None:
    """Never core, pinned, or more than max(5 %, 10) of the scope in 24 hours; what comes back has its edges."""
    kept = {daemon.remember("the core", tier="core"), daemon.remember("the pinned", pinned=True)}
    items = [{"content": f"note {n}", "session": "notes"} for n in range(100)]
    ids = [result["id"] for result in daemon.call("remember_many", items=items)["results"]]
    edges = {one: daemon.call("neighbors", id=one)["neighbors"] for one in ids}
    daemon.beat(60)

    run = daemon.call("run_job", name="decay")
    assert (run["counts"]["decayed"], run["counts"]["deferred"]) == (10, 90)
    daemon.beat(0.5)
    assert daemon.call("run_job", name="decay")["counts"]["decayed"] == 0
    gone = {memory["id"] for memory in daemon.call("list", state="forgotten")["memories"]}
    assert len(gone) == 10
    assert gone < set(ids)

    undone = daemon.call("undo", run_id=run["run_id"])
    assert (set(undone["restored"]), undone["left"]) == (gone, [])
    assert {one: daemon.call("neighbors", id=one)["neighbors"] for one in ids} == edges

    left = []
    for _ in range(12):
        left.append(daemon.call("stats")["total"])
        daemon.call("run_job", name="decay")
        daemon.beat(1)
    assert left == [*range(102, 2, -10), 2, 2]
    assert {memory["id"] for memory in daemon.call("list")["memories"]} == kept


# -- recall


DOZEN = [
    "I am allergic to peanuts", "My sister Ines lives in Porto", "The wifi password is on the fridge",
    "We deploy on Tuesdays and Thursdays", "My favourite colour is teal", "The dentist appointment is on the 14th",
    "Our cat is called Miso", "I run five kilometres every Sunday", "The car needs new tyres before winter",
    "Bea prefers calls in the afternoon", "The rent is due on the first of the month", "I learned to sail in Croatia",
]  # fmt: skip


def test_b17_a_question_finds_the_memory_that_answers_it_in_another_language_too(folder: Path) -> None:
    """With the embedder of the default configuration, over the socket, as curl does it."""
    with Process(folder, {"DREAMD_STORAGE__RESERVE_MB": "16"}) as process:
        for text in DOZEN:
            assert posted(process.socket, "remember", {"content": text})["created"]

        english = posted(process.socket, "recall", {"query": "can I eat nuts?", "explain": True})["hits"]
        chinese = posted(process.socket, "recall", {"query": "我可以吃坚果吗?", "k": 3})["hits"]

    assert english[0]["content"] == DOZEN[0]
    assert english[0]["why"]["cosine"] > 0.2
    assert english[0]["why"]["path"] in ("dense", "keyword")
    assert DOZEN[0] in [hit["content"] for hit in chinese]
    assert "why" not in chinese[0]


def posted(path: Path, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """By curl where there is one, else by the bytes that it would send."""
    body = json.dumps(params)
    if shutil.which("curl"):
        command = ["curl", "-s", "--unix-socket", str(path), f"http://dreamd/v1/{method}", "-d", body]
        answer: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return answer
    connection = http.client.HTTPConnection("dreamd")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(path))
    connection.request("POST", f"/v1/{method}", body.encode(), {"Content-Type": "application/x-www-form-urlencoded"})
    with connection.getresponse() as response:
        answer = json.load(response)
    connection.close()
    return answer


def test_a_first_request_after_a_long_idle_time_is_answered(daemon: Daemon) -> None:
    """Case 29: a daemon hibernated and could not be woken."""
    tea = daemon.remember("green tea")
    daemon.beat(2)

    assert daemon.call("recall", query="tea")["hits"][0]["id"] == tea
