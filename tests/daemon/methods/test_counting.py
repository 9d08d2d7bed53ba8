"""Counting and cutting many texts, in turns."""

from __future__ import annotations

import asyncio

import pytest

from daemon.methods.counting import TURN_CHARS, Cut, counted, cut
from tests.harness import Daemon

LINE = "one two three four five six seven eight nine ten "


@pytest.mark.parametrize("sizes", [[], [1], [1, 0, 3], [2000] * 5, [TURN_CHARS // 40, 1, 1, TURN_CHARS // 20, 1]])
def test_each_text_has_its_own_count_however_many_turns_it_takes(shared: Daemon, sizes: list[int]) -> None:
    texts = [(LINE * size).strip() for size in sizes]

    assert shared.run(counted(shared.parts, texts)) == [10 * size for size in sizes]


def test_counts_are_exact_up_to_what_matters(shared: Daemon) -> None:
    texts = [LINE.strip(), (LINE * 20_000).strip(), "one"]

    counts = shared.run(counted(shared.parts, texts, most=10))

    assert (counts[0], counts[2]) == (10, 1)
    assert 10 < counts[1] < 200_000


def test_each_text_is_cut_to_its_own_size_and_counted_again(shared: Daemon) -> None:
    wanted = [Cut(LINE * 500, 4), Cut("one two", 9), Cut("👩‍👩‍👧👩‍👩‍👧", 20), Cut("one", 0)]

    left = shared.run(cut(shared.parts, wanted))

    assert left == [Cut("one two three four", 4), Cut("one two", 2), Cut("👩‍👩‍👧", 15), Cut("", 0)]
    assert shared.run(cut(shared.parts, [])) == []


def test_long_texts_are_counted_behind_what_is_more_urgent(shared: Daemon) -> None:
    """A question that comes meanwhile waits for one turn at most."""
    shared.remember("the harbour opens at dawn")
    order: list[str] = []

    async def both() -> None:
        async def count() -> None:
            await counted(shared.parts, [LINE * (TURN_CHARS // 50)] * 40)
            order.append("counted")

        async def ask() -> None:
            await shared.parts.embedding.run(shared.parts.gate.question, "harbour")
            order.append("asked")

        await asyncio.gather(count(), ask())

    shared.run(both())

    assert order == ["asked", "counted"]
