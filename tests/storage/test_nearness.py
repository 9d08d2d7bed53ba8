"""Blocked products find exactly the pairs that are near, and the nearest of all that are offered are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.embed import Rows
from storage.nearness import BLOCK, STRIP, Found, Marks, Nearest, Pairs, among, near, pair_marks, products, standing

IDS = [f"m{n:02}" for n in range(40)]


def rows(count: int, seed: int) -> Rows:
    """Unit rows in few directions, so that many are near to each other."""
    dice = np.random.default_rng(seed)
    some = dice.standard_normal((count, 6)).astype(np.float32)
    unit: Rows = some / np.linalg.norm(some, axis=1, keepdims=True)
    return unit


def found(one: Rows, other: Rows, least: float, *, same: bool) -> list[tuple[int, int]]:
    return [
        pair
        for block in products(one, other, same=same)
        for pairs in near(block, least)
        for pair in zip(pairs.one.tolist(), pairs.other.tolist(), strict=True)
    ]


def is_all_that_is_near(pairs: list[tuple[int, int]], cosines: Rows, least: float) -> bool:
    """Whether these are the pairs of a whole product; where it is as exact as float32, either will do."""
    surely, perhaps = (set(map(tuple, np.argwhere(cosines >= least + step).tolist())) for step in (1e-6, -1e-6))
    return len(set(pairs)) == len(pairs) and surely <= set(pairs) <= perhaps


@pytest.mark.parametrize("count", [1, 2, STRIP + 1, BLOCK, 2 * BLOCK + 3])
def test_of_one_matrix_each_near_pair_is_found_once(count: int) -> None:
    some = rows(count, count)

    assert is_all_that_is_near(found(some, some, 0.98, same=True), np.triu(some @ some.T, 1), 0.98)


@pytest.mark.parametrize(("one", "other"), [(1, BLOCK + 5), (BLOCK + 5, 1), (STRIP, BLOCK + STRIP), (7, 0), (0, 7)])
def test_of_two_matrices_every_near_pair_is_found(one: int, other: int) -> None:
    mine, yours = rows(one, 1), rows(other, 2)

    assert is_all_that_is_near(found(mine, yours, 0.97, same=False), mine @ yours.T, 0.97)


def test_a_cosine_is_never_above_one_and_a_row_of_zeros_is_near_to_nothing() -> None:
    some = np.vstack([rows(1, 1), rows(1, 1), np.zeros((2, 6), np.float32)]) * np.float32(1.0004)
    (pairs,) = near(next(products(some, some, same=True)), 0.75)

    assert pairs.cosine.tolist() == [1.0]
    assert (pairs.one.tolist(), pairs.other.tolist()) == ([0], [1])


indexes = st.integers(0, len(IDS) - 1)
offered = st.tuples(indexes, indexes, st.sampled_from([0.75, 0.8, 0.9, 1.0])).filter(lambda one: one[0] != one[1])
offers = st.lists(st.lists(offered, max_size=30), max_size=5)


def pairs_of(some: list[tuple[int, int, float]]) -> Pairs:
    one, other, cosine = zip(*some, strict=True) if some else ((), (), ())
    return Pairs(np.array(one, np.intp), np.array(other, np.intp), np.array(cosine))


@settings(deadline=None)
@given(offers, st.integers(0, 12))
def test_the_nearest_of_all_are_kept_in_whatever_order_they_come(
    some: list[list[tuple[int, int, float]]], room: int
) -> None:
    nearest = Nearest(room)
    for part in some:
        nearest.offer("s", IDS, pairs_of(part))
    every = [
        Found(cosine, *sorted((IDS[one], IDS[other])), "s", IDS[one]) for part in some for one, other, cosine in part
    ]
    ranked = sorted(every, key=lambda one: (-one.cosine, one.a, one.b))

    assert [one[:3] for one in nearest.found] == [one[:3] for one in ranked[:room]]
    assert nearest.left_out == len(every) - len(nearest.found)
    kept = list(nearest.found)
    left = [one for one in every if one not in kept or kept.remove(one)]  # type: ignore[func-returns-value]
    assert nearest.missing == {one.looked_at for one in left}


def test_without_room_all_is_left_out() -> None:
    nearest = Nearest(-3)
    nearest.offer("s", IDS, pairs_of([(3, 1, 0.9), (2, 4, 1.0)]))

    assert (nearest.found, nearest.left_out, nearest.missing) == ([], 2, {"m03", "m02"})


halves = st.lists(st.integers(0, 2**31 - 1), unique=True, min_size=9, max_size=9)


def as_marks(some: list[int]) -> Marks:
    return np.array(some, np.int64)


@settings(deadline=None)
@given(halves, halves, st.integers(3, 9))
def test_a_mark_of_a_pair_stands_as_long_as_both_are_there(upper: list[int], lower: list[int], count: int) -> None:
    some = [(-high if high % 2 else high) << 32 | low for high, low in zip(upper, lower, strict=True)][:count]
    marks = as_marks(some)
    one, other = np.triu_indices(len(some), 1)
    pairs = pair_marks(marks, one, other)

    assert (pair_marks(marks, other, one) == pairs).all()
    assert len(set(pairs.tolist())) == len(pairs)
    assert standing(pairs, marks).all()
    assert (standing(pairs, marks[1:]) == (one != 0)).all()
    assert not standing(pairs, marks[:1]).any()


@settings(deadline=None)
@given(st.lists(st.integers(-9, 9)), st.sets(st.integers(-9, 9)))
def test_what_is_among_the_known(some: list[int], known: set[int]) -> None:
    assert among(as_marks(some), as_marks(sorted(known))).tolist() == [one in known for one in some]
