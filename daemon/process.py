"""One process: its configuration, its signals, and the exit code that says how it went."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from daemon import log, offline
from daemon.app import App, build
from daemon.clock import SystemClock
from daemon.config import Config, environment, load
from daemon.lock import StateLocked
from daemon.notify import Notifier, take_sockets, watchdog_seconds
from storage.errors import DreamdError, Invalid

FAILED: Final = 1
USAGE: Final = 2  # the unit does not restart on it, nor on a locked state


def run(
    *, config: str | None = None, state_dir: str | None = None, socket: str | None = None, restore: str | None = None
) -> int:
    """Run the daemon until SIGTERM or SIGINT; the arguments are the paths given on the command line.

    With the name of a snapshot to `restore` it does that, and ends.
    """
    environ = dict(environment())
    log.configure(sys.stderr, journal=log.reaches_journal(environ, 2), tty=sys.stderr.isatty())
    read = partial(load, environ, config=config, state_dir=state_dir, socket=socket)
    try:
        if restore is None:
            asyncio.run(_serve(read(), environ, read))
        else:
            sys.stdout.write(f"{offline.restore(read(), restore, SystemClock().now())}\n")
    except StateLocked as error:
        return _say(error, error.exit_code)
    except Invalid as error:
        return _say(error, USAGE)
    except DreamdError as error:
        return _say(error, FAILED)
    return 0


async def _serve(config: Config, environ: dict[str, str], read: Callable[[], Config]) -> None:
    stopped, asked = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    loop.add_signal_handler(signal.SIGHUP, asked.set)
    app = await build(
        config,
        clock=SystemClock(),
        notifier=Notifier(environ.get("NOTIFY_SOCKET", "")),
        watchdog_seconds=watchdog_seconds(environ, os.getpid()),
        passed=[sock for _, sock in take_sockets(environ, os.getpid())],
    )
    rereading = asyncio.create_task(_reread(app, asked, read))
    try:
        await stopped.wait()
    finally:
        rereading.cancel()
        structlog.get_logger("daemon.process").info("process.stopping")
        await app.stop()


async def _reread(app: App, asked: asyncio.Event, read: Callable[[], Config]) -> None:
    """At each SIGHUP read the configuration again; one that is wrong changes nothing."""
    while True:
        await asked.wait()
        asked.clear()
        try:
            app.reread(read())
        except Invalid as error:
            structlog.get_logger("daemon.process").warning(
                "process.config_refused", detail=error.detail, hint=error.hint
            )


def _say(error: DreamdError, code: int) -> int:
    sys.stderr.write(f"dreamd: {error.detail}\n  {error.hint}\n")
    return code
