"""Whom and what a text names, found without a model: by capitals, by @, by quotes and by honorifics.

A heuristic that would rather miss a name than make one of every noun. Names are taken as they stand, in whatever case their
language bent them to. Scripts without capitals have @handles, quoted titles and, in Chinese, Japanese and Korean,
honorifics; Arabic and Thai have the first two.
"""

from __future__ import annotations

import re
from typing import Final

from storage.capitals import capitalised
from storage.common_words import COURTESIES, DATES, OPENERS
from storage.marked_names import marked
from storage.model import is_role

MOST: Final = 32  # names of one text
SCANNED: Final = 8 * 1024  # characters from the start, and as many from the end: the store waits meanwhile
LONGEST: Final = 60  # characters of a name

#: Masks of the gate, code, links and mail addresses. `\0`, which no stored text holds, stands for each of their characters.
_NOISE: Final = re.compile(
    r"\[REDACTED:[^\]\n]{0,80}\]?|```.*?(?:```|\Z)|`[^`\n]{1,200}`|\b(?:https?|ftp)://\S{1,2000}|\bwww\.\S{1,2000}|"
    r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}",
    re.DOTALL,
)
_NOISY: Final = ("[REDACTED:", "`", "://", "www.", "@")


def entities_in(text: str, author: str = "") -> tuple[str, ...]:
    """The names in a text that left the gate, at most 32, in order of appearance; one spelling each, the first.

    The author's own name, roles, dates and numbers are none. Of a text beyond 16 Ki characters the first and the last half
    of so many are read.
    """
    shown = _ends(text)
    if any(sign in shown for sign in _NOISY):
        shown = _NOISE.sub(lambda found: "\0" * len(found[0]), shown)
    spots = marked(shown)
    if spots:
        letters = list(shown)
        for start, end, _ in spots:
            letters[start:end] = "\0" * (end - start)
        shown = "".join(letters)
    spots += capitalised(shown)
    own = author.casefold()
    found = {own: "", f"@{own}": ""}
    for _, _, name in sorted(spots):
        if _is_name(name):
            found.setdefault(name.casefold(), name)
    return tuple(filter(None, found.values()))[:MOST]


def _ends(text: str) -> str:
    """What is read of a text: all, or its two ends, cut between words where there are any."""
    if len(text) <= 2 * SCANNED:
        return text
    head, tail = text[:SCANNED], text[-SCANNED:]
    head = head[: max(head.rfind(" "), SCANNED - LONGEST)]
    return f"{head}\n\0\n{tail[min(tail.find(' ') % SCANNED, LONGEST) :]}"


def _is_name(name: str) -> bool:
    low = name.casefold()
    return (
        len(name) <= LONGEST
        and (len(name) > 1 or "\u3400" <= name <= "\u9fff")
        and any(map(str.isalpha, name))
        and not is_role(low.removeprefix("@"))
        and not any(low in words for words in (DATES, OPENERS, COURTESIES))
    )
