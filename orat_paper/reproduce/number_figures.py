"""Figures of numbers: ours against the paper's, as points or as means with deviations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from orat.core.errors import InputError
from orat.evaluation.curves import BLUE, GRAY, ORANGE
from orat_paper.reproduce.panels import (
    COLORS,
    ERRORS_NOTE,
    PART,
    Content,
    Record,
    attack_title,
    epochs_note,
    error_of,
    finish,
    grid,
    place_of,
    places,
    small_above_large,
    tidy,
    title_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIFFERENCES = (1, 2, 5, 10, 20, 50)  # with a tick
BAND = 0.4  # points of accuracy
MARKERS = {"ST": "s", "AT": "o", "GAIRAT": "^", "MAIL": "v", "WMMR": "D", "RAA": "P", "ORAT": "*"}
SIDES = {
    "ours": (-0.13, "o", BLUE, "ours"),
    "theirs": (0.13, "s", ORANGE, "the paper"),
}  # shift from the middle of a method


def drawn_rows(content: Content) -> list[Record]:
    """The rows of the drawn epoch."""
    return [row for row in content["rows"] if row["epoch"] == PART[row["protocol"]]]


def stability(content: Content) -> Figure:
    """Mean errors with standard deviations by method: one row of panels a data set, one panel an attack."""
    rows = drawn_rows(content)
    here = places(content["runs"])
    columns = list(dict.fromkeys(row["column"] for row in rows))
    figure, panels = grid(len(here) * len(columns), across=len(columns), size=(3.6, 2.9))
    for number, panel in enumerate(panels):
        place, column = here[number // len(columns)], columns[number % len(columns)]
        draw_means(panel, [row for row in rows if place_of(row) == place and row["column"] == column])
        tidy(panel, f"{title_of(*place)}: {attack_title(column)}", "", "test error in %")
        small_above_large(panel)
    runs = sorted({row["seeds"] for row in rows if row["seeds"]})
    counts = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    said = f"mean and standard deviation; runs of ours: {counts}, of the paper: 10"
    return finish(figure, content["what"], [said, epochs_note(content["runs"]), ERRORS_NOTE], columns=2)


def draw_means(panel: Axes, rows: Sequence[Record]) -> None:
    """Ours and the paper's side by side, one pair a method."""
    names = [row["method"] for row in rows]
    panel.set_xticks(range(len(rows)), names, rotation=45, horizontalalignment="right", rotation_mode="anchor")
    panel.set_xlim(-0.5, len(rows) - 0.5)
    for name, (shift, marker, color, label) in SIDES.items():
        deviation = {"ours": "sd", "theirs": "their_sd"}[name]
        own = [(x, row) for x, row in enumerate(rows) if row[name] is not None]
        there = [(x + shift, error_of(row[name]), row[deviation] or 0) for x, row in own]
        if there:
            xs, ys, errors = zip(*there, strict=True)
            panel.errorbar(xs, ys, errors, fmt=marker, color=color, markersize=5, capsize=3, linewidth=1.4, label=label)


def beside_the_paper(content: Content) -> Figure:
    """Ours against the paper's numbers, and the differences below: one pair of panels a data set and protocol."""
    rows = [row for row in drawn_rows(content) if row["difference"] is not None]
    if not rows:
        raise InputError("the paper has no numbers of the finished cells")
    protocols, data = (list(dict.fromkeys(row[name] for row in rows)) for name in ("protocol", "data"))
    figure, panels = grid(2 * len(protocols) * len(data), across=len(data), size=(4.2, 3.3))
    for number, (protocol, name) in enumerate(product(protocols, data)):
        above = number // len(data) * 2 * len(data) + number % len(data)
        members = [row for row in rows if (row["protocol"], row["data"]) == (protocol, name)]
        draw_pair(panels[above], panels[above + len(data)], members)
    notes = [epochs_note(content["runs"]), "color: the attack; shape: the method"]
    return finish(figure, content["what"], notes, columns=7)


def draw_pair(above: Axes, below: Axes, rows: Sequence[Record]) -> None:
    """Draws the numbers in one panel and the differences in another."""
    if not rows:
        above.remove()
        below.remove()
        return
    for panel, name, slope in ((above, "ours", 1), (below, "difference", 0)):
        draw_numbers(panel, rows, name)
        draw_band(panel, rows, slope)
    near = sum(abs(row["difference"]) <= BAND for row in rows)
    tidy(above, title_of(rows[0]["protocol"], rows[0]["data"]), "the paper's accuracy in %", "our accuracy in %")
    title = f"{near} of {len(rows)} within {BAND} points"
    tidy(below, title, "the paper's accuracy in %", "ours - the paper's, in points")
    spread_small(below, max(abs(row["difference"]) for row in rows))


def spread_small(panel: Axes, most: float) -> None:
    """An axis linear up to one point and logarithmic beyond: the band stays visible."""
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    panel.set_yscale("symlog", linthresh=1)
    ticks = [tick for tick in DIFFERENCES if tick <= most] or [1]
    panel.set_yticks([*(-tick for tick in reversed(ticks)), 0, *ticks])
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def draw_numbers(panel: Axes, rows: Sequence[Record], name: str) -> None:
    """One mark a number: the color is the attack, the shape the method."""
    for method, column in dict.fromkeys((row["method"], row["column"]) for row in rows):
        there = [(row["theirs"], row[name]) for row in rows if (row["method"], row["column"]) == (method, column)]
        marker, color = MARKERS.get(method, "X"), COLORS.get(column, GRAY)
        panel.plot(*zip(*there, strict=True), marker, color=color, markersize=5, alpha=0.75, markeredgewidth=0)
    for column in dict.fromkeys(row["column"] for row in rows):
        panel.plot([], [], "o", color=COLORS.get(column, GRAY), label=attack_title(column))
    for method in dict.fromkeys(row["method"] for row in rows):
        panel.plot([], [], MARKERS.get(method, "X"), color=GRAY, label=method)


def draw_band(panel: Axes, rows: Sequence[Record], slope: int) -> None:
    """The line of equal numbers and the band around it."""
    values = [row["theirs"] for row in rows]
    ends = [min(values) - 1, max(values) + 1]
    middle = [slope * end for end in ends]
    panel.plot(ends, middle, color=GRAY, linewidth=1, zorder=1, label="the same")
    low, high = ([height + shift for height in middle] for shift in (-BAND, BAND))
    panel.fill_between(ends, low, high, color=GRAY, alpha=0.2, linewidth=0, label=f"within {BAND} points", zorder=0)
