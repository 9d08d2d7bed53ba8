"""`dreamctl` before the daemon itself: what it sends is taken, and what comes back is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon.scripted import Done, dreamctl
from tests.daemon.serving import short_folder
from tests.harness import Daemon

WALNUT = "Ada is allergic to walnuts"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with short_folder() as folder:
        daemon = Daemon(folder).start()
        yield daemon
        daemon.stop()


class Shell:
    """Types commands into a scope of its own."""

    def __init__(self, daemon: Daemon, scope: str) -> None:
        self.daemon = daemon
        self.scope = scope

    def type(self, *words: str, stdin: str = "") -> Done:
        return dreamctl(self.daemon.config.socket, *words, stdin=stdin.encode())

    def ask(self, *words: str) -> Any:
        """The result of a command that must succeed."""
        done = self.type(*words, "--json")
        assert done.code == 0, done
        return done.json

    def remember(self, text: str, *flags: str) -> str:
        return str(self.ask("remember", text, "--scope", self.scope, *flags)["id"])


@pytest.fixture
def shell(daemon: Daemon, request: pytest.FixtureRequest) -> Shell:
    return Shell(daemon, request.node.name.replace("_", "-")[:60])


def test_what_was_remembered_is_recalled_and_read_by_a_prefix_of_its_id(shell: Shell) -> None:
    memory = shell.remember(WALNUT, "--tag", "Food", "--metadata", "trip=2", "--author", "Ada", "--event-at", "-2d")

    recalled = shell.type("recall", "walnuts", "--scope", shell.scope, "--explain", "--where", "trip=2")
    read = shell.ask("get", memory[:13])

    assert f"Ada: {WALNUT}" in recalled.out
    assert f"{memory}  2 d ago  {shell.scope}  #food" in recalled.out
    assert "cosine " in recalled.out
    assert (read["content"], read["tags"], read["metadata"]) == (WALNUT, ["food"], {"trip": 2})


def test_an_edit_makes_a_version_that_can_come_back(shell: Shell) -> None:
    memory = shell.remember(WALNUT)

    shell.ask("update", memory, "Ada is allergic to pecans")
    history = shell.type("history", memory)
    shell.ask("revert", memory, "1")

    assert history.out.splitlines()[1] == f"  {WALNUT}"
    assert shell.ask("get", memory)["content"] == WALNUT


def test_several_are_forgotten_and_one_comes_back(shell: Shell) -> None:
    first, second = shell.remember("tea"), shell.remember("coffee")

    forgotten = shell.type("forget", "-", "no-such-memory", stdin=f"{first}\n{second}\n")
    shell.ask("restore", first)
    listed = shell.type("list", "--scope", shell.scope, "--state", "forgotten")

    told = f"Forgotten: {first}\nForgotten: {second}\nNot there: no-such-memory\n"
    assert forgotten.out == told + f"Take them back one at a time: dreamctl restore {first}\n"
    assert second in listed.out
    assert first not in listed.out


def test_two_are_joined_and_parted(shell: Shell) -> None:
    first, second = shell.remember("tea"), shell.remember("a kettle")

    shell.ask("connect", first, second, "--label", "made in", "--weight", "3")
    joined = shell.type("neighbors", first)
    shell.ask("disconnect", first, second)

    assert re.split(" {2,}", joined.out.splitlines()[1]) == [second, "3", "manual", "made in", "a kettle"]
    assert shell.ask("neighbors", first) == {"neighbors": []}


def test_json_lines_become_memories_and_a_bad_one_is_told(shell: Shell) -> None:
    items = [{"content": f"cup {n}", "scope": shell.scope} for n in range(40)] + [{"content": " "}]

    done = shell.type("remember_many", "-", stdin="\n".join(map(json.dumps, items)))

    assert done.code == 1
    assert done.out.startswith("Remembered 40 new, 0 known, 1 failed.\nitem 41: ")
    assert shell.ask("stats", "--scope", shell.scope)["total"] == 40


def test_a_request_id_makes_a_repeat_harmless(shell: Shell) -> None:
    assert shell.remember("tea", "--request-id", shell.scope) == shell.remember("tea", "--request-id", shell.scope)


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--scope", "*", "--sort", "retention"], ["tags", "--scope", "*"], ["stats", "--scope", "*"],
        ["fading", "--scope", "*", "--days", "3650"], ["graph-stats"], ["jobs"], ["runs"], ["version"],
        ["recall", "tea", "--scope", "*", "--no-learn", "--tier", "short"],
        ["recall-multi", "tea", "cup", "--scope", "*", "--no-learn"],
    ],
)  # fmt: skip
def test_every_reading_verb_shows_what_the_daemon_answers(shell: Shell, words: list[str]) -> None:
    shell.remember("a cup of green tea", "--tag", "drinks")

    shown = shell.type(*words)

    assert (shown.code, shown.err) == (0, "")
    assert len(shown.out.splitlines()) >= 1
    assert isinstance(shell.ask(*words), dict)


def test_a_night_runs_and_is_shown_step_by_step(shell: Shell) -> None:
    planned = shell.type("night", "--dry-run")
    done = shell.type("night")
    run = shell.ask("runs", "--job", "night", "--limit", "1")["runs"][0]

    assert planned.code == 0
    assert "(dry run)" in planned.out.splitlines()[0]
    assert done.code == 0
    assert done.out.startswith(f"night: {run['outcome']} in ")
    assert [line.split()[0] for line in done.out.splitlines() if line.startswith(("hebbian", "decay"))] == [
        "hebbian",
        "decay",
    ]


def test_a_run_is_taken_back(shell: Shell) -> None:
    memory = shell.remember("gone soon", "--expires-at", "2026-01-01T00:00:01Z")
    shell.daemon.clock.advance(60)

    ran = shell.ask("run", "decay")
    undone = shell.type("undo", ran["run_id"])
    again = shell.type("undo", ran["run_id"])

    assert ran["counts"]["expired"] == 1
    assert undone.out.startswith("Taken back: 1 change.\n")
    assert again.code == 1
    assert memory not in again.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["get", "no-such-memory"], "There is no memory 'no-such-memory'."),
        (["recall", ""], "The query is empty.\n  dreamctl list --sort created"),
        (["recall", "x", "-k", "0"], "k: input should be greater than or equal to 1."),
        (["remember", "x", "--event-at", "tomorrow"], "event_at: not an RFC 3339 time; write 2026-05-04T09:30:00Z."),
        (["undo", "no-such-run"], "There is no run 'no-such-run'."),
        (["run", "decay", "--at", "+1d"], "`at` is only for a dry run."),
    ],
)
def test_what_the_daemon_refuses_is_told_with_what_to_do(shell: Shell, words: list[str], said: str) -> None:
    done = shell.type(*words)

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"dreamctl: {said}")
    assert len(done.err.splitlines()) == 2
