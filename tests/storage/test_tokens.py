"""Counting tokens, and cutting texts between them."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from storage.errors import Invalid
from storage.model import MAX_CONTENT_BYTES
from storage.tokens import WIDEST, TokenCounter, load_counter

COUNTER = TokenCounter()
FAMILY = "👩‍👩‍👧"


def words_only(**settings: object) -> str:
    """A tokenizer whose tokens are words between spaces."""
    model = {"type": "WordLevel", "vocab": {"tea": 0, "[UNK]": 1}, "unk_token": "[UNK]"}
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None, "model": model, **settings,
    })  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello", 1), ("hello world", 2), ("今日", 3), ("tea  tea", 3), (FAMILY, 15)]
)
def test_a_text_has_as_many_tokens_as_its_tokenizer_makes_and_none_that_open_a_prompt(text: str, tokens: int) -> None:
    assert COUNTER.count(text) == tokens


@given(st.text(max_size=60), st.integers(0, 40))
def test_what_is_cut_is_a_beginning_of_the_text_that_fits_and_is_cut_no_further(text: str, tokens: int) -> None:
    left = COUNTER.cut(text, tokens)

    assert text.startswith(left)
    assert COUNTER.count(left) <= tokens
    assert COUNTER.cut(left, tokens) == left


@given(st.text(max_size=60))
def test_a_text_that_fits_stays_whole(text: str) -> None:
    assert COUNTER.cut(text, COUNTER.count(text)) == text
    assert COUNTER.cut(text, 10**9) == text


@pytest.mark.parametrize(
    "signs",
    [
        ["日", "本", "語"],
        [FAMILY, FAMILY, "👍🏽"],
        ["🇩🇪", "🇫🇷", "🇯🇵"],
        ["e\u0301", "o\u0308\u0304", "n"],
        ["न", "म", "स्", "ते"],
        ["\r\n", "\r\n", "x"],
        ["\u1112\u1161\u11ab", "\u1100\u1173"],
        ["❤️", "x"],
    ],
)
def test_no_cut_divides_what_a_reader_sees_as_one_sign(signs: list[str]) -> None:
    text = "".join(signs)
    whole = {"".join(signs[:count]) for count in range(len(signs) + 1)}

    cuts = {COUNTER.cut(text, tokens) for tokens in range(COUNTER.count(text) + 1)}

    assert cuts <= whole
    assert {"", text} <= cuts


def test_more_marks_on_one_letter_than_any_script_has_are_cut_between_characters() -> None:
    text = "e" + "\u0301" * 1000

    left = COUNTER.cut(text, 100)

    assert text.startswith(left)
    assert 60 < COUNTER.count(left) <= 100


@pytest.mark.parametrize(
    "text",
    [
        "a" * MAX_CONTENT_BYTES,
        " " * MAX_CONTENT_BYTES,
        "ab " * (MAX_CONTENT_BYTES // 3),
        "語" * (MAX_CONTENT_BYTES // 3),
    ],
)
def test_the_longest_text_is_counted_and_cut(text: str) -> None:
    left = COUNTER.cut(text, 1000)

    assert COUNTER.count(text) > 1000
    assert 990 <= COUNTER.count(left) <= 1000


class Noted:
    """A tokenizer that notes how long the texts are that it is given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.lengths: list[int] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._tokenizer, name)

        def noted(texts: list[str], **options: Any) -> Any:
            self.lengths += map(len, texts)
            return call(texts, **options)

        return noted


class Watched(TokenCounter):
    """A counter of which the work can be seen."""

    @cached_property
    def _tokenizer(self) -> Any:
        return Noted(super()._tokenizer)

    @property
    def longest(self) -> int:
        """Characters of the longest text that went through the tokenizer."""
        return max(self._tokenizer.lengths)


def test_no_token_is_wider_than_the_bound_by_which_long_texts_are_known() -> None:
    """A text of more characters than so many tokens could hold has more tokens."""
    vocabulary = TokenCounter()._tokenizer.get_vocab()

    assert max(map(len, vocabulary)) == WIDEST


@given(st.text("ab =\n語🇩", max_size=400) | st.sampled_from([" " * 900, "=" * 900, "a" * 900]), st.integers(0, 40))
def test_a_count_is_exact_up_to_what_matters_and_beyond_that_it_is_more(text: str, most: int) -> None:
    counted = COUNTER.count(text, most=most)

    assert (counted if counted <= most else most + 1) == min(COUNTER.count(text), most + 1)


@given(st.text("ab =\n語🇩", max_size=400), st.integers(0, 40))
def test_a_long_text_is_cut_as_its_beginning_is(text: str, tokens: int) -> None:
    left = COUNTER.cut(text + "x" * 2000, tokens)

    assert (text + "x" * 2000).startswith(left)
    assert COUNTER.count(left) <= tokens
    assert len(left) >= len(COUNTER.cut(text, tokens)) - WIDEST


def test_of_a_text_that_does_not_fit_only_as_much_is_read_as_says_so() -> None:
    counter = Watched()

    assert counter.count("tea " * 60_000, most=100) > 100
    assert counter.cut("tea " * 60_000, 100)
    assert counter.longest == WIDEST * 101


def test_a_text_whose_beginning_says_too_little_is_read_whole(file: Path) -> None:
    """A tokenizer may make one token of a word of any length."""
    file.write_text(words_only())
    counter = load_counter(str(file))
    text = "x" * 5_000 + " tea"

    assert counter.count(text, most=1) == 2
    assert counter.cut(text, 2) == text


def test_a_file_of_ones_own_counts_in_its_own_way(file: Path) -> None:
    file.write_text(words_only())
    counter = load_counter(str(file))

    assert counter.count("green tea, please") == 4
    assert counter.cut("green tea, please", 2) == "green tea"
    assert counter.name != COUNTER.name
    assert TokenCounter(str(file)).name == counter.name


def test_what_a_file_says_of_truncation_and_padding_does_not_count(file: Path) -> None:
    """Published files often cut at 512 tokens or fill up to them: every long text would have the same length."""
    file.write_text(words_only(
        truncation={"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
        padding={"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
                 "pad_token": "[PAD]"},
    ))  # fmt: skip
    counter = load_counter(str(file))

    assert counter.count("one two three four five") == 5
    assert counter.count("one") == 1


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"model": {"type": "BPE"}}', '["a"]'])
def test_a_file_that_defines_no_tokenizer_is_refused_at_once(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(Invalid) as caught:
        load_counter(str(file))
    assert caught.value.extra["field"] == "context.tokenizer"
    assert str(file) in caught.value.detail
    assert "tokenizer.json" in caught.value.hint


def test_a_file_that_is_not_there_is_refused_at_once(file: Path) -> None:
    with pytest.raises(Invalid, match="No such file"):
        load_counter(str(file))


def test_a_tokenizer_that_makes_nothing_of_a_text_is_refused(file: Path) -> None:
    nothing = {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}
    file.write_text(words_only(normalizer=nothing))

    with pytest.raises(Invalid, match="no tokens"):
        load_counter(str(file))
