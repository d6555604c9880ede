"""The figures of a search as a picture: a heat map of two fields, a curve of one, a panel for each of more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, isnan, log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orat.core.plots import write_figure
from orat.evaluation.curves import BLUE, GRAY, ORANGE, RED
from orat.sweeps.space import Axis, Range, Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"natural": "natural", "pgd10": "PGD-10"}
SPREAD = 20  # a field whose largest value is so many times its smallest is drawn on a logarithmic scale
ROOM = 0.11  # of the axis, for a tick and its label

Rows = Sequence[Mapping[str, Any]]


def write_picture(rows: Rows, axes: Sequence[Axis], by: str, file: Path) -> None:
    """Draws the rows of a search, best first."""
    write_figure(lambda: picture(rows, axes, by), file)


def picture(rows: Rows, axes: Sequence[Axis], by: str) -> Figure:
    """What suits the number of fields."""
    from matplotlib.figure import Figure

    if len(axes) == 2 and all(isinstance(axis, Values) for axis in axes):
        across, down = (len(axis.corners()) for axis in axes)
        figure = Figure(figsize=(max(5.0, 2.4 + 0.8 * across), max(3.4, 1.8 + 0.55 * down)), dpi=150)
        figure.set_layout_engine("constrained")
        draw_heat_map(figure, rows, axes[0], axes[1], by)
        return figure
    wide = min(len(axes), 3)
    high = ceil(len(axes) / wide)
    figure = Figure(figsize=(max(6.4, 4.2 * wide), 0.6 + 3.6 * high), dpi=150, layout="constrained")
    panels = figure.subplots(high, wide, sharey=True, squeeze=False).flatten().tolist()
    for panel, axis in zip(panels, axes, strict=False):
        draw_panel(panel, rows, axis, by, joined=len(axes) == 1)
    for panel in panels[len(axes) :]:
        panel.remove()
    for panel in panels[: len(axes) : wide]:
        panel.set_ylabel(f"{TITLES[by]} accuracy in % on validation", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=10)
    return figure


def draw_heat_map(figure: Figure, rows: Rows, across: Axis, down: Axis, by: str) -> None:
    """One cell a choice with its figure written in; the best has a frame, one without a result is gray."""
    from matplotlib.patches import Rectangle

    shares = cells(rows, across, down, by)
    panel = figure.add_subplot()
    panel.set_facecolor("#d9d9d9")
    image = panel.imshow(shares, aspect="auto", origin="lower", cmap="viridis")
    label_values(panel, across, down)
    low, high = image.get_clim()
    for y, line in enumerate(shares):
        for x, share in enumerate(line):
            missing = isnan(share)
            shade = "black" if missing or share > low + 0.6 * (high - low) else "white"
            text = "none" if missing else f"{share:.1f}"
            panel.text(x, y, text, ha="center", va="center", color=shade, fontsize=10)
    x, y = (in_order(axis).index(text_of(axis, rows[0])) for axis in (across, down))
    panel.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=ORANGE, linewidth=3.5, clip_on=False))
    best = ", ".join(f"{axis.field} = {text_of(axis, rows[0])}" for axis in (across, down))
    panel.set_title(f"best (framed): {best}", fontsize=11, wrap=True)
    figure.colorbar(image, ax=panel, label=f"{TITLES[by]} accuracy in % on validation")


def cells(rows: Rows, across: Axis, down: Axis, by: str) -> list[list[float]]:
    """The figures in percent by place, from below; nan where there is none."""
    found = {(text_of(across, row), text_of(down, row)): 100 * row["validation"].get(by, float("nan")) for row in rows}
    return [[found.get((x, y), float("nan")) for x in in_order(across)] for y in in_order(down)]


def label_values(panel: Axes, across: Axis, down: Axis) -> None:
    """The fields and their values beside the cells."""
    texts = in_order(across)
    crowded = max(len(text) for text in texts) > 7
    panel.set_xticks(range(len(texts)), texts, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    panel.set_yticks(range(len(in_order(down))), in_order(down))
    panel.set_xlabel(across.field, fontsize=12)
    panel.set_ylabel(down.field, fontsize=12)


def in_order(axis: Axis) -> list[str]:
    """How the values are written: numbers from small to large, others as they were given."""
    texts = axis.corners()
    return sorted(texts, key=axis.read) if has_scale(axis) else texts


def text_of(axis: Axis, row: Mapping[str, Any]) -> str:
    """How the value of a row is written."""
    value = row["setting"][axis.field]
    if isinstance(axis, Range):
        return str(value)
    return next(text for text, other in axis.by_text.items() if other == value and type(other) is type(value))


def draw_panel(panel: Axes, rows: Rows, axis: Axis, by: str, joined: bool) -> None:
    """Accuracy against one field: a point a run, the best marked, and a cross below for a run without a result."""
    places = place_values(panel, axis, rows)
    good = sorted(
        (place, 100 * row["validation"][by]) for place, row in zip(places, rows, strict=True) if not row["error"]
    )
    bad = [place for place, row in zip(places, rows, strict=True) if row["error"]]
    line = "o-" if joined and has_scale(axis) else "o"
    panel.plot(*zip(*good, strict=True), line, color=BLUE, markersize=5, label="one run")
    best = 100 * rows[0]["validation"][by]
    panel.plot(places[0], best, "*", color=ORANGE, markersize=15, markeredgecolor=GRAY, label=f"best: {best:.1f}")
    if bad:  # below all others, which have an accuracy
        panel.margins(y=0.12)
        panel.plot(bad, [0.03] * len(bad), "x", color=RED, transform=panel.get_xaxis_transform(), label="no result")
    panel.set_xlabel(axis.field, fontsize=12)
    panel.grid(color="#dddddd", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=10, labelleft=True)
    panel.spines[["top", "right"]].set_visible(False)


def place_values(panel: Axes, axis: Axis, rows: Rows) -> list[float]:
    """Where each row lies along a field: at its number, or at the place of its value among others."""
    if not has_scale(axis):
        texts = axis.corners()
        crowded = sum(len(text) for text in texts) > 30
        panel.set_xticks(range(len(texts)), texts, rotation=30 if crowded else 0, ha="right" if crowded else "center")
        panel.set_xlim(-0.5, len(texts) - 0.5)
        return [float(texts.index(text_of(axis, row))) for row in rows]
    scale_numbers(panel, axis)
    return [float(row["setting"][axis.field]) for row in rows]


def scale_numbers(panel: Axes, axis: Axis) -> None:
    """A logarithmic scale where it was asked for or values lie far apart; ticks at listed values that have room."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    texts = in_order(axis)
    values = [axis.read(text) for text in texts]
    far_apart = values[0] > 0 and values[-1] >= SPREAD * values[0]
    if axis.log if isinstance(axis, Range) else far_apart:
        panel.set_xscale("log")
        places = [log(value) for value in values]
    else:
        places = values
        if isinstance(values[0], int):
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    gaps = [after - before for before, after in pairwise(places)]
    if isinstance(axis, Values) and min(gaps, default=1) >= ROOM * (places[-1] - places[0]):
        panel.set_xticks(values, texts)
        panel.xaxis.set_minor_locator(NullLocator())


def has_scale(axis: Axis) -> bool:
    """Whether the values are numbers of one kind: counts and fractions of m have no common scale."""
    return {type(axis.read(text)) for text in axis.corners()} in ({int}, {float})
