"""What the README shows of a day is what happens: every command of it is run, and its output compared.

`...` in the README stands for whatever is not worth showing: ids, times, the rest of a list.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.bench.process import Process

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DAY = "## A day in an agent's life"
NIGHTS = "## Nights you can leave alone"
#: The default embedder, as a newcomer has it.
OPTIONS = {"DREAMD_STORAGE__RESERVE_MB": "16", "DREAMD_SCHEDULE__NIGHT": "off"}


def section(heading: str) -> str:
    """What stands under a heading, up to the next of its level."""
    after = README.split(f"\n{heading}\n", 1)[1]
    return re.split(r"\n## ", after, maxsplit=1)[0]


def commands(text: str) -> list[tuple[str, str]]:
    """Each command of the console blocks, and the output that is shown for it."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def shell(folder: Path, process: Process) -> dict[str, str]:
    """The environment of somebody who installed dreamd and looks at it in a terminal of a hundred columns."""
    shim = folder / "bin" / "dreamctl"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m daemon.cli "$@"\n')
    shim.chmod(0o755)
    return {
        "PATH": f"{shim.parent}:{os.environ['PATH']}", "HOME": str(folder), "TZ": "UTC", "LANG": "C.UTF-8", "COLUMNS": "100",
        "DREAMD_SOCKET": str(process.socket),
    }  # fmt: skip


def run(command: str, folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What a shell says to a command, on both channels."""
    return subprocess.run(
        ["/bin/sh", "-c", command], env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip


def test_a13_the_day_in_the_readme_is_what_happens(folder: Path) -> None:
    checker = doctest.OutputChecker()
    process = Process(folder, OPTIONS)
    process.start()
    try:
        environ = shell(folder, process)
        day = commands(section(DAY))
        assert len(day) >= 15
        for command, wanted in day:
            got = run(command, folder, environ).stdout
            alike = checker.check_output(wanted, got, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            assert alike, f"$ {command}\n{got}\n--- the README has\n{wanted}"
    finally:
        process.kill()


def test_a13_every_command_about_nights_does_what_is_said_beside_it(folder: Path) -> None:
    """In their order, over three memories and two nights; the year is a month here."""
    process = Process(folder, OPTIONS)
    process.start()
    try:
        environ = shell(folder, process)
        for text in ("Deploys are on Tuesdays.", "Deploys are on tuesdays", "Ada likes tea"):
            assert run(f'dreamctl remember "{text}"', folder, environ).returncode == 0
        assert run('dreamctl recall "when do we deploy?"', folder, environ).returncode == 0
        night = run('dreamctl night --json | sed -n \'s/.*"run_id": "\\(.*\\)".*/\\1/p\' | head -1', folder, environ)
        told = commands(section(NIGHTS))
        assert len(told) >= 7
        for command, _ in told:
            asked = command.split("#")[0].replace("RUN", night.stdout.strip()).replace("365", "30")
            done = run(asked, folder, environ)
            assert done.returncode == 0, f"$ {command}\n{done.stdout}"
    finally:
        process.kill()
