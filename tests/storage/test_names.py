"""Which known names a text mentions."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.names import NameIndex, words_of

NAMES = ("Ann", "Anna", "Ann Lee", "Dr. Ann Lee", "@bob", "李雷", "小明", "Zoë", "x-y", "🐱", "ann")


def index_of(*names: str) -> NameIndex:
    index = NameIndex()
    for name in names:
        index.add(name)
    return index


def found(index: NameIndex, text: str) -> set[str]:
    return index.found_in(text.lower(), words_of(text.lower()))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Ann's cat", {"Ann", "ann"}),
        ("ANNA called", {"Anna"}),
        ("annex", set()),
        ("I met Dr. Ann Lee today", {"Ann", "ann", "Ann Lee", "Dr. Ann Lee"}),
        ("ann leeds", {"Ann", "ann"}),
        ("write to @bob, please", {"@bob"}),
        ("bobsled @bobby", set()),
        ("昨天李雷说小明来了", {"李雷", "小明"}),
        ("zoë!", {"Zoë"}),
        ("Zoe!", set()),
        ("x-y plot", {"x-y"}),
        ("max-y plot", set()),
        ("my 🐱🐱", {"🐱"}),
        ("", set()),
    ],
)
def test_a_name_is_found_as_whole_words_in_any_case(text, names) -> None:
    assert found(index_of(*NAMES), text) == names


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_name_is_nobodys(blank) -> None:
    index = index_of(blank)

    assert found(index, f"a{blank}b c") == set()
    index.remove(blank)


def test_a_name_is_known_until_its_last_bearer_is_gone() -> None:
    index = index_of("Ann", "Ann", "李雷")

    index.remove("Ann")
    assert found(index, "Ann") == {"Ann"}
    index.remove("Ann")
    index.remove("Ann")
    index.remove("nobody")
    assert found(index, "Ann 李雷") == {"李雷"}
    index.remove("李雷")
    assert index == NameIndex()


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(NAMES)), max_size=40),
    st.lists(st.sampled_from([*NAMES, "and", "Lee", ".", "王"]), max_size=6),
)
def test_what_is_found_is_what_a_search_for_every_borne_name_finds(steps, words) -> None:
    index, borne = NameIndex(), Counter[str]()
    for adds, name in steps:
        if adds:
            index.add(name)
            borne[name] += 1
        else:
            index.remove(name)
            borne[name] = max(borne[name] - 1, 0)
    text = " ".join(words)

    low = text.lower()
    spaced = {name for name in +borne if re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", low)}
    unspaced = {name for name in +borne if name in ("李雷", "小明", "🐱") and name in text}
    assert found(index, text) == spaced | unspaced
