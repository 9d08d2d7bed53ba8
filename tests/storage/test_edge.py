"""Asking the embedded engine: retrieve, scroll and search, what a filter means, opening and closing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.edge import EdgeEngine
from storage.engine import Collection, Condition, Query, Sparse
from storage.errors import Invalid, Unavailable
from storage.keywords import KeywordEncoder
from tests.storage.edge_writer import EDGES, MEMORIES, contents, identity, open_engine, point

M = MEMORIES.name
A, B, C = (identity(letter) for letter in "abc")


@pytest.fixture
def engine(tmp_path) -> Iterator[EdgeEngine]:
    engine = open_engine(tmp_path / "store")
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[EdgeEngine]:
    """One engine for all examples of a property."""
    engine = open_engine(tmp_path_factory.mktemp("shared") / "store")
    yield engine
    engine.close()


def texts(engine: EdgeEngine, written: dict[str, str], scope: str = "default") -> None:
    """Store each text under the id that its key names."""
    encoder = KeywordEncoder()
    engine.upsert(
        M,
        [
            point(identity(key), {"scopes": [scope]})._replace(text=encoder.document(text))
            for key, text in written.items()
        ],
    )


def test_vectors_come_back_at_half_precision_with_their_terms(engine) -> None:
    written = point(A, {"n": 1}, terms=(5, 900))
    engine.upsert(M, [written, point(B)._replace(text=Sparse((), ())), point(C)._replace(text=None)])

    read = engine.retrieve(M, [A, B, C], vectors=True)

    assert read[A].dense.dtype == np.float32
    assert read[A].dense == pytest.approx(written.dense, abs=1e-3)
    assert read[A].text == written.text
    assert not read[B].text.indices
    assert read[C].text is None or not read[C].text.indices
    assert engine.retrieve(M, [A])[A].dense is None


def test_retrieve_gives_the_points_that_exist_and_the_fields_asked_for(engine) -> None:
    engine.upsert(M, [point(A, {"n": 1, "a.b": 2, "a": {"b": 3}}), point(B, {"n": 2})])

    assert engine.retrieve(M, [B, C, A, B]).keys() == {A, B}
    assert engine.retrieve(M, [A], fields=["n", "missing"])[A].payload == {"n": 1}
    assert engine.retrieve(M, [A], fields=["a.b"])[A].payload == {"a.b": 2}
    assert engine.retrieve(M, [A], fields=[])[A].payload == {}
    assert engine.retrieve(M, []) == {}
    with pytest.raises(Invalid):
        engine.retrieve(M, ["no UUID"])


def test_scroll_gives_every_point_once_in_batches_in_the_order_of_ids(engine) -> None:
    ids = sorted(identity("scroll", n) for n in range(25))
    engine.upsert(M, [point(letter) for letter in ids])

    batches = [[record.id for record in batch] for batch in engine.scroll(M, batch=10)]

    assert [len(batch) for batch in batches] == [10, 10, 5]
    assert list(itertools.chain(*batches)) == ids
    assert list(engine.scroll(EDGES.name)) == []


def test_one_search_answers_every_leg_in_order_and_skips_those_that_cannot_match(engine) -> None:
    engine.upsert(M, [point(A, seed=1, terms=(1,)), point(B, seed=2, terms=(2,))])
    one, two = point(A, seed=1).dense, point(B, seed=2).dense

    found = engine.search(
        M,
        [
            Query(one, None, 1),
            Query(Sparse((), ()), None, 5),
            Query(Sparse((2,), (1.0,)), Condition(), 5),
            Query(two, Condition(ids=frozenset()), 5),
            Query(two, Condition(sensitivities=()), 5),
            Query(two, None, 0),
            Query(two, Condition(ids=frozenset({A, C})), 5),
        ],
    )

    assert [[hit.id for hit in hits] for hits in found] == [[A], [], [B], [], [], [], [A]]
    assert found[0][0].score == pytest.approx(1.0, abs=1e-3)
    assert engine.search(M, []) == []
    assert list(engine.scroll(M, condition=Condition(ids=frozenset()))) == []


@pytest.mark.parametrize("vector", [np.zeros(8), np.full(8, np.nan), np.ones(7)])
def test_a_query_by_a_vector_without_direction_or_of_another_length_is_refused(engine, vector) -> None:
    engine.upsert(M, [point(A)])

    with pytest.raises(Invalid):
        engine.search(M, [Query(vector.astype(np.float32), None, 5)])
    with pytest.raises(Invalid):
        engine.search(EDGES.name, [Query(point(A).dense, None, 5)])


SCOPES, TAGS, LEVELS = ("a", "a/b", "c"), ("red", "green", "blue"), ("public", "personal", "secret")
payloads = st.fixed_dictionaries(
    {
        "scopes": st.lists(st.sampled_from(SCOPES), unique=True),
        "tags": st.lists(st.sampled_from(TAGS), unique=True),
        "sensitivity": st.sampled_from(LEVELS),
    },
    optional={"owner": st.sampled_from(("alice", "bob"))},
)
restrictions = {
    "scope": st.sampled_from(SCOPES),
    "tags": st.lists(st.sampled_from(TAGS), min_size=1, max_size=2).map(tuple),
    "tags_any": st.lists(st.sampled_from(TAGS), min_size=1, max_size=2).map(tuple),
    "sensitivities": st.lists(st.sampled_from(LEVELS), max_size=2).map(tuple),
    "ids": st.frozensets(st.integers(0, 7).map(lambda n: identity("filter", n))),
    "owner": st.sampled_from(("alice", "bob")),
}
# Two at a time: what all of them leave is nearly always nothing.
conditions = st.lists(st.sampled_from(sorted(restrictions)), max_size=2, unique=True).flatmap(
    lambda names: st.builds(Condition, **{name: restrictions[name] for name in names})
)


def meets(point_id: str, payload: dict, condition: Condition) -> bool:
    """The condition, evaluated in plain Python."""
    return (
        (condition.scope is None or condition.scope in payload["scopes"])
        and set(condition.tags) <= set(payload["tags"])
        and (not condition.tags_any or bool(set(condition.tags_any) & set(payload["tags"])))
        and (condition.sensitivities is None or payload["sensitivity"] in condition.sensitivities)
        and (condition.ids is None or point_id in condition.ids)
        and (condition.owner is None or condition.owner == payload.get("owner"))
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(payloads, min_size=4, max_size=8), conditions)
def test_a_condition_means_the_same_to_scroll_to_both_legs_and_to_plain_python(shared, stored, condition) -> None:
    points = {identity("filter", n): payload for n, payload in enumerate(stored)}
    shared.delete(M, [identity("filter", n) for n in range(8)])
    shared.upsert(M, [point(point_id, payload) for point_id, payload in points.items()])
    expected = {point_id for point_id, payload in points.items() if meets(point_id, payload, condition)}

    scrolled = {record.id for batch in shared.scroll(M, condition=condition) for record in batch}
    legs = shared.search(M, [Query(point(A).dense, condition, 99), Query(Sparse((7,), (1.0,)), condition, 99)])

    assert scrolled == expected
    assert [{hit.id for hit in leg} for leg in legs] == [expected, expected]


def test_idf_is_counted_over_the_corpus_alone(engine) -> None:
    """A word that is rare in one scope and common in another weighs by the scope that is asked."""
    ours = [point(identity("ours", n), {"scopes": ["a"]}, terms=(1,) if n else (1, 2)) for n in range(10)]
    theirs = [point(identity("theirs", n), {"scopes": ["b"]}, terms=(2,)) for n in range(90)]
    engine.upsert(M, ours + theirs)
    scope = Condition(scope="a")
    word = Sparse((2,), (1.0,))

    within, overall = engine.search(M, [Query(word, scope, 5, scope), Query(word, scope, 5)])

    def idf(holding: int, total: int) -> float:
        return math.log(1 + (total - holding + 0.5) / (holding + 0.5))

    assert [hit.id for hit in within] == [hit.id for hit in overall] == [identity("ours", 0)]
    assert within[0].score == pytest.approx(idf(1, 10), rel=1e-3)
    assert overall[0].score == pytest.approx(idf(91, 100), rel=1e-3)


@pytest.mark.parametrize(
    ("query", "expected"),
    [("成语接龙", "zh"), ("끝말잇기", "ko"), ("しりとり", "ja"), ("dragon 接龙", "mixed"), ("word chain", "en")],
)
def test_the_keyword_leg_alone_finds_chinese_japanese_korean_and_mixed_texts_first(engine, query, expected) -> None:
    texts(
        engine,
        {
            "zh": "今天玩成语接龙游戏",
            "ko": "오늘 끝말잇기 게임을 했다",
            "ja": "今日は成語しりとりをした",
            "mixed": "the dragon 接龙 tournament",
            "en": "today we played a word chain game",
            "other": "nothing of that kind, 完全不同",
        },
    )

    (hits,) = engine.search(M, [Query(KeywordEncoder().query(query), None, 3)])

    assert hits[0].id == identity(expected)


def test_reopening_keeps_points_vectors_and_indexes_and_adds_an_index_that_is_new(tmp_path) -> None:
    plain = Collection(M, 8)
    engine = open_engine(tmp_path, [plain])
    engine.upsert(M, [point(A, {"scopes": ["a"], "tags": ["x"]}, seed=3)])
    engine.close()

    engine = open_engine(tmp_path, [MEMORIES, EDGES])
    by_tag = Query(point(A, seed=3).dense, Condition(scope="a", tags=("x",)), 5)
    (hits,) = engine.search(M, [by_tag])

    assert engine.counts() == {M: 1, EDGES.name: 0}
    assert hits[0].id == A
    assert hits[0].score == pytest.approx(1.0, abs=1e-3)


def test_a_store_of_another_dimension_is_refused_with_the_way_out(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(A)])
    engine.close()

    with pytest.raises(Invalid, match="8 numbers") as refusal:
        open_engine(tmp_path, [Collection(M, 16)])

    assert refusal.value.hint == "dreamctl reindex"
    assert open_engine(tmp_path).count(M) == 1


def test_close_may_be_called_twice_and_ends_everything_else(tmp_path) -> None:
    engine = open_engine(tmp_path)
    engine.upsert(M, [point(A)])
    pages = engine.scroll(M)

    engine.close()
    engine.close()

    for call in (
        lambda: engine.upsert(M, [point(B)]),
        lambda: engine.count(M),
        lambda: next(pages),
        engine.flush,
        lambda: engine.vacuum(M),
    ):
        with pytest.raises(Unavailable, match="closed"):
            call()
    assert contents(open_engine(tmp_path)).keys() == {A}
