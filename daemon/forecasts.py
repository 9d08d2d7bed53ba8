"""How a look ahead is shown: a curve in one line, and a table of its days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from daemon.terminal import Screen, table, wrap
from daemon.transfers import number

ROWS: Final = 16  # of the table, at most
CURVE: Final = 60  # columns
#: What happens in the course of days; of a row of the table it is told since the row before.
FLOWS: Final = ("faded", "expired", "merged", "returned", "lost", "purged")
#: Columns that are left out where nothing is in them.
SELDOM: Final = ("expired", "merged")
_LEVELS: Final = " ▁▂▃▄▅▆▇█"


def simulated(result: Mapping[str, Any], screen: Screen) -> Iterator[str]:
    """What would become of the memories, day by day."""
    days: Sequence[Mapping[str, Any]] = result["rows"]
    yield f"{screen.bold(headline(result))}."
    yield f"{screen.dim('live')}  {curve([day['live'] for day in days], CURVE)}".rstrip()
    rows = [summed(part) for part in parts(days, ROWS)]
    flows = [name for name in FLOWS if name not in SELDOM or any(row[name] for row in rows)]
    names = ["live", *flows, "bin", "edges"]
    yield from table(
        screen,
        [">DAY", "DATE", *(f">{name.upper()}" for name in names)],
        [[f"{row['day']:,}", row["at"][:10], *(f"{row[name]:,}" for name in names)] for row in rows],
    )
    notes = [
        "Returned: needed while in the bin, and brought back. Lost: needed for the first time after it was purged."
    ]
    if len(rows) < len(days):
        notes.insert(0, "What happened is told since the row before; --json has every day.")
    yield from (screen.dim(line) for note in notes for line in wrap(note, screen, ""))


def headline(result: Mapping[str, Any]) -> str:
    """The first and the last day, and what is between them."""
    now, _ = before(result["rows"][0])
    span = "1 day" if result["days"] == 1 else f"{result['days']:,} days"
    recalls = "no" if result["recalls"] == "none" else result["recalls"]
    return f"{number('memory', now)} now, {result['rows'][-1]['live']:,} live after {span} with {recalls} recalls"


def before(first: Mapping[str, Any]) -> tuple[int, int]:
    """How many lived, and lay in the bin, before the first day."""
    left = first["faded"] + first["expired"] + first["merged"] - first["returned"]
    return first["live"] + left, first["bin"] + first["purged"] - left


def parts(days: Sequence[Mapping[str, Any]], most: int) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The days in at most so many parts of one length; the last may be shorter."""
    length = -(-len(days) // most)
    return (days[start : start + length] for start in range(0, len(days), length))


def summed(part: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several days as one: what there is after the last, and all that happened."""
    return {**part[-1], **{name: sum(day[name] for day in part) for name in FLOWS}}


def curve(values: Sequence[int], width: int) -> str:
    """The values from left to right as bars of at most one line's height, from nothing to the greatest."""
    count = min(len(values), width)
    shown = [values[(index + 1) * len(values) // count - 1] for index in range(count)]
    top, highest = len(_LEVELS) - 1, max([*values, 1])
    return "".join(_LEVELS[-(-value * top // highest)] for value in shown)
