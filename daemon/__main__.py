"""`dreamd`: read the configuration, run until a signal, leave with an exit code that says how it went."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final

import structlog

from daemon import __version__, log
from daemon.app import build
from daemon.clock import SystemClock
from daemon.config import Config, environment, load
from daemon.lock import StateLocked
from daemon.notify import Notifier, take_sockets, watchdog_seconds
from storage.errors import DreamdError, Invalid

FAILED: Final = 1
USAGE: Final = 2  # the unit does not restart on it, nor on a locked state


def main(arguments: list[str] | None = None) -> int:
    """Run the daemon in the foreground; returns 0 clean, 1 failure, 2 usage or configuration, 3 state locked."""
    options = _parser().parse_args(arguments)
    environ = dict(environment())
    log.configure(sys.stderr, journal=log.reaches_journal(environ, 2), tty=sys.stderr.isatty())
    try:
        _check_packages()
        config = load(environ, config=options.config, state_dir=options.state_dir, socket=options.socket)
        asyncio.run(_run(config, environ))
    except StateLocked as error:
        return _say(error, error.exit_code)
    except Invalid as error:
        return _say(error, USAGE)
    except DreamdError as error:
        return _say(error, FAILED)
    return 0


async def _run(config: Config, environ: dict[str, str]) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    notifier = Notifier(environ.get("NOTIFY_SOCKET", ""))
    passed = [sock for _, sock in take_sockets(environ, os.getpid())]
    app = await build(
        config,
        clock=SystemClock(),
        notifier=notifier,
        watchdog_seconds=watchdog_seconds(environ, os.getpid()),
        passed=passed,
    )
    try:
        await stopped.wait()
    finally:
        structlog.get_logger("daemon").info("app.stopping")
        await app.stop()


def _check_packages() -> None:
    """Another distribution may have put its own `daemon` beside or over ours; say so instead of failing oddly."""
    import jobs
    import storage

    here = Path(__file__).parent.parent
    for package in (jobs, storage):
        if Path(str(package.__file__)).parent.parent != here:
            raise Invalid(
                f"`{package.__name__}` comes from {Path(str(package.__file__)).parent}, not from {here}.",
                hint="Install dreamd into a virtual environment of its own: pipx install dreamd",
            )


def _say(error: DreamdError, code: int) -> int:
    print(f"dreamd: {error.detail}\n  {error.hint}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dreamd", description="The memory daemon for AI agents, in the foreground.")
    parser.add_argument(
        "--config", metavar="FILE", help="the configuration (else $DREAMD_CONFIG, else ~/.config/dreamd/dreamd.toml)"
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help="where memories are kept (else $DREAMD_STATE_DIR, else ~/.local/state/dreamd)",
    )
    parser.add_argument(
        "--socket", metavar="PATH", help="the socket to serve (else $DREAMD_SOCKET, else in $XDG_RUNTIME_DIR/dreamd)"
    )
    parser.add_argument("--version", action="version", version=f"dreamd {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
