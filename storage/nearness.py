"""Nearness: which rows of two matrices are near to each other, and the nearest pairs of all that were looked at.

Products are made in blocks, so that the memory they take does not grow with the matrices: a block of float32 is 16 MiB, and
its pairs are taken out of it a strip at a time, 25 MiB at most. Rows are of unit length, so a product is a cosine; a row of
zeros is near to nothing. The interpreter's lock is free while a block is multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.embed import Rows

Indexes = NDArray[np.intp]
Flags = NDArray[np.bool_]
Marks = NDArray[np.int64]

BLOCK: Final = 2048  # rows and columns of one product
STRIP: Final = 256  # rows of it that are looked at together
DIGITS: Final = 4  # of a cosine that is kept: float16 rows are no more exact

_LOW: Final = np.int64(0xFFFFFFFF)


class Block(NamedTuple):
    """A product of some rows of one matrix with some of another, and where they begin."""

    cosines: Rows
    row: int
    column: int


class Pairs(NamedTuple):
    """Pairs of indexes, and how near they are; all of equal length."""

    one: Indexes
    other: Indexes
    cosine: NDArray[np.float64]

    def where(self, chosen: Flags | Indexes) -> Pairs:
        """Some of them."""
        return Pairs(self.one[chosen], self.other[chosen], self.cosine[chosen])


def products(one: Rows, other: Rows, *, same: bool = False) -> Iterator[Block]:
    """Blocks that cover all pairs of a row of `one` and a row of `other`, each valid until the next is taken.

    Where they are the `same` matrix each unordered pair occurs once, and no row with itself; what else such a block holds
    is -1.
    """
    space = np.empty((BLOCK, BLOCK), np.float32)
    for row in range(0, len(one), BLOCK):
        rows = one[row : row + BLOCK]
        for column in range(row if same else 0, len(other), BLOCK):
            columns = other[column : column + BLOCK]
            cosines = np.matmul(rows, columns.T, out=space[: len(rows), : len(columns)])
            if same and row == column:
                cosines[np.tri(len(rows), dtype=bool)] = -1.0
            yield Block(cosines, row, column)


def near(block: Block, least: float) -> Iterator[Pairs]:
    """The pairs of a block whose cosine is at least that, as indexes into both matrices, a strip at a time."""
    for start in range(0, len(block.cosines), STRIP):
        strip = block.cosines[start : start + STRIP]
        rows, columns = np.divmod(np.flatnonzero(strip >= np.float32(least)), strip.shape[1])
        if len(rows):
            cosines = np.minimum(np.round(strip[rows, columns].astype(np.float64), DIGITS), 1.0)
            yield Pairs(rows + (block.row + start), columns + block.column, cosines)


def pair_marks(marks: Marks, one: Indexes, other: Indexes) -> Marks:
    """A mark for each pair: the upper half of the mark of the one with the lower index, the lower half of the other's.

    So it can be told of a pair whether both are still there, without knowing which they were (`standing`).
    """
    marked: Marks = (marks[np.minimum(one, other)] & ~_LOW) | (marks[np.maximum(one, other)] & _LOW)
    return marked


def standing(pairs: Marks, marks: Marks) -> Flags:
    """Which marks of pairs are of two that are among `marks`."""
    upper = np.isin(pairs & ~_LOW, marks & ~_LOW)
    both: Flags = upper & np.isin(pairs & _LOW, marks & _LOW)
    return both


def among(marks: Marks, known: Marks) -> Flags:
    """Which of the marks are among those known, which are sorted."""
    if not len(known):
        return np.zeros(len(marks), bool)
    places = np.minimum(np.searchsorted(known, marks), len(known) - 1)
    found: Flags = known[places] == marks
    return found


class Found(NamedTuple):
    """A pair in the order of its ids; `looked_at` is the one for whose sake it was found."""

    cosine: float
    a: str
    b: str
    scope: str
    looked_at: str


class Nearest:
    """The nearest of all pairs that are offered, so many and no more; of two as near the one with the lesser ids.

    What is offered first has no advantage. `left_out` counts the others, and `missing` names those for whose sake they had
    been found: who wants to see them again looks at these again.
    """

    def __init__(self, room: int) -> None:
        self.room = max(room, 0)
        self.found: list[Found] = []  # nearest first
        self.left_out = 0
        self.missing: set[str] = set()

    def offer(self, scope: str, ids: Sequence[str], pairs: Pairs) -> None:
        """Take up what is near enough; `ids`, in their order, are what the indexes stand for."""
        full = len(self.found) == self.room
        floor = (self.found[-1].cosine if self.found else np.inf) if full else -np.inf
        self._leave(ids, pairs.where(pairs.cosine < floor))
        pairs = pairs.where(pairs.cosine >= floor)
        low, high = np.minimum(pairs.one, pairs.other), np.maximum(pairs.one, pairs.other)
        order = np.lexsort((high, low, -pairs.cosine))
        self._leave(ids, pairs.where(order[self.room :]))
        for n in order[: self.room]:
            ends = ids[low[n]], ids[high[n]]
            self.found.append(Found(float(pairs.cosine[n]), *ends, scope, ids[pairs.one[n]]))
        self.found.sort(key=_rank)
        self._drop(self.found[self.room :])
        del self.found[self.room :]

    def _leave(self, ids: Sequence[str], pairs: Pairs) -> None:
        self.left_out += len(pairs.one)
        self.missing.update(ids[n] for n in np.unique(pairs.one))

    def _drop(self, found: Sequence[Found]) -> None:
        self.left_out += len(found)
        self.missing.update(one.looked_at for one in found)


def _rank(one: Found) -> tuple[Any, ...]:
    return -one.cosine, one.a, one.b
