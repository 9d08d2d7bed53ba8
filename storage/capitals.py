"""Names by their capitals, in any script that has some.

A run of words with capitals is a name; a sentence's first word alone is one only where something says so: a courtesy before
it, a possessive, a verb behind it, the same word inside a sentence. German capitalises every noun: there a lone word needs
a bare preposition before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from storage.common_words import (
    AFTER_A_SUBJECT,
    AND,
    BEFORE_A_GERMAN_NAME,
    COURTESIES,
    DATES,
    ELIDED,
    GERMAN,
    GERMAN_NOUNS,
    INSIDE,
    INSIDE_AFTER,
    MONTHS_OR_NAMES,
    NOUNS,
    OPENERS,
)

LONGEST_RUN: Final = 5  # words; more with capitals are a heading
ACRONYM: Final = 5  # letters of a lone word in capitals that is no shout

#: Chinese, Japanese, Korean, Thai, Lao and Khmer. A word beside them stands inside a sentence, as far as can be told.
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_BOUNDARY: Final = "、"
#: A word that is no part of a path, a tag, a call or a name with dots.
_WORD: Final = re.compile(r"(?<![\w#$/\\~=<{@])(?<!\w\.)[^\W\d_]\w*+(?:[-'’][^\W\d_]\w*+)*+(?![(=\[{/\\@_]|[.:]\w|::)")
#: Before a word: it may have its capital for opening a sentence, a quote, a bracket or a line.
_OPENS: Final = re.compile(r"[.!?…:;\"“«»„‘(\[\n\0|*>•—–؟]")
_APOSTROPHE: Final = re.compile("['’]")
#: What is left of the word behind an apostrophe: English, or a Turkish case.
_ENDING: Final = re.compile(
    r"s|m|ll|re|ve|d|[dt][ae]n?|n?[ıiuü]n|[yns]?[ıiuü]|[yn]?[ae]|y?l[ae]|l[ae]r\w*|[dt][ıiuü]r|ki", re.IGNORECASE
)
_GERUND: Final = re.compile(r"\w{3,}ing")
_VERB: Final = re.compile(r"\w{4,}(?<![elmr])ed|\w{3,}ing")  # English, as it opens a sentence; no Khaled, no Alfred
_NUMBER: Final = re.compile(r"\.?\s?\d")


class Word(NamedTuple):
    """A word without its ending: `joined` to the one before by blanks alone, or where it `opens` something.

    `low` is the word as the lists have it; `capital` says whether it begins as names do.
    """

    text: str
    low: str
    start: int
    capital: bool
    joined: bool
    opens: bool
    possessive: bool = False

    @property
    def end(self) -> int:
        """Where the bare word ends."""
        return self.start + len(self.text)


def capitalised(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of each name; in order, but for lone first words, which come last."""
    text = _UNSPACED.sub(lambda found: _BOUNDARY * len(found[0]), text)
    words = list(_words(text))
    if not any(word.capital for word in words):
        return
    low = {word.low for word in words if not word.capital}
    german = len(GERMAN & (low | {word.low for word in words if word.opens})) > 1
    inside: set[str] = set()  # words of names that are certain
    unsure: list[Word] = []
    for run in _runs(words):
        name = _without_opening(words, run, text)
        if not name:
            continue
        first, last = words[name[0]], words[name[-1]]
        if len(name) == 1 and first.opens:
            if first.low in low or first.low in NOUNS or _GERUND.fullmatch(first.text):
                continue
            if not (first.possessive or _is_subject(words, name[0])):
                unsure.append(first)
                continue
        elif len(name) == 1 and not _stands_alone(words, name[0], german=german, text=text):
            continue
        inside.update(words[place].low for place in name)
        yield first.start, last.end, " ".join(text[first.start : last.end].split())
    yield from ((word.start, word.end, word.text) for word in unsure if word.low in inside)


