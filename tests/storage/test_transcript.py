"""A conversation as the text of one memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.model import MAX_CONTENT_BYTES, MAX_CONTEXT_BYTES
from storage.talk import Turn
from storage.transcript import transcript


def turns(*said: str, role: str = "user") -> list[Turn]:
    return [
        Turn(id=str(number), scope="s", session="t", role=role, at=float(number), content=content)
        for number, content in enumerate(said)
    ]


def test_a_conversation_is_a_line_a_turn_with_who_spoke() -> None:
    said = [*turns("what is it?"), *turns("tea", role="assistant")]

    assert transcript(said, 2) == ("user: what is it?\nassistant: tea", "")


def test_what_a_memory_cannot_show_is_in_its_context_and_a_last_line_says_so() -> None:
    said = turns(*["x" * 1000] * 400)

    content, context = transcript(said, 400)

    lines = content.split("\n")
    assert context == "\n".join(["user: " + "x" * 1000] * 400)
    assert lines[-1] == f"(400 turns: {400 - len(lines) + 1} more in the context only)"
    assert "\n".join(lines[:-1]) + "\n" == context[: len(content) - len(lines[-1])]
    assert len(content.encode()) <= MAX_CONTENT_BYTES
    assert len(content.encode()) > MAX_CONTENT_BYTES - 1500


def test_what_a_context_cannot_hold_either_is_counted_too() -> None:
    said = turns(*["x" * 100_000] * 20)

    content, context = transcript(said, 20)

    assert context.count("\n") == 9
    assert content.split("\n")[-1] == "(20 turns: 8 more in the context only; 10 more in the session only)"


def test_a_first_turn_that_is_too_long_alone_is_cut_between_two_characters() -> None:
    said = turns("語" * (MAX_CONTENT_BYTES // 3))

    content, context = transcript(said, 1)

    shown, note = content.split("\n")
    assert note == "(1 turn: the turn above is whole in the context only)"
    assert context.startswith(shown)
    assert context == f"user: {said[0].content}"


def test_no_more_is_read_than_a_memory_may_keep() -> None:
    """A session of many megabytes must not be in RAM at once."""
    read: list[str] = []

    def reading() -> Iterator[Turn]:
        for turn in turns(*["x" * 100_000] * 50):
            read.append(turn.id)
            yield turn

    transcript(reading(), 50)

    assert len(read) == 11


@settings(max_examples=30)
@given(st.lists(st.integers(1, MAX_CONTENT_BYTES), min_size=1, max_size=8), st.sampled_from(["x", "é", "語"]))
def test_both_texts_keep_their_limits_and_the_order_of_what_was_said(sizes: list[int], letter: str) -> None:
    said = turns(*[letter * (size // len(letter.encode()) or 1) for size in sizes])

    content, context = transcript(said, len(said))

    assert len(content.encode()) <= MAX_CONTENT_BYTES
    assert len(context.encode()) <= MAX_CONTEXT_BYTES
    whole = "\n".join(f"user: {turn.content}" for turn in said)
    assert whole.startswith(context or content)
    assert context == "" or whole.startswith(content.rsplit("\n", 1)[0])


@pytest.mark.parametrize("over", [0, 1])
def test_the_border_is_the_limit_itself(over: int) -> None:
    said = turns("x" * 1000, "x" * (MAX_CONTENT_BYTES - 1000 - len("user: \nuser: ") + over))

    content, context = transcript(said, 2)

    assert bool(context) is bool(over)
    assert (len(content) == MAX_CONTENT_BYTES) is not bool(over)
