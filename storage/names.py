"""Which known names a text mentions: whole words, any case; names without word boundaries (Chinese, ...) as substrings."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from storage.model import is_role

_WORD: Final = re.compile(r"\w+")
_UNSPACED: Final = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def words_of(low: str) -> set[str]:
    """The distinct words of a lower-cased text."""
    return set(_WORD.findall(low))


@dataclass(slots=True)
class NameIndex:
    """Counted names, looked up by their first word so that a text costs its own length, not the number of names."""

    _counts: Counter[str] = field(default_factory=Counter)
    _shelves: dict[str, dict[str, None]] = field(default_factory=dict)  # by first word; "" where words are not spaced

    def add(self, name: str) -> None:
        """Count one more bearer of a name; a blank one is nobody's, and a role is no name."""
        if not name.strip() or is_role(name):
            return
        self._counts[name] += 1
        self._shelves.setdefault(_first_word(name), {})[name] = None

    def remove(self, name: str) -> None:
        """Count one bearer less; a name nobody bears is no longer known."""
        if name not in self._counts:
            return
        self._counts[name] -= 1
        if not self._counts[name]:
            word = _first_word(name)
            del self._counts[name], self._shelves[word][name]
            if not self._shelves[word]:
                del self._shelves[word]

    def found_in(self, low: str, words: set[str]) -> set[str]:
        """The known names that stand in a lower-cased text whose words are given."""
        found = {name for name in self._shelves.get("", ()) if name.lower() in low}
        for word in words & self._shelves.keys():
            for name in self._shelves[word]:
                if name.lower() == word or re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", low):
                    found.add(name)
        return found


def _first_word(name: str) -> str:
    words = [] if _UNSPACED.search(name) else _WORD.findall(name.lower())
    return words[0] if words else ""
