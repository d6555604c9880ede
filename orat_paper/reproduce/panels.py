"""Parts of all figures: panels in rows, lines of several seeds, titles and colors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import mean
from textwrap import fill
from typing import TYPE_CHECKING, Any

from orat.cli.tables import TITLES
from orat.evaluation.curves import BLUE, GRAY, GREEN, ORANGE, RED
from orat_paper.reproduce.artifacts import AUTOMATIC, RADII
from orat_paper.reproduce.outcomes import BEST, LAST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTER, LINE, HANDLE = 0.08, 0.21, 0.6  # inches: width of a letter, height of a line, width of a mark in the legend
ACROSS = 3  # panels in a row, one a data set
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "clothing1m": "Clothing1M"}
COLORS = {"natural": BLUE, "fgsm": GREEN, "pgd20": ORANGE, "cw": RED, "autoattack": GRAY}
STYLES = {"ORAT": "-", "AT": "--", AUTOMATIC: ":"}
PART = {"ours": LAST, "authors": BEST, "authors-right": BEST}  # the drawn epoch
LEAST = 0.01  # smallest drawn error, one image of 10,000: a logarithmic scale has no 0
ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)  # in %, with a tick
FEW_TICKS = 3  # the least number on a scale
ERRORS_NOTE = "100 less the accuracy, on a logarithmic scale: above is better"
EPOCHS = {
    "ours": "ours: last epoch",
    "authors": "as the authors: best epoch of each column on the test set",
    "authors-right": "as the authors on right images: best epoch of each column on the test set",
}

NAMED = {"authors": "as the authors", "authors-right": "as the authors, right images"}  # in titles

Content = Mapping[str, Any]  # a report, from `comparison.content`
Record = Mapping[str, Any]  # one of its runs or rows
Place = tuple[str, str, str]  # protocol, data set and radius, for one panel


@dataclass(frozen=True)
class Line:
    """A line: its values by position on the axis, one value a seed."""

    label: str
    color: str
    style: str
    points: Mapping[float, Sequence[float]]


def place_of(record: Record) -> Place:
    """The panel of a run or row."""
    return record["protocol"], record["data"], record["eps"]


def places(records: Iterable[Record]) -> list[Place]:
    """The panels in the paper's order: small radii above large ones, data sets side by side."""
    order = [(protocol, data, eps) for protocol in PART for row in zip(*RADII.values(), strict=True)
             for data, eps in zip(RADII, row, strict=True)]  # fmt: skip
    found = dict.fromkeys(place_of(record) for record in records)
    return sorted(found, key=lambda place: order.index(place) if place in order else len(order))


def title_of(protocol: str, data: str, eps: str | None = None) -> str:
    """The title of a panel."""
    parts = (DATA.get(data, data), eps and f"eps {eps}", NAMED.get(protocol))
    return ", ".join(part for part in parts if part)


def gathered(points: Iterable[tuple[float, float]]) -> dict[float, list[float]]:
    """The values of all seeds by position on the axis."""
    found: dict[float, list[float]] = {}
    for x, y in sorted(points):
        found.setdefault(x, []).append(y)
    return found


def draw_line(panel: Axes, line: Line, marker: str = "") -> None:
    """Draws the mean of the seeds, and a band from the least to the largest value of several seeds."""
    xs = list(line.points)
    if any(len(values) > 1 for values in line.points.values()):
        low, high = ([pick(values) for values in line.points.values()] for pick in (min, max))
        panel.fill_between(xs, low, high, color=line.color, alpha=0.18, linewidth=0)
    ys = [mean(values) for values in line.points.values()]
    panel.plot(
        xs, ys, marker=marker, linestyle=line.style, color=line.color, linewidth=1.8, markersize=4.5, label=line.label
    )


def grid(count: int, across: int = ACROSS, size: tuple[float, float] = (4.2, 3.1)) -> tuple[Figure, list[Axes]]:
    """A figure with a number of panels, row by row."""
    from matplotlib.figure import Figure

    wide = min(count, across)
    high = ceil(count / wide)
    figure = Figure(figsize=(max(6.4, size[0] * wide), 0.4 + size[1] * high), dpi=150, layout="constrained")
    panels = figure.subplots(high, wide, squeeze=False).flatten().tolist()
    for panel in panels[count:]:
        panel.remove()
    return figure, panels[:count]


def tidy(panel: Axes, title: str, across: str, up: str) -> None:
    """The common look of a panel."""
    panel.set_title(title, fontsize=11)
    panel.set_xlabel(across, fontsize=10)
    panel.set_ylabel(up, fontsize=10)
    panel.grid(color="#dddddd", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=9)
    panel.spines[["top", "right"]].set_visible(False)


def error_of(accuracy: float) -> float:
    """The error in %, at least the smallest drawn error."""
    return max(LEAST, 100 - accuracy)


def small_above_large(panel: Axes) -> None:
    """A logarithmic error axis, which shows differences of small and of large errors."""
    from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

    panel.set_yscale("log")
    low, high = panel.get_ylim()
    ticks = [tick for tick in ERRORS if low <= tick <= high]
    if len(ticks) < FEW_TICKS:
        ticks = [tick for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]
    panel.set_yticks(ticks)
    panel.yaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.set_ylim(high, low)


def finish(figure: Figure, title: str, notes: Iterable[str], columns: int = 5) -> Figure:
    """Adds the title above all panels, and the notes and one legend below."""
    figure.suptitle(title, fontsize=13)
    known: dict[str, Any] = {}
    for panel in figure.axes:
        handles, labels = panel.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    width = figure.get_figwidth()
    fitting = max(1, min(columns, int(width / (LETTER * max(map(len, known)) + HANDLE))))
    text = "\n".join(fill(note, int(width / LETTER)) for note in notes)
    figure.set_figheight(figure.get_figheight() + LINE * (text.count("\n") + 2 + ceil(len(known) / fitting)))
    legend = figure.legend(
        list(known.values()), list(known), loc="outside lower center", ncols=fitting, frameon=False, fontsize=10,
        title=text, title_fontsize=10,
    )  # fmt: skip
    legend.get_title().set_multialignment("center")
    return figure


def epochs_note(runs: Iterable[Record]) -> str:
    """A note on the drawn epoch."""
    return "; ".join(EPOCHS[name] for name in dict.fromkeys(run["protocol"] for run in runs))


def seeds_note(runs: Iterable[Record]) -> str:
    """A note on the seeds, and on the band of several seeds."""
    seeds = sorted({run["seed"] for run in runs})
    if len(seeds) == 1:
        return f"one run each, seed {seeds[0]}"
    return f"line: mean of seeds {', '.join(map(str, seeds))}; band: from the least to the largest"


def attack_title(column: str) -> str:
    """The title of an accuracy."""
    return TITLES.get(column, column)
