"""Which spans of time a question names."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.dates import Span, covered, spans


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("what happened on 2023-05-07?", [Span(2023, 5, 7)]),
        ("in 2023-05", [Span(2023, 5)]),
        ("from 2023-05-07 to 2024-01", [Span(2023, 5, 7), Span(2024, 1)]),
        ("in May 2023", [Span(2023, 5)]),
        ("7 May 2023", [Span(2023, 5)]),
        ("May 7", [Span(None, 5)]),
        ("who came in may", [Span(None, 5)]),
        ("May I eat nuts?", []),
        ("it may rain", []),
        ("last December", [Span(None, 12)]),
        ("im März 2022", [Span(2022, 3)]),
        ("en février", [Span(None, 2)]),
        ("em março de 2021", [Span(2021, 3)]),
        ("en enero y mayo", [Span(None, 1), Span(None, 5)]),
        ("2026年5月3日 和 2025年", [Span(2026, 5, 3), Span(2025)]),
        ("2026年12月", [Span(2026, 12)]),
        ("in 1999 or 2001", [Span(1999), Span(2001)]),
        ("room 2023b", [Span(2023)]),
        ("room 20234", []),
        ("1.2023 and 3,2023", []),
        ("decemberist marching", []),
        ("", []),
    ],
)
def test_dates_months_and_years_are_read_from_a_question(text, named) -> None:
    assert spans(text) == named


def test_a_year_that_belongs_to_a_date_is_not_named_once_more() -> None:
    assert spans("2023-05-07") == [Span(2023, 5, 7)]


def instant(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("span", "at", "covers"),
    [
        (Span(2023), instant(2023, 12, 31, 23, 59, 59), True),
        (Span(2023), instant(2024, 1, 1), False),
        (Span(2023, 5), instant(2023, 5, 31), True),
        (Span(2023, 5), instant(2022, 5, 31), False),
        (Span(None, 5), instant(1999, 5, 1), True),
        (Span(2023, 5, 7), instant(2023, 5, 7), True),
        (Span(2023, 5, 7), instant(2023, 5, 8), False),
        (Span(2023, 13), instant(2023, 12, 1), False),
    ],
)
def test_a_span_covers_its_instants_in_utc(span, at, covers) -> None:
    assert covered([span], at) is covers


@given(st.dates(date(1900, 1, 1), date(2099, 12, 30)), st.integers(-3, 3))
def test_a_day_named_in_iso_covers_that_day_and_no_other(day, off) -> None:
    other = day + timedelta(days=off)
    noon = datetime(other.year, other.month, other.day, 12, tzinfo=UTC).timestamp()

    assert covered(spans(f"what was on {day.isoformat()}?"), noon) == (off == 0)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a14_no_instant_however_odd_ever_raises(at) -> None:
    """Instants beyond the calendar lie in no span."""
    inside = math.isfinite(at) and instant(2000, 1, 1) <= at < instant(2001, 1, 1)

    assert covered([Span(2000)], at) == inside


def test_a14_a_time_with_a_zone_is_an_instant_like_any_other() -> None:
    tokyo = datetime(2024, 1, 1, 8, 0, tzinfo=timezone(timedelta(hours=9)))

    assert covered([Span(2023, 12, 31)], tokyo.timestamp())


def test_nothing_is_covered_without_an_event_or_without_a_date() -> None:
    assert not covered([Span(2023)], None)
    assert not covered([], instant(2023, 1, 1))


@given(st.text())
def test_any_text_has_spans_and_never_raises(text) -> None:
    assert all(span.year is not None or span.month is not None for span in spans(text))


@given(
    st.lists(st.sampled_from(["2023-05-07", "May", "2024", "mars", "2026年", "12", "٢٠٢٤", "-", "19٩٩"]), max_size=6)
)
def test_any_mixture_of_dates_is_read_without_raising(parts) -> None:
    found = spans(" ".join(parts))

    assert covered(found, 0.0) == any(span.covers(datetime.fromtimestamp(0.0, UTC)) for span in found)
