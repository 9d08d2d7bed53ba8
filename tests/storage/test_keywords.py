from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.engine import Sparse
from storage.keywords import SETTINGS, KeywordEncoder

NOTHING = Sparse((), ())


@pytest.fixture(scope="module")
def encoder():
    return KeywordEncoder()


def score(encoder: KeywordEncoder, query: str, document: str) -> float:
    terms = dict(zip(*encoder.document(document), strict=True))
    return sum(weight * terms.get(index, 0.0) for index, weight in zip(*encoder.query(query), strict=True))


GAMES = {
    "zh": "今天玩成语接龙游戏",
    "ko": "오늘 끝말잇기 게임을 했다",
    "ja": "今日は成語しりとりをした",
    "th": "วันนี้เล่นเกมต่อคำ",
    "mixed": "Friday: the 预算 meeting moved to room 4b",
    "en": "They were playing word games today",
}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("成语接龙", "zh"),
        ("接龙游戏", "zh"),
        ("끝말잇기", "ko"),
        ("しりとり", "ja"),
        ("ต่อคำ", "th"),
        ("เกม", "th"),
        ("预算", "mixed"),
        ("budget meetings", "mixed"),
        ("room 4B", "mixed"),
        ("a game of words", "en"),
    ],
)
def test_a_word_of_any_script_finds_its_text_first(encoder, query, found):
    """Cases #70: no run of characters is one word, and none is dropped."""
    scores = {name: score(encoder, query, text) for name, text in GAMES.items()}

    assert scores[found] > 0
    assert all(scores[found] > other for name, other in scores.items() if name != found)


@pytest.mark.parametrize("text", ["", " \n", "the", "of the and to", "😀", "!?", "\x00"])
def test_text_without_a_term_gives_an_empty_vector(encoder, text):
    assert encoder.document(text) == NOTHING
    assert encoder.query(text) == NOTHING


def test_case_and_english_endings_do_not_matter(encoder):
    assert encoder.query("Running") == encoder.query("runs")
    assert encoder.query("CAFÉ") == encoder.query("café")


def test_repeated_terms_weigh_more_but_less_and_less(encoder):
    once, twice, often = (encoder.document("nuts" + " nuts" * more).values[0] for more in (0, 1, 9))

    assert once < twice < often < 2.2  # k + 1
    assert twice - once < once


def test_a_term_weighs_less_in_a_longer_text(encoder):
    short = score(encoder, "nuts", "nuts")
    long = score(encoder, "nuts", "nuts " + " ".join(f"word{n}" for n in range(500)))

    assert 0 < long < short


def test_each_query_term_counts_once(encoder):
    assert set(encoder.query("nuts nuts bread").values) == {1.0}
    assert len(encoder.query("nuts nuts bread").indices) == 2


@given(st.text(st.characters(codec="utf-8"), max_size=200))
def test_term_ids_rise_without_repeats_and_weights_are_positive(text):
    encoder = KeywordEncoder()
    for indices, values in (encoder.document(text), encoder.query(text)):
        assert list(indices) == sorted(set(indices))
        assert len(indices) == len(values)
        assert all(value > 0 for value in values)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
def test_a_text_has_the_terms_of_its_own_query(text):
    encoder = KeywordEncoder()

    assert encoder.document(text).indices == encoder.query(text).indices


@pytest.mark.parametrize(
    "unit", ["nuts and bread ", "a", "ab1+", "今天玩成语接龙游戏", "しりとりをした", "끝말잇기", "วันนี้เล่นเกมต่อคำ", "😀"]
)
def test_texts_of_the_greatest_length_can_be_encoded(encoder, unit):
    text = unit * (256 * 1024 // len(unit.encode()))

    assert encoder.document(text).indices == encoder.query(text).indices


def test_a_number_is_a_term_of_its_own_in_any_script_of_digits() -> None:
    encoder = KeywordEncoder()
    stored = dict(zip(*encoder.document("my locker is 317, opened at 10:45 on 2026-05-04"), strict=True))

    for asked, found in (("locker 317", 2), ("３１７", 1), ("0317", 1), ("45", 1), ("2026", 1), ("3170", 0), ("31", 0)):
        terms = encoder.query(asked)
        assert len(stored.keys() & set(terms.indices)) == found, asked
    assert encoder.document("317") == encoder.document("317 317 317")
    assert all(weight > 0 for weight in stored.values())


def test_the_settings_name_what_the_weights_depend_on():
    assert SETTINGS == "bm25 multilingual k=1.2 b=0.75 avg_len=256 language=english numbers"
