"""A real `dreamd` process on a temporary state folder, for benchmarks and the tests that kill it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from daemon.client import Client, NotRunning

START_SECONDS = 60.0


class Process:
    """Starts `dreamd`, hands out clients, stops or kills it; as a context manager it cleans up."""

    def __init__(self, folder: Path | None = None, options: Mapping[str, str] | None = None) -> None:
        self._own = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="dreamd-"))
        self._options = {"DREAMD_METRICS__LISTEN": "", **(options or {})}
        self.socket = self.folder / "s"
        self.log = self.folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start, and do not wait."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TZ": "UTC", **self._options}
        command = [
            sys.executable,
            "-m",
            "daemon",
            "--state-dir",
            str(self.folder / "state"),
            "--socket",
            str(self.socket),
        ]
        with self.log.open("ab") as log:
            root = Path(__file__).parents[2]
            self.process = subprocess.Popen(command, env=environ, cwd=root, stdout=log, stderr=log)

    def start(self) -> float:
        """Start, wait until it answers, return the seconds that took."""
        started = time.perf_counter()
        self.launch()
        assert self.process is not None
        while time.perf_counter() - started < START_SECONDS:
            if self.process.poll() is not None:
                raise RuntimeError(f"dreamd ended with {self.process.returncode}:\n{self.log.read_text()[-4000:]}")
            try:
                with self.client() as client:
                    client.call("version")
            except NotRunning:
                time.sleep(0.01)
            else:
                return time.perf_counter() - started
        raise RuntimeError(f"dreamd did not answer within {START_SECONDS} s:\n{self.log.read_text()[-4000:]}")

    def client(self, timeout: float = 120.0) -> Client:
        return Client(self.socket, timeout)

    def kill(self) -> None:
        """SIGKILL, at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=30)
        self.process = None
        return code

    def anonymous_megabytes(self) -> float:
        """RssAnon of the process."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("RssAnon"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)
