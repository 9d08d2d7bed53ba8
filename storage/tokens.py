"""Counts what texts cost a model, and cuts them to what it may take, with the tokenizer of any `tokenizer.json`.

The library lets go of the interpreter in its calls for batches alone (256 KiB take 0.1 s), so every text goes in as a
batch of one. No call is made from the event loop.
"""

from __future__ import annotations

import hashlib
import importlib.util
import unicodedata
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WIDEST: Final = 16  # characters of the widest token in WordLlama's vocabulary
_LONGEST: Final = 32  # characters of one sign, as a reader sees it; more marks than that are no script's
_JOINER: Final = "\u200d"
_HINT: Final = "set tokenizer under [context] to a tokenizer.json, or leave it out for the one of WordLlama"


class TokenCounter:
    """Counts and cuts by one tokenizer, which is loaded at the first call (60 ms). Calls may come from several threads.

    `name` tells it from every other: counts under two names cannot be compared.
    """

    def __init__(self, path: str = "") -> None:
        """Read the file at `path`, or WordLlama's. Raises Invalid where it cannot be read."""
        self._path = Path(path) if path else _default()
        try:
            self._definition = self._path.read_bytes()
        except OSError as error:
            raise _unfit(self._path, f"cannot be read: {error.strerror}") from None
        self.name = hashlib.sha256(self._definition).hexdigest()[:16]

    def check(self) -> None:
        """Raise Invalid unless the file defines a tokenizer that works."""
        try:
            usable = self.count("a tokenizer") > 0
        except Exception as error:
            raise _unfit(self._path, f"defines no tokenizer ({type(error).__name__})") from error
        if not usable:
            raise _unfit(self._path, "makes no tokens of a text")

    def count(self, text: str, *, most: int | None = None) -> int:
        """How many tokens a text has, without those that open or close a prompt; beyond `most`, some number beyond that."""
        if most is None:
            return len(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])
        begun = _telling(text, most)
        counted = self.count(begun)
        return counted if counted > most or len(begun) == len(text) else self.count(text)

    def cut(self, text: str, tokens: int) -> str:
        """The whole text where it has at most so many tokens, else a beginning of it that does.

        It ends between two tokens and between two signs. As a tokenizer may make more tokens of a beginning than that
        has within the text, it is counted again, and shortened again.
        """
        begun = _telling(text, tokens)
        if len(begun) < len(text) and self.count(begun) > tokens:
            text = begun
        step = 0
        while True:
            made = self._tokenizer.encode_batch([text], add_special_tokens=False)[0]
            if len(made) <= tokens:
                return text
            first_out = max(tokens - step, 0)
            # A character of several tokens has its place in each of them: ending at the start of the first token that is
            # out leaves it out whole.
            place = made.token_to_chars(first_out) if first_out else None
            text = text[: _between_signs(text, place[0])] if place else ""
            step = 2 * step or 1

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer  # 20 ms, needed by few calls

        tokenizer = Tokenizer.from_buffer(self._definition)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer


def load_counter(path: str) -> TokenCounter:
    """The counter of a tokenizer's file, or of WordLlama's. Raises Invalid where a file that is named does not work."""
    counter = TokenCounter(path)
    if path:
        counter.check()
    return counter


def _telling(text: str, most: int) -> str:
    """As much of a text as has more than so many tokens, if each is at most `WIDEST`; of another tokenizer it may not be."""
    return text[: WIDEST * (most + 1)]


def _between_signs(text: str, end: int) -> int:
    """The last place up to `end` that is not inside what a reader sees as one sign, such as an emoji of several."""
    for place in range(end, max(end - _LONGEST, 0), -1):
        if not _joined(text, place):
            return place
    return end if end > _LONGEST else 0


def _joined(text: str, place: int) -> bool:
    """Whether the characters before and after a place belong to one sign (the common cases of Unicode's UAX 29)."""
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    return (
        unicodedata.category(after) in ("Mn", "Mc", "Me")  # marks, among them the selectors of a variant
        or _JOINER in (before, after)
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # the colour of a skin
        or "\U000e0020" <= after <= "\U000e007f"  # the region of a flag
        or (before == "\r" and after == "\n")
        or (_is_jamo(before) and _is_jamo(after))
        or (_is_regional(after) and _regionals(text, place) % 2 == 1)
    )


def _is_jamo(character: str) -> bool:
    return "\u1100" <= character <= "\u11ff"


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _regionals(text: str, place: int) -> int:
    """How many regional indicators stand right before a place; two of them make one flag."""
    start = place
    while start and place - start < 2 * _LONGEST and _is_regional(text[start - 1]):
        start -= 1
    return place - start


def _default() -> Path:
    found = importlib.util.find_spec("wordllama")  # imports nothing
    if found is None or found.origin is None:
        raise Unavailable(
            "WordLlama, whose tokenizer counts the tokens, is not installed.", hint="pip install wordllama"
        )
    return Path(found.origin).parent / "tokenizers" / "l2_supercat_tokenizer_config.json"


def _unfit(path: Path, what: str) -> Invalid:
    return Invalid(f"[context] tokenizer: {path} {what}", hint=_HINT, field="context.tokenizer")
