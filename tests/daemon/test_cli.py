"""The real `dreamctl`, as a process, before a server that answers as scripted."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import __version__
from daemon.terminal import columns
from tests.daemon.answers import HEALTH, HIT, ID, MEMORY, REMEMBERED, RUN
from tests.daemon.scripted import (
    ROOT,
    Problem,
    Progress,
    Scripted,
    command,
    dreamctl,
    dreamctl_on_terminal,
    environment,
    scripted,
)
from tests.daemon.serving import PATIENCE

CONFLICT = Problem("conflict", 409, "dream is under way already as run r-1.", "dreamctl runs")


@pytest.fixture(scope="module")
def _server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture
def server(_server: Scripted) -> Scripted:
    """A server that nobody asked anything yet."""
    _server.answers = {"health": HEALTH, "remember": REMEMBERED}
    _server.calls.clear()
    _server.keys.clear()
    _server.hold.set()
    _server.waits.clear()
    return _server


# What is sent, and what comes back


def test_a_verb_sends_its_params_and_shows_the_result(server: Scripted) -> None:
    done = dreamctl(server.path, "remember", "Ada is allergic to nuts", "--tag", "food")

    assert done == (0, f"Remembered: {ID}  personal\n", "")
    assert server.calls == [("remember", {"content": "Ada is allergic to nuts", "tags": ["food"]})]


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["run", "dream", "--dry-run"], ("run_job", {"name": "dream", "dry_run": True})),
        (["night"], ("run_job", {"name": "night"})),
        (["night", "--no-wait"], ("run_job", {"name": "night", "wait": False})),
        (
            ["run-job", "decay", "--param", "only=expired"],
            ("run_job", {"name": "decay", "params": {"only": "expired"}}),
        ),
        (["graph-stats"], ("graph_stats", {})),
        (["recall_multi", "a", "b"], ("recall_multi", {"queries": ["a", "b"]})),
    ],
)
def test_verbs_may_be_shortened_and_spelt_with_dashes(
    server: Scripted, words: list[str], call: tuple[str, Any]
) -> None:
    server.answers = {"run_job": RUN, "recall_multi": {"hits": []}, "graph_stats": {"nodes": 0}}

    assert dreamctl(server.path, *words).code == 0
    assert server.calls == [call]


def test_a_time_is_told_from_the_host_s_clock(server: Scripted) -> None:
    dreamctl(server.path, "remember", "x", "--event-at", "now", "--expires-at", "+1d")

    sent = server.calls[0][1]
    assert sent["event_at"][:10] < sent["expires_at"][:10]
    assert sent["event_at"][10:] == sent["expires_at"][10:]


def test_text_from_standard_input_arrives_whole(server: Scripted) -> None:
    text = "zwei Zeilen ☕\nund 今日は"

    assert dreamctl(server.path, "remember", "-", stdin=text.encode()).code == 0
    assert server.calls == [("remember", {"content": text})]


def test_words_in_utf_8_arrive_whole_in_a_locale_that_has_none(server: Scripted) -> None:
    server.answers["recall"] = {"hits": [HIT | {"content": "我对坚果过敏 ☕"}], "took_ms": 1.0}

    done = dreamctl(server.path, "recall", "我可以吃坚果吗?", LC_ALL="C", PYTHONIOENCODING="ascii")

    assert server.calls == [("recall", {"query": "我可以吃坚果吗?"})]
    assert "我对坚果过敏 ☕" in done.out


def test_a_request_id_goes_out_as_the_idempotency_key(server: Scripted) -> None:
    dreamctl(server.path, "remember", "x", "--request-id", "once")

    assert server.keys == ["once"]


def test_json_is_the_result_as_it_is(server: Scripted) -> None:
    result = {"hits": [HIT | {"content": "今日は ☕ \x1b[2J \x9b2J \x7f \u202e \u2028"}], "took_ms": 0.1}
    server.answers["recall"] = result

    done = dreamctl(server.path, "recall", "tea", "--json")

    assert done.json == result
    assert "今日は ☕" in done.out
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", done.out)


# Many items


def lines(count: int, size: int = 1) -> bytes:
    return b"".join(json.dumps({"content": f"{n} {'x' * size}"}).encode() + b"\n" for n in range(count))


def many(count: int, failed: int = 0) -> dict[str, Any]:
    problem = {"kind": "invalid", "detail": "The text is blank.", "hint": "Write something."}
    results = [REMEMBERED] * (count - failed) + [problem] * failed
    return {"results": results, "created": count - failed, "failed": failed}


def test_a_file_is_sent_in_batches_and_their_results_are_one(server: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(lines(2_300))
    server.answers["remember_many"] = [many(1_000), many(1_000), many(300)]

    done = dreamctl(server.path, "remember_many", str(file), "--request-id", "once", "--json")

    assert [len(params["items"]) for _, params in server.calls] == [1_000, 1_000, 300]
    assert [item for _, params in server.calls for item in params["items"]] == [
        json.loads(line) for line in lines(2_300).splitlines()
    ]
    assert server.keys == ["once", "once/1", "once/2"]
    assert (done.json["created"], len(done.json["results"])) == (2_300, 2_300)


def test_a_batch_stays_far_below_what_the_daemon_takes(server: Scripted) -> None:
    server.answers["remember_many"] = [many(1)] * 9

    assert dreamctl(server.path, "remember_many", "-", stdin=lines(9, size=2_000_000)).code == 0
    assert [len(params["items"]) for _, params in server.calls] == [2, 2, 2, 2, 1]


def test_items_that_failed_are_listed_and_make_the_exit_code_1(server: Scripted) -> None:
    server.answers["remember_many"] = many(3, failed=1)

    done = dreamctl(server.path, "remember_many", "-", stdin=lines(3))

    assert done.code == 1
    assert done.out == "Remembered 2 new, 0 known, 1 failed.\nitem 3: The text is blank. Write something.\n"


def test_where_a_later_batch_is_refused_it_says_how_far_it_came(server: Scripted) -> None:
    server.answers["remember_many"] = [many(1_000), Problem("unavailable", 503, "The disk is full.", "Make room.")]

    done = dreamctl(server.path, "remember_many", "-", stdin=lines(1_500))

    assert done.code == 1
    assert "The first 1000 of 1500 items are done." in done.err
    assert "The disk is full.\n  Make room." in done.err


def test_a_line_that_is_no_object_stops_it_before_anything_is_sent(server: Scripted) -> None:
    done = dreamctl(server.path, "remember_many", "-", stdin=lines(3) + b"{oops\n")

    assert done.code == 2
    assert done.err.startswith("dreamctl: Line 4 of - is not a JSON object.\n")
    assert server.calls == []


# What goes wrong


def test_an_error_tells_what_happened_and_what_to_do(server: Scripted) -> None:
    server.answers["undo"] = CONFLICT

    assert dreamctl(server.path, "undo", "r-1") == (1, "", f"dreamctl: {CONFLICT.detail}\n  dreamctl runs\n")


def test_an_error_as_json_is_the_problem_on_standard_output(server: Scripted) -> None:
    server.answers["undo"] = CONFLICT

    done = dreamctl(server.path, "undo", "r-1", "--json")

    assert (done.code, done.json, done.err) == (1, CONFLICT.document, "")


def test_an_error_in_the_last_line_of_a_stream_is_one_too(server: Scripted) -> None:
    server.answers["run_job"] = Progress([{"progress": {"job": "dream", "done": 1, "total": 2}}, CONFLICT.document])

    done = dreamctl(server.path, "run", "dream")

    assert (done.code, done.out, done.err) == (1, "", f"dreamctl: {CONFLICT.detail}\n  dreamctl runs\n")


def test_an_error_cannot_command_the_terminal(server: Scripted) -> None:
    server.answers["get"] = Problem("not_found", 404, "No memory '\x1b[2J'.", "dreamctl list")

    assert dreamctl(server.path, "get", "\x1b[2J").err == "dreamctl: No memory '\\x1b[2J'.\n  dreamctl list\n"


@pytest.mark.parametrize("words", [[], ["health"], ["recall", "x"]])
def test_without_a_daemon_it_says_how_to_start_it(tmp_path: Path, words: list[str]) -> None:
    done = dreamctl(tmp_path / "s", *words)

    assert (done.code, done.out) == (3, "")
    assert f"dreamd is not running: nobody listens on {tmp_path}/s." in done.err
    assert "Start it in another terminal: dreamd" in done.err
    assert dreamctl(tmp_path / "s", *words, "--json").json["kind"] == "not_running"


def test_without_a_daemon_a_restore_is_told_how_to_do_without(tmp_path: Path) -> None:
    done = dreamctl(tmp_path / "s", "restore_snapshot", "20260101T000000Z")

    assert (done.code, done.out) == (3, "")
    assert "Where it does not start: dreamd --restore-snapshot 20260101T000000Z" in done.err


def test_the_socket_flag_goes_before_the_environment(server: Scripted, tmp_path: Path) -> None:
    assert dreamctl(tmp_path / "s", "--socket", str(server.path), "health").code == 0
    assert dreamctl(tmp_path / "s", "health", f"--socket={server.path}").code == 0
    assert dreamctl(server.path, "health", "--socket", str(tmp_path / "s")).code == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["recal", "x"], "Did you mean recall?"),
        (["recall", "x", "--explian"], "Did you mean --explain?"),
        (["undo"], "RUN_ID is missing."),
        (["completion", "csh"], "Choose from bash, zsh, fish."),
        (["--jsno"], "Did you mean --json?"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error_and_nothing_is_sent(
    server: Scripted, words: list[str], said: str
) -> None:
    done = dreamctl(server.path, *words)

    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert server.calls == []


def test_a_wait_that_is_too_long_ends(server: Scripted) -> None:
    server.answers["run_job"] = Progress([RUN])
    server.hold.clear()

    done = dreamctl(server.path, "night", "--timeout", "0.2")

    assert done.code == 1
    assert "No answer within 0.2 s" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["night"], "dreamctl: Interrupted; what was begun goes on in the daemon.\n  dreamctl runs\n"),
        (["simulate", "365"], ""),  # which ends with whoever asked for it
    ],
)
def test_an_interrupt_exits_as_shells_have_it_and_says_whether_the_daemon_goes_on(
    server: Scripted, words: list[str], says: str
) -> None:
    progress = {"progress": {"job": "dream", "done": 1, "total": 2}}
    server.answers |= {"run_job": Progress([progress, RUN]), "simulate": Progress([progress, {}])}
    server.hold.clear()
    process = subprocess.Popen(command(*words), cwd=ROOT, env=environment(server.path), stderr=subprocess.PIPE)
    assert server.waits.wait(PATIENCE)

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)

    assert process.returncode == 130
    assert said.decode() == says


@pytest.mark.parametrize("words", [["list"], ["list", "--json"]])
def test_a_reader_who_has_seen_enough_is_no_error(server: Scripted, words: list[str]) -> None:
    server.answers["list"] = {"memories": [MEMORY] * 5_000, "cursor": None}
    process = subprocess.Popen(
        command(*words), cwd=ROOT, env=environment(server.path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.stderr.read() == b""
    assert process.wait(PATIENCE) == 0
    process.stderr.close()


# What is shown


@pytest.mark.parametrize("words", [[], ["health"]])
def test_alone_it_shows_how_the_daemon_is_and_what_to_do(server: Scripted, words: list[str]) -> None:
    reason = {"name": "store", "detail": "251 of 501 points are there.", "hint": "dreamctl restore_snapshot NAME"}
    server.answers["health"] = HEALTH | {"status": "degraded", "reasons": [reason], "paused": True}

    out = dreamctl(server.path, *words).out

    assert out.startswith(
        "dreamd 0.1.0 is degraded.\n  store: 251 of 501 points are there.\n    dreamctl restore_snapshot NAME\n"
    )
    assert re.search(r"^jobs +held back: dreamctl resume_jobs$", out, re.MULTILINE)
    assert re.search(r"^up +61\.7 min$", out, re.MULTILINE)


def test_a_failed_run_exits_with_1(server: Scripted) -> None:
    server.answers["run_job"] = RUN | {"outcome": "failed", "reason": "unavailable", "steps": []}

    done = dreamctl(server.path, "run", "dream")

    assert done.code == 1
    assert done.out.startswith("dream: failed in 812 ms\n")


# On a terminal


SGR = re.compile("\x1b\\[[0-9;]*m")
WILD = "\x1b[2J\x1b]0;owned\x07 \x9b2J \r\x08\x08 \u202e\x7f 我对坚果过敏 " + "word " * 30


def test_a_memory_cannot_command_the_terminal(server: Scripted) -> None:
    wild = MEMORY | {"content": WILD, "author": WILD, "tags": [WILD], "id": WILD}
    server.answers["recall"] = {"hits": [wild | {"score": 1.0}], "took_ms": 1.0}
    server.answers["list"] = {"memories": [wild], "cursor": WILD}

    for words in (["recall", "x"], ["list"]):
        shown = SGR.sub("", dreamctl_on_terminal(server.path, *words))
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
        assert "\\x1b[2J" in shown


@pytest.mark.parametrize("width", [60, 79, 120])
def test_no_line_is_wider_than_the_terminal(server: Scripted, width: int) -> None:
    wide = MEMORY | {
        "id": "m1",
        "content": "我对坚果过敏，所以在每次晚餐上都要说明。" * 8 + "x" * 200,
        "tags": ["健康"],
    }
    server.answers["recall"] = {"hits": [wide | {"score": 1.0}], "took_ms": 1.0}
    server.answers["list"] = {"memories": [wide], "cursor": None}
    server.answers["get"] = wide

    for words in (["recall", "x"], ["list"], ["get", "m1"]):
        widths = [columns(line) for line in dreamctl_on_terminal(server.path, *words, columns=width).splitlines()]
        assert max(widths) <= width
        assert max(widths) >= width - 1


def test_colour_is_for_terminals_whose_owner_did_not_decline(server: Scripted) -> None:
    assert "\x1b[32mRemembered\x1b[0m" in dreamctl_on_terminal(server.path, "remember", "x")
    assert "\x1b[" not in dreamctl_on_terminal(server.path, "remember", "x", NO_COLOR="1")
    assert "\x1b[" not in dreamctl(server.path, "remember", "x").out


def test_long_work_shows_how_far_it_is_only_to_a_person(server: Scripted) -> None:
    steps = [{"progress": {"job": "night", "run_id": "run-1", "done": done, "total": 500}} for done in (256, 500)]
    server.answers["run_job"] = Progress([*steps, RUN])

    shown = dreamctl_on_terminal(server.path, "night", NO_COLOR="1")
    piped = dreamctl(server.path, "night", "--json")

    assert "\r\x1b[Knight: 256 of 500\r\x1b[Knight: 500 of 500\r\x1b[Kdream: changed" in shown
    assert (piped.json, piped.err) == (RUN, "")


# Without the daemon


def test_help_and_version_need_no_daemon(tmp_path: Path) -> None:
    overview = dreamctl(tmp_path, "--help")
    verb = dreamctl(tmp_path, "recall", "--help")

    assert (overview.code, overview.err) == (0, "")
    assert "  remember             Remember a text.\n" in overview.out
    assert dreamctl(tmp_path, "help").out == overview.out
    assert (verb.code, verb.err) == (0, "")
    assert verb.out.startswith("usage: dreamctl recall QUERY [options]\n")
    assert dreamctl(tmp_path, "help", "recall").out == verb.out
    assert dreamctl(tmp_path, "help", "completion").out == "usage: dreamctl completion bash|zsh|fish\n"
    assert dreamctl(tmp_path, "--version") == (0, f"dreamctl {__version__}\n", "")


PROBE = """
import sys
before = {name.partition(".")[0] for name in sys.modules}
from daemon import cli
code = cli.main(sys.argv[1:])
after = {name.partition(".")[0] for name in sys.modules}
print(code, sorted(after - before - sys.stdlib_module_names), file=sys.stderr)
print(*sorted(name for name in sys.modules if name.startswith("daemon.")), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "words", [["recall", "x"], ["recall", "x", "--json"], ["recal"], ["--help"], ["remember_many", "-"]]
)
def test_it_imports_the_standard_library_and_its_own_thin_files(server: Scripted, words: list[str]) -> None:
    server.answers |= {"recall": {"hits": [HIT], "took_ms": 1.0}, "remember_many": many(0)}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        cwd=ROOT,
        env=environment(server.path),
        input=b"",
        capture_output=True,
        check=True,
    )
    imported, own = done.stderr.decode().splitlines()[-2:]
    thin = {
        "arguments", "briefings", "cli", "client", "clock", "completion", "forecasts", "notes", "output", "reports", "terminal",
        "transfers", "values", "verbs",
    }  # fmt: skip

    assert imported.endswith(" ['daemon']")
    assert {name.removeprefix("daemon.") for name in own.split()} <= thin


def test_it_runs_from_any_folder(server: Scripted, tmp_path: Path) -> None:
    env = environment(server.path, PYTHONPATH=str(ROOT))

    done = subprocess.run(command("version"), cwd=tmp_path, env=env, capture_output=True, check=False)

    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
