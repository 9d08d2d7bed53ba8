"""Twins: two memories of one scope that say the same, word for word, so that one of them alone loses nothing.

What they say is compared in a plain form: compatible forms of letters, digits and punctuation are one (full width,
ligatures), so are quotation marks, dashes and runs of white space; soft hyphens and marks of direction go; so do a final full
stop or exclamation mark, and small words are small wherever they stand. Everything else means something and stays: question
marks, commas, signs (-5, C++, A+, .5, 20%), superscripts and fractions, accents, digits, emoji, the indent of lines.

Capitals mean something too, where a text is written with them: Turkey is no turkey. A text without any says nothing about
it, nor does one in capitals alone. Words with a capital inside, with digits or with signs (IT, getUser, A4, -O, units as in
40 Mb) keep theirs in any text. ß is not ss, since Maßen are no Massen.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from storage.examined import mark
from storage.model import DAY, TIERS, Memory

#: Raised with any change of what counts as the same, so that all is looked at again.
FORM: Final = f"3, Unicode {unicodedata.unidata_version}"

#: Forms that differ from the plain one in how they look alone.
_FORMS: Final = frozenset({
    "<wide", "<narrow", "<small", "<vertical", "<noBreak", "<initial", "<medial", "<final", "<isolated",
})  # fmt: skip
_UNSEEN: Final = (
    "\u00ad\u200b\u200e\u200f\u2060\ufeff\ufe0e\ufe0f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_SIGNS: Final = (
    dict.fromkeys(map(ord, _UNSEEN))
    | dict.fromkeys(map(ord, "“”„‟«»"), '"')
    | dict.fromkeys(map(ord, "‘’‚‛‹›"), "'")
    | dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")
)
_INSIDE_GUILLEMETS: Final = re.compile("(?<=[«‹])[\u00a0\u202f]|[\u00a0\u202f](?=[»›])")
_INDENT: Final = re.compile(r"\n(?: {2,}|\t)\s*\S")
_FULL_STOPS: Final = ".。।۔։።"
_CLOSING: Final = "\"')]%"
_AROUND: Final = "\"'()[],;:!?.。、"  # a word
_UNIT: Final = 3  # letters at most, after a number: M and m, Mb and MB are not the same
_SHOUTED: Final = 3  # words in capitals from which on it is the whole text that is


def twins(a: Memory, b: Memory) -> bool:
    """Whether two whole memories say the same, so that they may be merged without anybody's judgement.

    The same in both: scope, text (in plain form), context, author (whatever its case; nobody is another than somebody),
    type, subtype, source, sensitivity, end (`expires_at`), for episodes the session, and the time of the event to the
    minute; of an episode without one, the UTC day of its creation. An `active` memory has no twin. Two that both name
    entities name the same, and no key of the metadata has two values. What a merge unites or takes the higher of does
    not decide: tags, source turns, tier, heat, pin, emotion, importance, confidence, uses, times, provenance. Which is
    the longer never matters.
    """
    one, other = _said(a), _said(b)
    if a.id == b.id or "active" in (a.type, b.type) or one.common != other.common:
        return False
    return Meaning.of(a, one.case).admits(Meaning.of(b, other.case))


class Essence(NamedTuple):
    """What of a whole memory decides who its twins are, as marks: all that they share, and its capitals (0 = none)."""

    common: int
    case: int


def essence(memory: Memory) -> Essence:
    """The essence of a whole memory; with its row in the catalogue it is enough to find its twins."""
    common, case = _said(memory)
    return Essence(mark(*common), mark(case) if case else 0)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What may differ in two memories that share everything else, as long as it does not contradict."""

    case: str | int  # empty where the text is written without capitals, or in nothing else
    entities: frozenset[str]
    metadata: Mapping[str, Any]

    @classmethod
    def of(cls, row: Memory, case: str | int) -> Meaning:
        """That of a memory, or of its row."""
        return cls(case, frozenset(map(str.casefold, row.entities)), row.metadata)

    def admits(self, other: Meaning) -> bool:
        """Whether neither contradicts the other."""
        mine, theirs = self.metadata, other.metadata
        return (
            (not self.case or not other.case or self.case == other.case)
            and (not self.entities or not other.entities or self.entities == other.entities)
            and all(_same(mine[key], theirs[key]) for key in mine.keys() & theirs.keys())
        )

    def united_with(self, other: Meaning) -> Meaning:
        """That of a memory which the other was merged into: its text stays, lists and metadata are united."""
        return Meaning(self.case, self.entities | other.entities, {**other.metadata, **self.metadata})


