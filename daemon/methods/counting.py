"""Counting and cutting texts by their tokens, in the embedding lane: what is long in turns, behind what is more urgent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from daemon.parts import Parts
from storage.embed import BATCH_BYTES
from storage.gate import Turns
from storage.tokens import TokenCounter

TURN_CHARS: Final = 64_000  # counted in one turn: about 25 ms


class Cut(NamedTuple):
    """A text that is to be cut, and to how many tokens; or what it became, and how many it has."""

    text: str
    tokens: int


async def counted(parts: Parts, texts: Sequence[str], *, most: int | None = None) -> list[int]:
    """How many tokens each text has; beyond `most`, some number beyond that."""
    if not texts:
        return []
    if sum(map(len, texts)) <= BATCH_BYTES:
        return await parts.embedding.run(_count, parts.tokens, texts, most)
    return await parts.embedding.run_in_turns(_count_in_turns(parts.tokens, texts, most))


async def cut(parts: Parts, wanted: Sequence[Cut]) -> list[Cut]:
    """Each text cut to its tokens, and how many that leaves it."""
    if not wanted:
        return []
    return await parts.embedding.run_in_turns(_cut_in_turns(parts.tokens, wanted))


def _count(counter: TokenCounter, texts: Sequence[str], most: int | None) -> list[int]:
    return [counter.count(text, most=most) for text in texts]


def _count_in_turns(counter: TokenCounter, texts: Sequence[str], most: int | None) -> Turns[list[int]]:
    counts: list[int] = []
    for part in _parts(texts):
        counts += _count(counter, part, most)
        yield
    return counts


def _cut_in_turns(counter: TokenCounter, wanted: Sequence[Cut]) -> Turns[list[Cut]]:
    left: list[Cut] = []
    for text, tokens in wanted:
        short = counter.cut(text, tokens)
        left.append(Cut(short, counter.count(short)))
        yield
    return left


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in their order, so many at a time as one turn counts."""
    part: list[str] = []
    size = 0
    for text in texts:
        if part and size + len(text) > TURN_CHARS:
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield part
