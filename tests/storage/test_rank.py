"""How candidates are scored: golden values of each term, and what holds for all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.model import DAY, HEATS, Memory
from storage.rank import BOOSTS, FLOOR, NAMED_CAP, TERMS, Candidates, Link, Weights, rank, why

NOW = 1_767_225_600.0
OFF = dict.fromkeys(BOOSTS, 0.0)
PLAIN = Weights(factors=OFF)

shares = st.floats(0.0, 1.0)
rows = st.builds(
    Memory,
    session=st.sampled_from(["", "s", "t"]), scope=st.sampled_from(["a", "b"]), asks=st.booleans(), emotion=shares,
    importance=shares, heat=st.sampled_from(HEATS), access_count=st.integers(0, 50), cooled_at_count=st.integers(0, 50),
    created_at=st.floats(NOW - 400 * DAY, NOW + 400 * DAY), updated_at=st.floats(NOW - 400 * DAY, NOW + 400 * DAY),
    id=st.uuids().map(str),
)  # fmt: skip


@st.composite
def candidates(draw) -> Candidates:
    some = draw(st.lists(rows, max_size=8, unique_by=lambda row: row.id))
    n = len(some)
    numbers = st.integers(0, max(n - 1, 0))
    subsets = st.lists(numbers, max_size=n, unique=True)
    links = st.lists(st.builds(Link, numbers, numbers, st.floats(0.0, 0.4)), max_size=10 if n else 0)
    cosine = draw(st.lists(st.floats(-1.0, 1.0), min_size=n, max_size=n))
    bm25 = draw(st.lists(st.floats(0.0, 20.0), min_size=n, max_size=n))
    return Candidates(
        some, np.array(cosine, float), np.array(bm25, float), draw(links), draw(subsets), draw(subsets), draw(subsets)
    )


def ranked(*memories: Memory, cosine=None, bm25=None, weights: Weights = PLAIN, **told):
    n = len(memories)
    columns = [np.zeros(n) if one is None else np.array(one, float) for one in (cosine, bm25)]
    return rank(Candidates(memories, *columns, **told), weights, NOW)


def one(**fields: object) -> Memory:
    return Memory(**{"id": "m", "created_at": NOW, "emotion": 0.0} | fields)


def boost(name: str, **fields: object) -> float:
    return float(ranked(one(**fields), weights=Weights()).terms[name][0])


@pytest.mark.parametrize(("accesses", "golden"), [(0, 0.0), (1, 0.02), (3, 0.06), (7, 0.14), (8, 0.15), (100, 0.15)])
def test_the_boost_for_citations(accesses, golden) -> None:
    """Source: anchor-memory, citation = min(0.02 * usage_count, 0.15)."""
    assert boost("citation", access_count=accesses) == pytest.approx(golden)


@pytest.mark.parametrize(("emotion", "golden"), [(0.0, 0.0), (0.5, 0.05), (0.9, 0.09), (1.0, 0.1)])
def test_the_boost_for_emotion(emotion, golden) -> None:
    """Source: anchor-memory, emotion = 0.1 * emotion_score."""
    assert boost("emotion", emotion=emotion) == pytest.approx(golden)


@pytest.mark.parametrize(("days", "golden"), [(0, 0.05), (15, 0.0353553), (30, 0.025), (60, 0.0125), (365, 0.0000109)])
def test_the_boost_for_recency(days, golden) -> None:
    """Source: anchor-memory, recency = 0.05 * 0.5^(age_days / 30)."""
    assert boost("recency", created_at=NOW - days * DAY) == pytest.approx(golden, abs=1e-6)


def test_recency_counts_from_the_last_edit() -> None:
    assert boost("recency", created_at=NOW - 300 * DAY, updated_at=NOW - 30 * DAY) == pytest.approx(0.025)


@given(st.floats(NOW, NOW + 4e9), st.floats(NOW, NOW + 4e9))
def test_d1_a_memory_from_the_future_is_no_more_recent_than_one_of_now(created, updated) -> None:
    assert boost("recency", created_at=created, updated_at=updated) == Weights().recency


@pytest.mark.parametrize(("importance", "golden"), [(0.0, -0.05), (0.5, 0.0), (1.0, 0.05)])
def test_the_boost_for_importance_is_none_at_the_default(importance, golden) -> None:
    assert boost("importance", importance=importance) == pytest.approx(golden)


@pytest.mark.parametrize(
    ("heat", "accesses", "golden"), [("hot", 0, 0.03), ("warm", 9, 0.0), ("cold", 4, -0.03), ("cold", 5, 0.0)]
)
def test_the_boost_for_heat_takes_a_cold_memory_used_since_for_warm(heat, accesses, golden) -> None:
    assert boost("heat", heat=heat, access_count=accesses, cooled_at_count=4) == pytest.approx(golden)


def test_c4_an_irrelevant_hot_memory_never_outranks_a_relevant_cold_one() -> None:
    hot = one(id="hot", heat="hot", emotion=1.0, importance=1.0, access_count=99)
    cold = one(id="cold", heat="cold", importance=0.0, created_at=NOW - 900 * DAY)

    result = ranked(hot, cold, cosine=[0.1, 0.8], weights=Weights())

    assert result.order == [1, 0]


def test_a_lone_weak_keyword_match_does_not_score_like_a_perfect_one() -> None:
    weak, strong = ranked(one(), bm25=[1.0]), ranked(one(), bm25=[3 * FLOOR])

    assert weak.evidence[0] == pytest.approx(1.0 / FLOOR)
    assert strong.evidence[0] == pytest.approx(1.0)


def test_keyword_scores_count_relative_to_the_best_above_the_floor() -> None:
    result = ranked(one(id="a"), one(id="b"), bm25=[2 * FLOOR, FLOOR])

    assert result.terms["bm25"].tolist() == pytest.approx([1.0, 0.5])


def test_a26_what_matches_no_term_has_no_keyword_score() -> None:
    result = ranked(one(id="a"), one(id="b"), cosine=[0.2, -0.5], bm25=[0.0, 0.0])

    assert result.terms["bm25"].tolist() == [0.0, 0.0]
    assert result.evidence.tolist() == pytest.approx([0.2, 0.0])


def test_neighbours_hand_on_a_share_of_their_base_and_the_greatest_giver_is_named() -> None:
    links = [Link(0, 1, 0.4), Link(0, 2, 0.2), Link(1, 0, 0.4), Link(3, 0, 0.4)]
    result = ranked(*(one(id=str(n)) for n in range(4)), cosine=[0.0, 0.5, 0.8, 0.0], links=links)

    assert result.terms["spread"].tolist() == pytest.approx([0.4 * 0.5 + 0.2 * 0.8, 0.0, 0.0, 0.0])
    assert result.via.tolist() == [1, -1, -1, -1]


def test_what_was_received_is_not_handed_on() -> None:
    result = ranked(
        one(id="a"), one(id="b"), one(id="c"), cosine=[1.0, 0.0, 0.0], links=[Link(1, 0, 0.4), Link(2, 1, 0.4)]
    )

    assert result.terms["spread"].tolist() == pytest.approx([0.0, 0.4, 0.0])


def test_a_session_supports_its_members_by_the_mean_of_its_three_best() -> None:
    in_session = [one(id=str(n), session="s") for n in range(4)]
    other_scope = one(id="x", session="s", scope="other")
    result = ranked(*in_session, other_scope, one(id="y"), cosine=[0.9, 0.6, 0.3, 0.0, 0.5, 0.5])

    assert result.terms["session"].tolist() == pytest.approx([0.3 * 0.6] * 4 + [0.3 * 0.5, 0.0])


def test_a_named_author_counts_more_than_a_mention_and_with_a_date_no_more_than_the_cap() -> None:
    weights = replace(PLAIN, author=0.7)
    result = ranked(*(one(id=str(n)) for n in range(4)), wrote=[0, 1], mentions=[2], dated=[1, 2, 3], weights=weights)

    assert result.terms["entity"].tolist() == pytest.approx([0.7, 0.7, 0.25, 0.0])
    assert result.terms["date"].tolist() == pytest.approx([0.0, NAMED_CAP - 0.7, 0.25, 0.25])


def test_a_question_answers_less_than_a_statement() -> None:
    result = ranked(one(id="a", asks=True), one(id="b"), cosine=[0.5, 0.5])

    assert result.order == [1, 0]
    assert result.evidence.tolist() == pytest.approx([0.4, 0.5])


def test_equal_scores_go_to_the_newer_and_then_to_the_smaller_id() -> None:
    old, new_b, new_a = one(id="c", created_at=NOW - 1), one(id="b"), one(id="a")

    assert ranked(old, new_b, new_a, weights=replace(PLAIN, recency=0.0)).order == [2, 1, 0]


def test_factors_turn_terms_off_and_up_for_one_recall() -> None:
    memory = one(emotion=1.0, access_count=10, heat="hot")
    alone = ranked(memory, cosine=[0.5], weights=Weights(factors=OFF))
    feeling = ranked(memory, cosine=[0.5], weights=Weights(factors=OFF | {"relevance": 0.0, "emotion": 2.0}))

    assert alone.final[0] == pytest.approx(0.5)
    assert feeling.final[0] == pytest.approx(0.2)
    assert feeling.evidence[0] == pytest.approx(0.5)


def test_nothing_to_rank_is_an_empty_ranking() -> None:
    result = ranked(weights=Weights())

    assert list(result.order) == []
    assert len(result.final) == len(result.evidence) == 0


@given(candidates())
def test_the_final_score_is_the_sum_of_the_terms_told(asked) -> None:
    result = rank(asked, Weights(), NOW)

    assert result.final == pytest.approx(np.sum([result.terms[name] for name in TERMS], axis=0) if asked.rows else [])
    for index in range(len(asked.rows)):
        told = why(result, index, "dense", None)
        assert sum(told[name] for name in TERMS) == pytest.approx(told["final"], abs=1e-3)


@given(candidates())
def test_the_order_is_every_candidate_once_by_falling_score(asked) -> None:
    result = rank(asked, Weights(), NOW)

    assert sorted(result.order) == list(range(len(asked.rows)))
    assert (np.diff(result.final[result.order]) <= 0).all() if asked.rows else True


@given(candidates())
def test_boosts_are_bounded_so_that_evidence_decides(asked) -> None:
    """At most 0.38 and at least -0.08 together."""
    result = rank(asked, Weights(), NOW)

    boosts = result.final - result.evidence
    assert (boosts <= 0.15 + 0.1 + 0.05 + 0.05 + 0.03 + 1e-9).all()
    assert (boosts >= -0.05 - 0.03 - 1e-9).all()


@given(candidates(), st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(asked, dice) -> None:
    places = list(range(len(asked.rows)))
    dice.shuffle(places)
    new = {old: place for place, old in enumerate(places)}
    shuffled = Candidates(
        [asked.rows[old] for old in places], asked.cosine[places], asked.bm25[places],
        [Link(new[a], new[b], share) for a, b, share in asked.links],
        *([new[index] for index in numbers] for numbers in (asked.wrote, asked.mentions, asked.dated)),
    )  # fmt: skip

    here, there = rank(asked, Weights(), NOW), rank(shuffled, Weights(), NOW)

    assert there.final == pytest.approx(here.final[places], abs=1e-9)


@given(candidates(), st.integers(0, 7), shares)
def test_a_better_match_never_scores_less(asked, index, gain) -> None:
    if not asked.rows:
        return
    index %= len(asked.rows)
    better = asked.cosine.copy()
    better[index] = min(better[index] + gain, 1.0)

    before, after = rank(asked, Weights(), NOW), rank(asked._replace(cosine=better), Weights(), NOW)

    assert after.final[index] >= before.final[index] - 1e-9
