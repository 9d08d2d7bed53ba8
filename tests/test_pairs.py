"""The labelled pairs: no two that differ are ever merged, and nearly all that are written alike are."""

from __future__ import annotations

from collections import Counter

import pytest

from storage.gate import Gate
from storage.keywords import KeywordEncoder
from storage.redact import Redactor
from storage.twins import twins
from tests.bench.pairs import Pair, pairs


@pytest.fixture(scope="module")
def suite() -> list[Pair]:
    return pairs(Gate(Redactor({}), None, KeywordEncoder(), levels={}, default="personal"))


def test_the_suite_has_three_hundred_of_each_label_and_no_pair_twice(suite) -> None:
    assert Counter(pair.same for pair in suite) == {True: 300, False: 300}
    assert len({(pair.a.content, pair.b.content, pair.kind) for pair in suite}) == len(suite)


def test_a10_b5_no_two_that_differ_are_twins(suite) -> None:
    wrong = [pair.text for pair in suite if not pair.same and (twins(pair.a, pair.b) or twins(pair.b, pair.a))]

    assert wrong == []


def test_case3_nearly_all_that_differ_in_how_they_are_written_alone_are_twins(suite) -> None:
    alike = [pair for pair in suite if pair.kind == "exact-twin"]
    missed = [pair.text for pair in alike if not twins(pair.a, pair.b)]

    assert len(alike) > 50
    assert len(missed) <= 0.07 * len(alike), missed
