"""A small HTTP server on a Unix socket that answers each method as a test scripts it, and `dreamctl` run against it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import socketserver
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

from tests.daemon.serving import PATIENCE, short_folder

ROOT = Path(__file__).resolve().parents[2]


class Problem(NamedTuple):
    """An error as it is answered."""

    kind: str
    status: int
    detail: str
    hint: str

    @property
    def document(self) -> dict[str, Any]:
        return {"type": f"urn:dreamd:problem:{self.kind}", "title": self.kind.title(), **self._asdict()}


class Progress(list[dict[str, Any]]):
    """The lines of a streamed answer, the last being the result."""


class Scripted:
    """What each method answers, and what was asked; a list of answers is used up one by one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str | None] = []
        self.hold = threading.Event()  # cleared, a Progress waits for it before its last line
        self.hold.set()
        self.waits = threading.Event()  # a Progress has come to its last line

    def answer(self, method: str) -> Any:
        found = self.answers.get(method, {})
        return found.pop(0) if isinstance(found, list) and not isinstance(found, Progress) else found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def address_string(self) -> str:
        return "socket"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        script = self.server.script
        method = self.path.removeprefix("/v1/")
        script.calls.append((method, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        script.keys.append(self.headers["Idempotency-Key"])
        match script.answer(method):
            case Problem() as problem:
                self._send(problem.status, "application/problem+json", problem.document)
            case Progress() as lines if "ndjson" in self.headers.get("Accept", ""):
                self._stream(lines)
            case Progress() as lines:
                script.hold.wait(PATIENCE)
                self._send(200, "application/json", lines[-1])
            case result:
                self._send(200, "application/json", result)

    def _send(self, status: int, content_type: str, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, lines: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        for line in lines[:-1]:
            self.wfile.write(json.dumps(line).encode() + b"\n")
        self.server.script.waits.set()
        self.server.script.hold.wait(PATIENCE)
        self.wfile.write(json.dumps(lines[-1]).encode() + b"\n")


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    script: Scripted

    def handle_error(self, *_: Any) -> None:
        """A client that went away is what some tests are about."""


@contextmanager
def scripted() -> Iterator[Scripted]:
    with short_folder() as folder, _Server(str(folder / "s"), _Handler) as server:
        server.script = Scripted(folder / "s")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.script
        finally:
            server.script.hold.set()
            server.shutdown()
            thread.join()


class Done(NamedTuple):
    """A `dreamctl` that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "daemon.cli", *words]


def environment(socket: Path | str, **more: str) -> dict[str, str]:
    """What the CLI may know of this machine: a path, a language that is no UTF-8, and the socket."""
    return {"PATH": os.environ["PATH"], "LANG": "C", "HOME": "/nowhere", "DREAMD_SOCKET": str(socket)} | more


def dreamctl(socket: Path | str, *words: str, stdin: bytes = b"", **more: str) -> Done:
    """Run the real command line with its output in pipes."""
    ended = subprocess.run(
        command(*words),
        cwd=ROOT,
        env=environment(socket, **more),
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Done(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def dreamctl_on_terminal(socket: Path | str, *words: str, columns: int = 80, **more: str) -> str:
    """Run it with output and errors on a terminal that many columns wide; what reached the terminal comes back."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = environment(socket, TERM="xterm", **more)
    process = subprocess.Popen(
        command(*words), cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65_536):
            shown += piece
    except OSError:  # Linux says so when the other end is closed
        pass
    process.wait(PATIENCE)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")
