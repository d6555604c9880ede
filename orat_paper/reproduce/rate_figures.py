"""Test error against the noise rate: all methods, ours and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from textwrap import fill
from typing import TYPE_CHECKING

from orat.evaluation.curves import BLUE, GRAY, GREEN, ORANGE, RED
from orat_paper.reproduce.artifacts import AUTOMATIC
from orat_paper.reproduce.panels import (
    ERRORS_NOTE,
    PART,
    Content,
    Line,
    Place,
    Record,
    attack_title,
    draw_line,
    epochs_note,
    error_of,
    finish,
    gathered,
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

METHODS = {
    "ST": "#9a9a9a", "AT": BLUE, "GAIRAT": "#8c564b", "MAIL": GREEN, "WMMR": "#9467bd", "RAA": ORANGE, "ORAT": RED,
    AUTOMATIC: "black",
}  # fmt: skip
NO_NOISE, NOISES = "none", ("symmetric", "asymmetric")
COLUMNS = ("natural", "pgd20")
LONGEST = 32  # letters of a title within its panel
SIDES = {"ours": ("-", "o"), "theirs": (":", "")}


def against_rates(content: Content) -> Figure:
    """One row a data set and radius, one panel a noise and attack; the lines of the paper are dotted."""
    rows = [row for row in content["rows"] if row["epoch"] == PART[row["protocol"]] and row["ours"] is not None]
    noises = [noise for noise in NOISES if any(row["noise"] == noise for row in rows)] or [NO_NOISE]
    shown = [
        (place, column, noise, members(rows, place, noise, column))
        for place, column, noise in product(places(rows), COLUMNS, noises)
    ]
    figure, panels = grid(len(shown), across=len(COLUMNS) * len(noises), size=(3.4, 3.0))
    for panel, (place, column, noise, own) in zip(panels, shown, strict=True):
        if not own:
            panel.remove()
            continue
        draw_methods(panel, own)
        title = fill(f"{title_of(*place)}, {noise}", LONGEST)
        tidy(panel, title, "noise rate in %", f"error in %: {attack_title(column)}")
        small_above_large(panel)
    figure.axes[0].plot([], [], SIDES["theirs"][0], color=GRAY, label="the paper's")
    notes = [epochs_note(content["runs"]), ERRORS_NOTE]
    return finish(figure, content["what"], notes, columns=8)


def members(rows: Sequence[Record], place: Place, noise: str, column: str) -> list[Record]:
    """The rows of one panel; every noise starts at the rows without noise."""
    here = [row for row in rows if place_of(row) == place and row["column"] == column]
    own = [row for row in here if row["noise"] == noise]
    return own if noise == NO_NOISE or not own else [row for row in here if row["noise"] == NO_NOISE] + own


def draw_methods(panel: Axes, rows: Sequence[Record]) -> None:
    """One line a method, and one dotted line for the paper's numbers."""
    for method, color in METHODS.items():
        for side, (style, marker) in SIDES.items():
            own = [
                (row["rate"], error_of(row[side])) for row in rows if row["method"] == method and row[side] is not None
            ]
            label = method if side == "ours" else "_"  # hidden in the legend
            if own:
                draw_line(panel, Line(label, color, style, gathered(own)), marker)
    panel.set_xticks(sorted({row["rate"] for row in rows}))
