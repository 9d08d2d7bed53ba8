"""`dreamd`: reads its flags, sees that the three packages are ours, and runs the daemon in the foreground.

Until that is seen only the standard library is imported: another distribution's package in place of ours would fail oddly.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Final

import daemon

USAGE: Final = 2  # the unit does not restart on it


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal; returns 0 clean, 1 failure, 2 usage or configuration, 3 state locked."""
    options = _parser().parse_args(arguments)
    if fault := misplaced():
        sys.stderr.write(f"dreamd: {fault}\n  Install it into a virtual environment of its own: pipx install dreamd\n")
        return USAGE
    from daemon.process import run

    return run(
        config=options.config, state_dir=options.state_dir, socket=options.socket, restore=options.restore_snapshot
    )


def misplaced(find: Callable[[str], ModuleSpec | None] = importlib.util.find_spec) -> str:
    """What is wrong with the packages, or nothing: others on PyPI are named like ours, and one may have overwritten ours."""
    here = Path(__file__).parent.parent
    if not hasattr(daemon, "__version__"):
        return f"The package `daemon` in {here} was overwritten by another distribution's."
    for name in ("jobs", "storage"):
        spec = find(name)
        place = Path(spec.origin).parent.parent if spec is not None and spec.origin else None
        if place != here:
            return f"The package `{name}` comes from {place or 'nowhere'}, not from {here}."
    return ""


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
    parser.add_argument(
        "--restore-snapshot", metavar="NAME", help="restore a snapshot and end; for a store on which no daemon starts"
    )
    version = getattr(daemon, "__version__", "of unknown version")
    parser.add_argument("--version", action="version", version=f"dreamd {version}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