def precedence(row: Memory) -> tuple[Any, ...]:
    """The order in which one of several twins stays: pinned, the higher tier, more uses, the older, then the id."""
    return not row.pinned, -TIERS.index(row.tier), -row.access_count, row.created_at, row.id


def is_kept(row: Memory) -> bool:
    """Whether a memory stays whatever says the same: somebody marked it so."""
    return row.pinned or row.tier == "core"


def event_time(row: Memory) -> str:
    """When what a memory tells of took place: to the minute where it says so, of another episode the UTC day it was told."""
    if row.event_at is not None:
        return f"minute {round(row.event_at / 60.0)}"
    return f"day {row.created_at // DAY:.0f}" if row.type == "episodic" else ""


# -- what is said


class _Said(NamedTuple):
    common: tuple[str, ...]
    case: str


def _said(memory: Memory) -> _Said:
    folded, case = _folded(memory.content)
    session = memory.session if memory.type == "episodic" else ""
    fixed = (memory.scope, memory.type, memory.subtype, memory.source, memory.sensitivity, session)
    times = (repr(event_time(memory)), repr(memory.expires_at))
    return _Said((folded, memory.context.strip(), memory.author.strip().casefold(), *fixed, *times), case)


def _folded(text: str) -> tuple[str, str]:
    """A text in its plain form with plain words small, and the same with its capitals; empty where they say nothing."""
    text = _plain(text)
    if text == text.lower():
        return text, ""
    words = text.split(" ")
    letters = [word.strip(_AROUND) for word in words]
    if _is_shouted(text, letters):
        return " ".join(_small(words, letters, _is_word)), ""
    small = _small(words, letters, _is_plain_word)
    if small == words:
        return text, ""
    first = next(number for number, core in enumerate(letters) if any(map(str.isalpha, core)))
    return " ".join(small), " ".join([*small[: first + 1], *words[first + 1 :]])


def _plain(text: str) -> str:
    text = _in_one_form(text)
    text = text.strip() if _INDENT.search(text) else " ".join(text.split())
    return _without_end(text.removeprefix("¡"))


def _in_one_form(text: str) -> str:
    if text.isascii():
        return text
    signs = _INSIDE_GUILLEMETS.sub("", text).translate(_SIGNS)
    return unicodedata.normalize("NFC", "".join(map(_in_form, signs)))


@lru_cache(4096)
def _in_form(character: str) -> str:
    """A character in its plain form; a sign, a number in a circle, a fraction or a superscript is one of its own."""
    form = unicodedata.decomposition(character).partition(">")[0]
    plain = form in _FORMS or (form == "<compat" and unicodedata.category(character)[0] in "LPZ")
    return unicodedata.normalize("NFKC", character) if plain else character


def _without_end(text: str) -> str:
    """Without a final exclamation mark and full stop; after a digit the one may be a factorial, alone the other a folder."""
    for marks, space, closes in (("!", True, _closes_words), (_FULL_STOPS, False, _closes)):
        core = text.rstrip(marks)
        if core != text:
            core = core.removesuffix(" ") if space else core
            text = core if closes(core[-1:]) else text
    return text


def _closes(character: str) -> bool:
    """Whether a sentence may end with it: not with a sign such as + or -, which a full stop may be part of."""
    if not character or character in _CLOSING:
        return bool(character)
    kind = unicodedata.category(character)
    return kind[0] in "LMN" or kind == "So"  # the latter are emoji and the like


def _closes_words(character: str) -> bool:
    return _closes(character) and not character.isdigit()


# -- words


def _small(words: Sequence[str], letters: Sequence[str], where: Callable[[str, str], bool]) -> list[str]:
    """The words, small where the letters of the word and those of the one before it allow that."""
    cores = zip(words, letters, ["", *letters], strict=False)
    return [low if (low := word.lower()) == word or where(core, before) else word for word, core, before in cores]


def _is_word(core: str, before: str = "") -> bool:
    """Whether it is made of letters alone, but for hyphens and apostrophes within it, and is no unit."""
    is_unit = len(core) <= _UNIT and before[-1:].isdigit()
    return core.replace("-", "").replace("'", "").isalpha() and core[0] not in "-'" and not is_unit


def _is_plain_word(core: str, before: str) -> bool:
    return _is_word(core, before) and core[1:] == core[1:].lower()


def _is_shouted(text: str, letters: Sequence[str]) -> bool:
    """Whether a text is in capitals alone, and long enough to be no row of abbreviations."""
    if any(map(str.islower, text)):
        return False
    return sum(len(core) > 1 and core.isupper() and _is_word(core) for core in letters) >= _SHOUTED


def _same(one: Any, other: Any) -> bool:
    """Whether two values of the metadata are the same; in JSON neither true nor 1.0 is 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
