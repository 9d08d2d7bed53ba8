"""The hint of an error is a command line that can be pasted, whatever words of a caller are in it."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon import arguments, verbs
from daemon.values import Inputs
from storage.errors import command

VERBS = verbs.load()
words = st.text(min_size=1, max_size=20).filter(lambda word: word != "-" and "\0" not in word)


def read(line: str) -> tuple[str, dict[str, object]]:
    """The verb and the params that come of a line in a shell."""
    program, *rest = shlex.split(line)
    assert program == "dreamctl"
    verb, tokens = arguments.split(rest)
    assert verb is not None
    return verb, arguments.parse(verbs.find(VERBS, verb), tokens, Inputs(0.0, lambda: b""))[0]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (command("get", "tea"), "dreamctl get tea"),
        (command("get", "no such; rm"), "dreamctl get 'no such; rm'"),
        (command("context", "s", scope="a/b"), "dreamctl context s --scope a/b"),
        (command("update", "tea", expires_at="+30d"), "dreamctl update tea --expires-at +30d"),
        (command("forget_scope", "a", confirm="a", hard=True), "dreamctl forget_scope a --confirm a --hard"),
        (command("forget_scope", "a", confirm="a", hard=False), "dreamctl forget_scope a --confirm a"),
        (command("get", "--hard", scope="-x"), "dreamctl get --scope=-x -- --hard"),
    ],
)
def test_a_line_reads_as_a_person_would_write_it(line: str, shown: str) -> None:
    assert line == shown


@given(words, words, words)
@example("--hard", "-k", "$(id)")
@example("'", '"', "`;|&\n")
def test_a_shell_gives_every_word_back_as_it_was(session: str, content: str, scope: str) -> None:
    line = command("add_turn", session, content, scope=scope)

    assert read(line) == ("add_turn", {"session": session, "content": content, "scope": scope})
