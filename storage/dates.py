"""The spans of time that a question names: ISO dates and months, month names with or without a year, bare years.

Months are read in English, German, Spanish, French and Portuguese, and as `2026年5月`. A month without a year is that
month of any year.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

_MONTHS: Final = (
    "january januar enero janvier janeiro",
    "february februar febrero février fevereiro",
    "march märz marzo mars março",
    "april abril avril",
    "mai mayo maio",
    "june juni junio juin junho",
    "july juli julio juillet julho",
    "august agosto août",
    "september septiembre septembre setembro",
    "october oktober octubre octobre outubro",
    "november noviembre novembre novembro",
    "december dezember diciembre décembre dezembro",
)
_NUMBER_OF: Final = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_ISO: Final = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?!\d)")
_EAST: Final = re.compile(r"((?:19|20)\d\d)年(?:(\d{1,2})月(?:(\d{1,2})[日号])?)?")
_YEAR: Final = re.compile(r"(?<![\d.,])((?:19|20)\d\d)(?![\d])")
#: English `may` is a month as a name inside a sentence or beside a number; `May I` and `it may` ask and doubt.
_MAY: Final = re.compile(r"(?<=\S )May\b|\d may\b|\b[Mm]ay \d|\bin may\b")
_WORD: Final = re.compile(r"[^\W\d_]+")


class Span(NamedTuple):
    """A year, a month (of a year, or of any) or a day; None = any."""

    year: int | None
    month: int | None = None
    day: int | None = None

    def covers(self, moment: datetime) -> bool:
        """Whether an instant lies in it."""
        return all(
            wanted is None or wanted == have
            for wanted, have in zip(self, (moment.year, moment.month, moment.day), strict=True)
        )


def spans(text: str) -> list[Span]:
    """The spans named in a text; a year that belongs to a date is not named once more on its own."""
    found: list[Span] = []
    rest = text
    for pattern in (_ISO, _EAST):
        for year, month, day in pattern.findall(rest):
            found.append(Span(int(year), int(month) if month else None, int(day) if day else None))
        rest = pattern.sub(" ", rest)
    years: list[int | None] = [int(year) for year in _YEAR.findall(rest)]
    named = {_NUMBER_OF[word] for word in _WORD.findall(rest.lower()) if word in _NUMBER_OF}
    months = sorted(named | ({5} if _MAY.search(rest) else set()))
    if months:
        return found + [Span(year, month) for month in months for year in (years or [None])]
    return found + [Span(year) for year in years]


def covered(wanted: list[Span], instant: float | None) -> bool:
    """Whether any of the spans covers an instant (epoch seconds, read in UTC)."""
    if instant is None or not wanted:
        return False
    try:
        moment = datetime.fromtimestamp(instant, UTC)
    except (ValueError, OverflowError, OSError):
        return False
    return any(span.covers(moment) for span in wanted)
