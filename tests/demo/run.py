"""The demo behind `make demo`: half a year of an agent's memories, recalled, dreamt over, forgotten and brought back.

Everything is real: the daemon, its socket, its embedded Qdrant, the command line. Only time is lent: in the second part the
daemon is built around a clock that was put back and is put forward, so that eighty days need not pass.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from daemon import log
from daemon.app import App, build
from daemon.client import Client
from daemon.clock import SystemClock
from daemon.config import load
from tests.bench.process import Process

SAMPLE = Path(__file__).parent / "sample.jsonl"
DAY = 86_400.0


class PutForward(SystemClock):
    """The host's clock, put forward or back by so many seconds."""

    def __init__(self) -> None:
        self.by = 0.0

    def now(self) -> float:
        return super().now() + self.by


class Demo:
    """Types commands and shows what they print."""

    def __init__(self, folder: Path, socket: Path) -> None:
        self.folder = folder
        self.socket = socket

    def say(self, text: str) -> None:
        print(f"\n\033[1m# {text}\033[0m" if sys.stdout.isatty() else f"\n# {text}", flush=True)

    def type(self, command: str, *, lines: int = 40) -> None:
        """Run a `dreamctl` command as a person would, and fail the demo if it fails."""
        print(f"$ dreamctl {command}", flush=True)
        words = [sys.executable, "-m", "daemon.cli", "--socket", str(self.socket), *shlex.split(command)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        shown = done.stdout.splitlines()
        print(
            "\n".join(shown[:lines]) + (f"\n  ... {len(shown) - lines} more lines" if len(shown) > lines else ""),
            flush=True,
        )
        if done.returncode:
            raise SystemExit(f"that failed ({done.returncode}):\n{done.stderr}")

    def ask(self, method: str, **params: object) -> dict[str, object]:
        with Client(self.socket) as client:
            return client.call(method, **params)

    def metrics(self, *names: str) -> None:
        print("$ curl -s --unix-socket $DREAMD_SOCKET http://dreamd/metrics | grep -E '" + "|".join(names) + "'")
        with Client(self.socket) as client:
            text = client.get("/metrics").decode()
        print("\n".join(line for line in text.splitlines() if line.startswith(names)))


def main() -> int:
    started = time.monotonic()
    with Process() as process:
        today(Demo(process.folder, process.socket))
    with TimeLapse(80) as lapse:
        eighty_days(Demo(lapse.folder, lapse.socket), lapse)
    print(
        f"\n# Done in {time.monotonic() - started:.0f} s. Next: make run, and in another terminal: .venv/bin/dreamctl --help"
    )
    return 0


def today(demo: Demo) -> None:
    """Remember, recall, dream, and see what would be forgotten."""
    demo.say("A daemon on a fresh state folder, and half a year of memories in nine languages")
    print(f"$ dreamd --state-dir {demo.folder}/state --socket {demo.socket} &")
    remember(demo)
    demo.type("stats --scope '*'", lines=12)
    demo.say("Questions, in any language; --explain tells why each hit scored as it did")
    demo.type("recall 'can I eat nuts?' --scope home/assistant -k 3 --explain")
    demo.type("recall '我可以吃坚果吗?' --scope home/assistant -k 3")
    demo.type("recall 'which day do we deploy?' --scope studio/coder -k 2")
    demo.type("recall 'what do I drink in the morning?' --scope home/assistant -k 2")
    demo.say("A key that someone pasted was masked at the gate, before anything was stored")
    demo.type("recall 'bucket key in deploy.sh' --scope studio/coder -k 1")
    demo.say("A dream links what belongs together: first what it would do, then for real, then taken back")
    demo.type("run dream --dry-run")
    demo.type("run dream")
    demo.type("neighbors launch-second")
    demo.type(f"undo {last_run(demo, 'dream')}")
    demo.say("What would be forgotten if nobody used anything for a month? A dry run touches nothing")
    demo.type("run decay --dry-run --at +30d")


def remember(demo: Demo) -> None:
    """The sample, and which of its facts took the place of which."""
    demo.type(f"remember_many {SAMPLE.relative_to(ROOT)}")
    items = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    newer = {item["metadata"]["supersedes"]: item["id"] for item in items if "supersedes" in item.get("metadata", {})}
    for former, later in newer.items():
        demo.ask("forget", id=former, superseded_by=later)
    print(f"# {len(newer)} facts were replaced by later ones: forget {former} --superseded-by {later}, and so on")


def last_run(demo: Demo, job: str) -> str:
    runs = demo.ask("runs", job=job, limit=1)["runs"]
    assert isinstance(runs, list)
    return str(runs[0]["run_id"])


def eighty_days(demo: Demo, lapse: TimeLapse) -> None:
    """Two months off, then twenty days on: the first forget nothing, the second do."""
    demo.say("The same memories, remembered eighty days ago by a daemon whose clock was put back")
    remember(demo)
    demo.say("Then the machine was off for sixty days. Nobody was there, so nothing faded")
    lapse.asleep(60)
    demo.type("run decay")
    demo.say(
        "Then twenty days awake, until today: what nobody used faded. At most max(5 %, 10) of a scope go in 24 hours"
    )
    lapse.awake(20)
    demo.type("fading --days 1 --scope '*'", lines=8)
    demo.type("run decay")
    demo.type("list --state forgotten --scope '*' --limit 5", lines=6)
    demo.say("Nothing is lost: a run can be taken back")
    demo.type(f"undo {last_run(demo, 'decay')}")
    demo.type("runs --limit 3")
    demo.say("Decay and spend, as Prometheus sees them")
    demo.metrics(
        "dreamd_memories_bin", "dreamd_fading", "dreamd_retention_bucket", "dreamd_forgotten_total", "dreamd_restored_total",
        "dreamd_llm_spend_today_usd", "dreamd_llm_reserved_usd", "dreamd_llm_cap",
    )  # fmt: skip


class TimeLapse:
    """A daemon in this process, on a folder of its own, whose clock starts so many days ago and can be put forward."""

    def __init__(self, days_ago: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
        self.socket = self.folder / "s"
        self._clock = PutForward()
        self._clock.by = -days_ago * DAY
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

    def __enter__(self) -> Self:
        log.configure(sys.stderr, journal=False, tty=False, level=logging.ERROR)
        self._thread.start()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        environ = {"HOME": str(self.folder), "TZ": "UTC", "DREAMD_METRICS__LISTEN": "", "DREAMD_SCHEDULE__NIGHT": "off"}
        config = load(environ, state_dir=str(self.folder / "state"), socket=str(self.socket))
        self._app = self._await(build(config, clock=self._clock))

    def _stop(self) -> None:
        if self._app is not None:
            self._await(self._app.stop())
            self._app = None

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


if __name__ == "__main__":
    sys.exit(main())
