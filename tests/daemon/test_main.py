"""The `dreamd` command: its flags, its signals, its last words and its exit codes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from daemon import __version__
from daemon.__main__ import main, misplaced
from tests.bench.process import Process
from tests.daemon.serving import until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def process(folder: Path) -> Iterator[Process]:
    process = Process(folder, {"DREAMD_EMBEDDING__PROVIDER": "wordllama", "DREAMD_CONFIG": str(folder / "dreamd.toml")})
    (folder / "dreamd.toml").write_text("")
    yield process
    process.kill()


def dreamd(folder: Path, *flags: str, options: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A daemon that is expected to end by itself."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TZ": "UTC",
        "DREAMD_METRICS__LISTEN": "",
        **(options or {}),
    }
    command = [sys.executable, "-m", "daemon", *flags]
    return subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_it_tells_its_version_and_its_flags(folder: Path) -> None:
    shown = dreamd(folder, "--version"), dreamd(folder, "--help")

    assert [one.returncode for one in shown] == [0, 0]
    assert shown[0].stdout == f"dreamd {__version__}\n"
    for flag in ("--config", "--state-dir", "--socket"):
        assert flag in shown[1].stdout


def test_an_unknown_flag_is_a_usage_error(folder: Path) -> None:
    assert dreamd(folder, "--sate-dir", "x").returncode == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[decay]\ntreshold = 0.2\n", ["treshold", "did you mean", "threshold"]),
        ("[dekay]\n", ["dekay", "did you mean", "decay"]),
        ("[decay]\nthreshold = 2.0\n", ["[decay] threshold"]),
        ("not toml", ["dreamd.toml"]),
    ],
)
def test_a_broken_configuration_ends_with_2_and_says_what_was_meant(folder: Path, text: str, words: list[str]) -> None:
    (folder / "dreamd.toml").write_text(text)

    done = dreamd(folder, "--config", str(folder / "dreamd.toml"), "--state-dir", str(folder / "state"))

    assert done.returncode == 2
    assert done.stderr.startswith("dreamd: ")
    assert "Traceback" not in done.stderr
    assert all(word.lower() in done.stderr.lower() for word in words), done.stderr
    assert not (folder / "state").exists()


def test_a_configuration_that_is_named_and_not_there_ends_with_2(folder: Path) -> None:
    done = dreamd(folder, "--config", str(folder / "nowhere.toml"))

    assert done.returncode == 2
    assert "nowhere.toml" in done.stderr


def test_a_wrong_variable_ends_with_2(folder: Path) -> None:
    done = dreamd(folder, options={"DREAMD_DECAY__TRESHOLD": "0.2"})

    assert done.returncode == 2
    assert "DREAMD_DECAY__T" in done.stderr


def test_a_state_folder_that_cannot_be_written_ends_with_1(folder: Path) -> None:
    (folder / "file").write_text("")

    done = dreamd(folder, "--state-dir", str(folder / "file" / "state"))

    assert done.returncode == 1
    assert done.stderr.startswith("dreamd: The state folder")
    assert "--state-dir" in done.stderr


def test_a_taken_socket_ends_with_1(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "s"))
        other.listen()

        done = dreamd(folder, "--state-dir", str(folder / "state"), "--socket", str(folder / "s"))

    assert done.returncode == 1
    assert "Another process listens" in done.stderr


def test_a_socket_path_that_is_too_long_ends_with_2(folder: Path) -> None:
    done = dreamd(folder, "--state-dir", str(folder / "state"), "--socket", str(folder / ("s" * 120)))

    assert done.returncode == 2
    assert "107" in done.stderr


def test_case51_a_second_daemon_on_the_same_state_ends_with_3_and_says_who_has_it(process: Process) -> None:
    process.start()
    assert process.process is not None

    done = dreamd(process.folder, "--state-dir", str(process.folder / "state"), "--socket", str(process.folder / "t"))

    assert done.returncode == 3
    assert f"pid {process.process.pid} owns it since 20" in done.stderr
    assert f"socket {process.socket}" in done.stderr
    with process.client() as client:
        assert client.call("health")["pid"] == process.process.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_and_its_socket_is_gone(process: Process, number: signal.Signals) -> None:
    process.start()
    assert process.process is not None

    process.process.send_signal(number)

    assert process.process.wait(30) == 0
    assert not process.socket.exists()
    assert "process.stopping" in process.log.read_text()


def test_sighup_reads_the_configuration_again_and_a_wrong_one_changes_nothing(process: Process) -> None:
    process.start()
    assert process.process is not None
    file = process.folder / "dreamd.toml"
    with process.client() as client:
        client.call("remember", content="green tea")

        def emotion() -> float:
            return float(client.call("recall", query="tea", explain=True)["hits"][0]["why"]["emotion"])

        before = emotion()
        for text, word in (
            ("[recall]\nemotion_weight = 0.5\n[decay]\nthreshold = 0.2\n", "app.config_reread"),
            ("[recall]\nemotion_wieght = 0.5\n", "process.config_refused"),
        ):
            file.write_text(text)
            process.process.send_signal(signal.SIGHUP)
            assert until(lambda word=word: word in process.log.read_text())
        after = emotion()

    assert (before, after) == (pytest.approx(0.05), pytest.approx(0.25))
    assert '"waiting_for_restart": ["decay"]' in process.log.read_text()
    assert process.stop() == 0


def found_in(places: Mapping[str, Path | None]) -> Callable[[str], ModuleSpec | None]:
    """Finds packages in these places."""

    def find(name: str) -> ModuleSpec | None:
        place = places.get(name, ROOT)
        return None if place is None else ModuleSpec(name, None, origin=str(place / name / "__init__.py"))

    return find


def test_packages_that_do_not_lie_beside_each_other_are_told() -> None:
    assert misplaced() == ""
    assert misplaced(found_in({})) == ""
    assert "`jobs` comes from /opt/other" in misplaced(found_in({"jobs": Path("/opt/other")}))
    assert "`storage` comes from nowhere" in misplaced(found_in({"storage": None}))


def test_a_foreign_package_in_place_of_ours_ends_with_2_and_the_way_out(folder: Path) -> None:
    """PyPI has other packages of these names, which come first on the path of a shared environment."""
    (folder / "jobs").mkdir()
    (folder / "jobs" / "__init__.py").write_text("raise RuntimeError('not ours')")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    code = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]; from daemon.__main__ import main; sys.exit(main([]))"

    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 2
    assert "`jobs` comes from" in done.stderr
    assert "pipx install dreamd" in done.stderr
    assert "Traceback" not in done.stderr


def test_main_takes_its_arguments_from_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"dreamd {__version__}\n"
