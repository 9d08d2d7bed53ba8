"""A look ahead as a picture, and `dreamctl`, which draws it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.client import CallError
from daemon.plot import BARS, Picture
from tests.daemon.answers import simulated
from tests.daemon.scripted import ROOT, Problem, Progress, Scripted, dreamctl, scripted

YEAR = simulated([(1_000 - 2 * n, 2, n % 3, n % 2) for n in range(365)])


@pytest.fixture(scope="module")
def _server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture
def server(_server: Scripted) -> Scripted:
    """A server that tells of a year, and has been asked nothing yet."""
    _server.answers = {"simulate": Progress([{"progress": {"job": "simulate", "done": 1, "total": 365}}, YEAR])}
    _server.calls.clear()
    return _server


# The picture


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")])
def test_each_format_is_what_its_name_says(tmp_path: Path, name: str, begins: bytes) -> None:
    Picture(str(tmp_path / name)).draw(YEAR)

    assert (tmp_path / name).read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def drawn(tmp_path: Path, result: dict[str, object]) -> list[str]:
    """What stands in a picture: matplotlib names each text in a comment of the SVG."""
    Picture(str(tmp_path / "a.svg")).draw(result)
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    tree = ET.parse(tmp_path / "a.svg", parser)
    return [(one.text or "").strip() for one in tree.iter() if one.tag is ET.Comment]


def test_it_says_what_it_shows(tmp_path: Path) -> None:
    texts = drawn(tmp_path, YEAR)

    assert "1,002 memories now, 272 live after 365 days with zipf recalls" in texts
    assert {"live", "in the bin", "memories", "in 7 days", "days from 2026-01-01"} <= set(texts)
    assert not any(
        text.startswith(("-", "−")) for text in texts
    )  # what goes is drawn downwards, and is no negative number


@pytest.mark.parametrize("count", [1, 2, BARS, BARS + 1])
def test_any_number_of_days_and_an_empty_store_can_be_drawn(tmp_path: Path, count: int) -> None:
    texts = drawn(tmp_path, simulated([(0, 0, 0, 0)] * count))

    assert ("a day" in texts) == (count <= BARS)
    assert ("in 2 days" in texts) == (count > BARS)


def test_a_picture_takes_the_place_of_the_former_one_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("the former one")
    with pytest.raises(KeyError):
        Picture(str(path)).draw({"rows": [{"day": 1}]})
    assert path.read_text() == "the former one"

    Picture(str(path)).draw(YEAR)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a", "a.gif", "png", "nowhere/a.png", "folder.png"])
def test_a_place_for_no_picture_is_told_before_anything_is_asked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.png").mkdir()

    with pytest.raises(CallError) as caught:
        Picture(str(tmp_path / name))
    assert caught.value.kind == "invalid"
    assert caught.value.hint


# dreamctl


def test_dreamctl_draws_what_it_shows_and_sends_nothing_of_it(server: Scripted, tmp_path: Path) -> None:
    path = tmp_path / "out.png"
    done = dreamctl(server.path, "simulate", "--days", "365", "--recalls", "zipf", "--plot", str(path))

    assert server.calls == [("simulate", {"days": 365, "recalls": "zipf"})]
    assert done.code == 0
    assert done.out.splitlines()[0].startswith("1,002 memories now")
    assert done.out.splitlines()[-1] == f"Drawn: {path}"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_result_as_it_is_stays_as_it_is_beside_a_picture(server: Scripted, tmp_path: Path) -> None:
    done = dreamctl(server.path, "simulate", "365", "--json", "--plot", str(tmp_path / "out.svg"))

    assert done.json == YEAR
    assert (tmp_path / "out.svg").exists()


def test_without_being_asked_for_there_is_no_picture(server: Scripted) -> None:
    done = dreamctl(server.path, "simulate", "365")

    assert (done.code, "Drawn" in done.out) == (0, False)


def test_the_wrong_file_is_an_error_before_the_daemon_is_asked(server: Scripted, tmp_path: Path) -> None:
    done = dreamctl(server.path, "simulate", "365", "--plot", str(tmp_path / "out.gif"))

    assert done == (1, "", "dreamctl: out.gif names no format of a picture.\n  Use one of .png, .svg, .pdf.\n")
    assert server.calls == []


def test_a_file_that_cannot_be_written_is_an_error_after_the_result_is_shown(server: Scripted) -> None:
    done = dreamctl(server.path, "simulate", "365", "--plot", "/proc/out.png")

    assert done.code == 1
    assert done.out.splitlines()[0].startswith("1,002 memories now")
    assert done.err.startswith("dreamctl: /proc/out.png cannot be written")


def test_a_simulation_that_fails_draws_nothing(server: Scripted, tmp_path: Path) -> None:
    server.answers["simulate"] = Problem("conflict", 409, "A simulation is under way.", "Try again when it has ended.")
    done = dreamctl(server.path, "simulate", "365", "--plot", str(tmp_path / "out.png"))

    assert done.code == 1
    assert list(tmp_path.iterdir()) == []


def without_packages(*words: str) -> subprocess.CompletedProcess[str]:
    """`dreamctl` where nothing but Python itself is installed."""
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    program = (
        f"import sys\nsys.path[:] = [one for one in sys.path if one not in {installed}]\nfrom daemon.cli import main\n"
        f"sys.exit(main({list(words)}))"
    )
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)


def test_without_matplotlib_it_says_what_to_install(server: Scripted, tmp_path: Path) -> None:
    done = without_packages("simulate", "365", "--plot", str(tmp_path / "out.png"), "--socket", str(server.path))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        'dreamctl: A picture needs matplotlib, which is not installed.\n  pip install "dreamd[plot]"\n'
    )
    assert server.calls == []


def test_without_matplotlib_everything_else_works(server: Scripted) -> None:
    done = without_packages("simulate", "365", "--socket", str(server.path))

    assert (done.returncode, done.stderr) == (0, "")


def test_matplotlib_is_imported_only_to_draw() -> None:
    program = "import sys, daemon.cli, daemon.output, daemon.plot\nprint('matplotlib' in sys.modules)"
    asked = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert asked.stdout == "False\n"