def _words(text: str) -> Iterator[Word]:
    end, former = 0, ""
    for found in _WORD.finditer(text):
        token, start = found[0], found.start()
        gap = text[end:start]
        joined = gap == " " or (bool(gap) and not gap.strip(" \t\xa0"))
        opens = not joined and (not end or _OPENS.search(gap) is not None)
        if gap == ". " and (former.casefold() in COURTESIES or (len(former) == 1 and former.isupper())):
            joined, opens = True, False
        if opens and (gap.endswith(_BOUNDARY) or text.startswith(_BOUNDARY, found.end())):
            opens = False
        if token.islower():
            yield Word(token, token.casefold().replace("’", "'"), start, False, joined, opens)
        else:
            yield _bare(token, start, joined=joined, opens=opens)
        end, former = found.end(), token


def _bare(token: str, start: int, *, joined: bool, opens: bool) -> Word:
    """A word with capitals, without the article before, or the ending behind, its apostrophe."""
    head, *rest = _APOSTROPHE.split(token, 1)
    tail = rest[0] if rest else ""
    word, possessive = token, False
    if tail == "t" or (tail.islower() and head.casefold() in ELIDED):  # don't, j'aime
        word = token.lower()
    elif tail[:1].isupper() and (head.islower() or (opens and head.casefold() in ELIDED and not token.isupper())):
        word, start, joined = tail, start + len(head) + 1, joined and head == "d"
    elif tail and head[0].isupper() and _ENDING.fullmatch(tail):
        word, possessive = head, True
    first = word[3:4] if word.startswith(("al-", "el-")) else word[0]
    capital = (first.isupper() or first.istitle()) and "_" not in word
    return Word(word, word.casefold().replace("’", "'"), start, capital, joined, opens, possessive)


def _runs(words: Sequence[Word]) -> Iterator[range]:
    """The places of each run of words with capitals, and of what joins them to one name."""
    first = last = -1
    for place, word in enumerate(words):
        if not word.capital:
            continue
        if last >= 0 and _continues(words, last, place):
            last = place
            continue
        if last >= 0:
            yield range(first, last + 1)
        first = last = place
    if last >= 0:
        yield range(first, last + 1)


def _continues(words: Sequence[Word], last: int, place: int) -> bool:
    between = words[last + 1 : place]
    return (
        len(between) < 3
        and words[place].low != "i"
        and all(word.joined for word in words[last + 1 : place + 1])
        and not words[last].possessive
        and not {words[last].low, words[place].low} & DATES
        and all(word.low in inside for word, inside in zip(between, (INSIDE, INSIDE_AFTER), strict=False))
    )


def _without_opening(words: Sequence[Word], run: range, text: str) -> range:
    """The run without the courtesy, the pronoun or the verb that it begins with; empty where it is no name at all."""
    capitals = [words[place] for place in run if words[place].capital]
    if len(capitals) > LONGEST_RUN or (len(capitals) > 1 and all(word.text.isupper() for word in capitals)):
        return range(0)
    while run and _is_before(words[run[0]], text):
        run = run[1:]
    if len(run) > 1 and words[run[0]].opens and _VERB.fullmatch(words[run[0]].text):
        run = run[1:]
    return run


def _is_before(word: Word, text: str) -> bool:
    """Whether a word can only stand before a name: a lone letter does where it is no initial."""
    letter = len(word.text) == 1 and not text.startswith(".", word.end)
    return letter or not word.capital or word.low in OPENERS or word.low in COURTESIES


def _is_subject(words: Sequence[Word], place: int) -> bool:
    """Whether a verb follows, or an `and` with one more name."""
    after = words[place + 1 : place + 3]
    if not after or not after[0].joined:
        return False
    return after[0].low in AFTER_A_SUBJECT or (after[0].low in AND and len(after) > 1 and after[1].capital)


def _stands_alone(words: Sequence[Word], place: int, *, german: bool, text: str) -> bool:
    """Whether a lone word with a capital inside a sentence is a name."""
    word = words[place]
    before = words[place - 1].low if place and word.joined else ""
    if word.text.isupper() and len(word.text) > ACRONYM:
        return False
    if word.low in MONTHS_OR_NAMES and _NUMBER.match(text, word.end):
        return False
    titled = before in COURTESIES
    return not german or titled or word.possessive or (before in BEFORE_A_GERMAN_NAME and word.low not in GERMAN_NOUNS)
