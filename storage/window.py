"""Which turns of a conversation fit a budget of tokens, and what each scores. Pure.

    score of turn i of n       linear       m + (1 - m) · i / (n - 1)
                               exponential  (e^(r · i / (n - 1)) - 1) / (e^r - 1)
                               a lone turn scores 1

    turns leave until the rest fits
                               fifo         the oldest first
                               importance   the least important first, of equals the oldest
                               paired       as fifo, a user's turn together with the assistant's right after it

What is left alone and still too long is cut: a pair shares the budget, so that neither turn is there without the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Eviction = Literal["fifo", "importance", "paired"]
Recency = Literal["linear", "exponential"]

EVICTIONS: Final = ("fifo", "importance", "paired")


class Piece(NamedTuple):
    """What a window needs to know of a turn."""

    role: str
    tokens: int
    importance: float = 0.5


def linear(place: int, count: int, least: float) -> float:
    """The score of turn `place` of `count`, from `least` (0 <= least < 1) for the oldest up to 1."""
    return 1.0 if count <= 1 else least + (1.0 - least) * place / (count - 1)


def exponential(place: int, count: int, rate: float) -> float:
    """The score of turn `place` of `count`, from 0 for the oldest up to 1; the higher the rate (> 0), the steeper.

    Both sides of the fraction are divided by e^rate, which no rate can make too large.
    """
    if count <= 1:
        return 1.0
    share = place / (count - 1)
    return math.exp(rate * (share - 1.0)) * math.expm1(-rate * share) / math.expm1(-rate)


def window(pieces: Sequence[Piece], budget: int, eviction: Eviction) -> dict[int, int]:
    """The places of the turns that stay, in order, and how many tokens each may take: all that it has, unless it is cut."""
    groups = _groups(pieces, paired=eviction == "paired")
    if eviction == "importance":
        groups.sort(key=lambda group: (pieces[group[0]].importance, group[0]))
    left = sum(piece.tokens for piece in pieces)
    leaving = 0
    while left > budget and leaving < len(groups) - 1:
        left -= sum(pieces[place].tokens for place in groups[leaving])
        leaving += 1
    staying = sorted(place for group in groups[leaving:] for place in group)
    if left <= budget:
        return {place: pieces[place].tokens for place in staying}
    shares = _shared([pieces[place].tokens for place in staying], budget)
    return dict(zip(staying, shares, strict=True)) if min(shares) > 0 else {}


def best(costs: Sequence[int], budget: int) -> list[int]:
    """The places of the facts that stay, of facts in falling order: what alone exceeds the budget goes, then the lowest."""
    staying = [place for place, tokens in enumerate(costs) if tokens <= budget]
    left = sum(costs[place] for place in staying)
    while left > budget:
        left -= costs[staying.pop()]
    return staying


def _groups(pieces: Sequence[Piece], *, paired: bool) -> list[list[int]]:
    """The places that leave together, in order."""
    groups: list[list[int]] = []
    for place, piece in enumerate(pieces):
        answers = paired and piece.role == "assistant" and place > 0 and pieces[place - 1].role == "user"
        if answers:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _shared(needed: Sequence[int], budget: int) -> list[int]:
    """What one turn or a pair gets of a budget that is too small for it: who needs less than half gets all of that."""
    if len(needed) == 1:
        return [budget]
    first, second = needed
    half = budget // 2
    if first <= half:
        return [first, budget - first]
    return [budget - min(second, budget - half), min(second, budget - half)]
