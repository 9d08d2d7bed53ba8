"""RFC 3339 at the edges of the daemon: wire and files in, epoch seconds inside, RFC 3339 with Z out again."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

from storage.model import DAY

EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()

#: RFC 3339, where the zone, the seconds or the whole time of day may be left out.
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:\.[0-9]+)?)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?"
)
_LEAP: Final = re.compile(r"(?<=:[0-5][0-9]:)60")
_NO_TIME: Final = "not an RFC 3339 time; write 2026-05-04T09:30:00Z"


def parse_instant(value: Any) -> float:
    """Epoch seconds of an RFC 3339 time; a naive one is UTC, and a leap second is the second before it.

    Raises ValueError, whose words fit an error message.
    """
    if not isinstance(value, str):
        raise ValueError("a time is a string such as 2026-05-04T09:30:00Z")  # noqa: TRY004 - pydantic wants it
    if not _RFC_3339.fullmatch(value):
        raise ValueError(_NO_TIME)
    text, leaps = _LEAP.subn("59", value.upper())
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(_NO_TIME) from None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if leaps and seconds % DAY < DAY - 60:  # one is put in at the end of a day in UTC, nowhere else
        raise ValueError(_NO_TIME)
    if not EARLIEST <= seconds <= LATEST:
        raise ValueError("a time outside 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z")
    return seconds


def format_instant(seconds: float | None) -> str | None:
    """RFC 3339 with Z, in microseconds where there are any."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
