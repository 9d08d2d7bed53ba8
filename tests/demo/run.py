"""The demo behind `make demo`: half a year of an agent's memories, recalled, dreamt over, forgotten and brought back.

Everything is real: the daemon, its socket, its embedded Qdrant, the command line. Only time is lent: for the last part the
daemon is built around a clock that can be put forward, so that two months need not pass.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import logging

from daemon import log
from daemon.app import App, build
from daemon.clock import SystemClock
from daemon.config import load
from tests.bench.process import Process

SAMPLE = Path(__file__).parent / "sample.jsonl"
DAY = 86_400.0


class PutForward(SystemClock):
    """The host's clock, put forward by so many seconds."""

    def __init__(self) -> None:
        self.by = 0.0

    def now(self) -> float:
        return super().now() + self.by


class Demo:
    """Types commands and shows what they print."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def say(self, text: str) -> None:
        print(f"\n\033[1m# {text}\033[0m" if sys.stdout.isatty() else f"\n# {text}", flush=True)

    def type(self, command: str, *, lines: int = 40) -> None:
        """Run a `dreamctl` command as a person would, and fail the demo if it fails."""
        print(f"$ dreamctl {command}", flush=True)
        words = [sys.executable, "-m", "daemon.cli", "--socket", str(self.process.socket), *shlex.split(command)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        shown = done.stdout.splitlines()
        print("\n".join(shown[:lines]) + (f"\n  ... {len(shown) - lines} more lines" if len(shown) > lines else ""), flush=True)
        if done.returncode:
            raise SystemExit(f"that failed ({done.returncode}):\n{done.stderr}")

    def ask(self, method: str, **params: object) -> dict[str, object]:
        with self.process.client() as client:
            return client.call(method, **params)

    def metrics(self, *names: str) -> None:
        print("$ curl -s --unix-socket $DREAMD_SOCKET http://dreamd/metrics | grep -E '" + "|".join(names) + "'")
        with self.process.client() as client:
            text = client.get("/metrics").decode()
        print("\n".join(line for line in text.splitlines() if line.startswith(names)))


def main() -> int:
    started = time.monotonic()
    with Process() as process:
        demo = Demo(process)
        demo.say("A daemon on a fresh state folder, and half a year of memories in eleven languages")
        print(f"$ dreamd --state-dir {process.folder}/state --socket {process.socket} &")
        remember(demo)
        recall(demo)
        dream(demo)
        demo.say("What would be forgotten, if nobody used anything for a month? A dry run touches nothing")
        demo.type("run decay --dry-run --at +30d")
        process.stop()
        time_passes(demo)
        print(f"\n# Done in {time.monotonic() - started:.0f} s. Next: make run, then dreamctl --help")
    return 0


def remember(demo: Demo) -> None:
    demo.type(f"remember_many {SAMPLE}")
    for line in SAMPLE.read_text().splitlines():
        item = json.loads(line)
        if former := item.get("metadata", {}).get("supersedes"):
            demo.ask("forget", id=former, superseded_by=item["id"])
    demo.type("stats --scope '*'")


def recall(demo: Demo) -> None:
    demo.say("Questions, in any language; --explain tells why each hit scored as it did")
    demo.type("recall 'can I eat nuts?' --scope home/assistant -k 3 --explain")
    demo.type("recall '我可以吃坚果吗?' --scope home/assistant -k 3")
    demo.type("recall 'which day do we deploy?' --scope studio/coder -k 2")
    demo.type("recall 'what do I drink in the morning?' --scope home/assistant -k 2")
    demo.say("A key that someone pasted was masked at the gate; it is nowhere on the disk")
    demo.type("recall 'bucket key in deploy.sh' --scope studio/coder -k 1")


def dream(demo: Demo) -> None:
    demo.say("A dream links what belongs together: first what it would do, then for real, then taken back")
    demo.type("run dream --dry-run")
    demo.type("run dream")
    demo.type("graph_stats")
    demo.type(f"undo {last_run(demo, 'dream')}", lines=8)
    demo.type("graph_stats")


def last_run(demo: Demo, job: str) -> str:
    runs = demo.ask("runs", job=job, limit=1)["runs"]
    assert isinstance(runs, list)
    return str(runs[0]["run_id"])


def time_passes(demo: Demo) -> None:
    """Two months off, then forty days on: the first forget nothing, the second do."""
    with TimeLapse(demo.process) as lapse:
        demo.say("The machine is off for sixty days. Nobody was there, so nothing faded")
        lapse.asleep(60)
        demo.type("run decay")
        demo.say("Forty days awake: what nobody used fades. At most max(5 %, 10) of a scope go in any 24 hours")
        lapse.awake(40)
        demo.type("fading --days 1 --scope '*'", lines=14)
        demo.type("run decay")
        demo.type("list --state forgotten --scope '*' --limit 5")
        demo.say("Nothing is lost: a run can be taken back")
        demo.type(f"undo {last_run(demo, 'decay')}", lines=8)
        demo.type("runs --limit 4")
        demo.say("Decay and spend, as Prometheus sees them")
        demo.metrics(
            "dreamd_memories", "dreamd_fading", "dreamd_retention_bucket", "dreamd_forgotten_total", "dreamd_restored_total",
            "dreamd_llm_spend_today_usd", "dreamd_llm_reserved_usd", "dreamd_llm_cap",
        )  # fmt: skip


class TimeLapse:
    """The same daemon on the same state, in this process, with a clock that can be put forward."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._clock = PutForward()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._app: App | None = None

    def asleep(self, days: float) -> None:
        """Nobody is there for so long."""
        self._stop()
        self._clock.by += days * DAY
        self._start()

    def awake(self, days: float) -> None:
        """Time passes with a heartbeat every half hour."""
        assert self._app is not None
        for _ in range(round(days * 48)):
            self._clock.by += 1800
            self._await(self._app.background.heartbeat())

    def __enter__(self) -> TimeLapse:
        log.configure(sys.stderr, journal=False, tty=False, level=logging.ERROR)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _start(self) -> None:
        environ = {"HOME": str(self._process.folder), "TZ": "UTC", "DREAMD_METRICS__LISTEN": "", "DREAMD_SCHEDULE__NIGHT": "off"}
        folder = self._process.folder
        config = load(environ, state_dir=str(folder / "state"), socket=str(self._process.socket))
        self._app = self._await(build(config, clock=self._clock))

    def _stop(self) -> None:
        if self._app is not None:
            self._await(self._app.stop())
            self._app = None

    def _await(self, coroutine):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


if __name__ == "__main__":
    sys.exit(main())
