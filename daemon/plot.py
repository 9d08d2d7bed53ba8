"""A look ahead as a picture. matplotlib, of the extra `plot`, is imported only where one is drawn."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from daemon.client import CallError
from daemon.forecasts import before, headline, parts, summed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = (".png", ".svg", ".pdf")
INCHES: Final = (10.0, 6.0)
DOTS: Final = 144  # an inch, of a .png
BARS: Final = 60  # what happened is summed up in so many bars at most
EXTRA: Final = 'pip install "dreamd[plot]"'

LIVE, BIN, FADED, RETURNED, LOST = "#1f6f8b", "#a3a9ad", "#8d9499", "#2f9e6e", "#c8443c"
INK, EDGE, LINE = "#2b2f33", "#b9bec2", "#e3e6e8"


class Picture:
    """A file that a look ahead is to be drawn into. Raises CallError where that cannot be."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if self.path.suffix.lower() not in FORMATS:
            raise CallError(
                "invalid", f"{self.path.name} names no format of a picture.", f"Use one of {', '.join(FORMATS)}."
            )
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise CallError("invalid", f"{self.path} is no place for a file.", "Name a file in a folder that is there.")
        if importlib.util.find_spec("matplotlib") is None:
            raise CallError("unavailable", "A picture needs matplotlib, which is not installed.", EXTRA)

    def draw(self, result: Mapping[str, Any]) -> None:
        """Draw the result of `simulate`; a file of that name is replaced when the picture is whole."""
        beside = self.path.with_name(f".{self.path.name}.new")
        try:
            _draw(result, beside, self.path.suffix.lower().removeprefix("."))
            beside.replace(self.path)
        except OSError as error:
            hint = "Name another file with --plot."
            raise CallError("unavailable", f"{self.path} cannot be written: {error.strerror}.", hint) from None
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)


def _draw(result: Mapping[str, Any], target: Path, kind: str) -> None:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import MaxNLocator

    days: Sequence[Mapping[str, Any]] = result["rows"]
    figure = Figure(figsize=INCHES, dpi=DOTS, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    _stock(above, days)
    _flow(below, days)
    today = datetime.fromisoformat(days[0]["at"]) - timedelta(days=1)
    below.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True))
    below.set_xlabel(f"days from {today:%Y-%m-%d}", color=INK)
    figure.align_ylabels()
    figure.suptitle(headline(result), x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    figure.savefig(target, format=kind)


def _stock(axes: Axes, days: Sequence[Mapping[str, Any]]) -> None:
    """How many there are after each day, and before the first."""
    live, binned = before(days[0])
    when = [0, *(day["day"] for day in days)]
    for name, values, colour, weight in (
        ("live", [live, *(day["live"] for day in days)], LIVE, 2.2),
        ("in the bin", [binned, *(day["bin"] for day in days)], BIN, 1.4),
    ):
        axes.fill_between(when, values, color=colour, alpha=0.16, linewidth=0)
        axes.plot(when, values, color=colour, linewidth=weight, label=name)
    _finish(axes, "memories")
    axes.set_ylim(bottom=0)


def _flow(axes: Axes, days: Sequence[Mapping[str, Any]]) -> None:
    """What happened, in bars of equal length: what came back or is missed upwards, what went downwards."""
    spans = list(parts(days, BARS))
    when, widths = [span[0]["day"] - 1 + len(span) / 2 for span in spans], [0.8 * len(span) for span in spans]
    sums = [summed(span) for span in spans]
    back, lost = [one["returned"] for one in sums], [one["lost"] for one in sums]
    gone = [-(one["faded"] + one["expired"]) for one in sums]
    for name, values, bottom, colour in (
        ("returned: needed, and brought back", back, 0, RETURNED),
        ("lost: needed after it was purged", lost, back, LOST),
        ("faded or expired", gone, 0, FADED),
    ):
        axes.bar(when, values, widths, bottom=bottom, color=colour, label=name)
    axes.axhline(0, color=INK, linewidth=0.8)
    _finish(axes, "a day" if len(sums) == len(days) else f"in {len(spans[0])} days")
    axes.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
    axes.set_ylim(1.1 * min([*gone, -1]), 1.15 * max([*map(sum, zip(back, lost, strict=True)), 1]))


def _finish(axes: Axes, unit: str) -> None:
    """What both halves have in common: few lines, counts in whole numbers, and the legend above."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.set_ylabel(unit, color=INK)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(color=EDGE, labelcolor=INK)
    axes.spines[["left", "bottom"]].set_color(EDGE)
    axes.spines[["right", "top"]].set_visible(False)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=3,
        frameon=False,
        labelcolor=INK,
        borderaxespad=0.1,
        borderpad=0.2,
    )
    axes.margins(x=0.01)
