"""Figures of lines: loss and accuracy against epochs, accuracy against m or n - k (paper, Figures 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean
from typing import TYPE_CHECKING

from orat.evaluation.curves import BLUE, GRAY, GREEN, ORANGE, RED
from orat_paper.reproduce.artifacts import AUTOMATIC, OTHERS, SIZES, ranks
from orat_paper.reproduce.panels import (
    COLORS,
    PART,
    STYLES,
    Content,
    Line,
    Record,
    attack_title,
    draw_line,
    epochs_note,
    finish,
    gathered,
    grid,
    place_of,
    places,
    seeds_note,
    tidy,
    title_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATES = {10: BLUE, 20: GREEN, 30: ORANGE, 40: RED}
START = 0.1  # share of the epochs
BEST_OTHER = "best other method"
FAR = 10  # a median this many times below the largest value asks for a logarithmic axis


def loss_curves(content: Content) -> Figure:
    """The training loss against epochs, one line a noise rate."""
    here = places(content["runs"])
    figure, panels = grid(len(here))
    for panel, place in zip(panels, here, strict=True):
        runs = [run for run in content["runs"] if place_of(run) == place]
        for rate, method in dict.fromkeys((run["rate"], run["method"]) for run in runs):
            members = [run for run in runs if (run["rate"], run["method"]) == (rate, method)]
            label = f"{rate} % noise" + ("" if method == "ORAT" else f", {method}")
            draw_line(panel, Line(label, RATES.get(rate, GRAY), STYLES.get(method, "-"), curve_of(members, "loss")))
        draw_drops(panel, runs)
        tidy(panel, title_of(*place), "epoch", "training loss (objective)")
    return finish(figure, content["what"], [seeds_note(content["runs"])])


def accuracy_curves(content: Content) -> Figure:
    """Accuracy on the test set against epochs: one color an attack, one style a method."""
    here = places(content["runs"])
    figure, panels = grid(len(here))
    for panel, place in zip(panels, here, strict=True):
        runs = [run for run in content["runs"] if place_of(run) == place]
        for column in columns_of(runs):
            for method in dict.fromkeys(run["method"] for run in runs):
                points = curve_of([run for run in runs if run["method"] == method], column, 100)
                label = f"{attack_title(column)}, {method}"
                draw_line(panel, Line(label, COLORS.get(column, GRAY), STYLES.get(method, "-"), points))
        draw_drops(panel, runs)
        leave_out_start(panel, runs)
        tidy(panel, title_of(*place), "epoch", "test accuracy in %")
    return finish(figure, content["what"], [seeds_note(content["runs"])])


def clothing_curves(content: Content) -> Figure:
    """Accuracy on the test set against epochs: one panel an attack, one line a method and training set."""
    runs = content["runs"]
    columns = columns_of(runs)
    figure, panels = grid(len(columns), across=2)
    names = list(dict.fromkeys(map(training_of, runs)))
    for panel, column in zip(panels, columns, strict=True):
        for name, color in zip(names, (BLUE, ORANGE, RED, GREEN), strict=False):
            members = [run for run in runs if training_of(run) == name]
            style = STYLES.get(members[0]["method"], "-")
            draw_line(panel, Line(name, color, style, curve_of(members, column, 100)))
        draw_drops(panel, runs)
        leave_out_start(panel, runs, [column])
        tidy(panel, f"{attack_title(column)}, eps {runs[0]['eps']}", "epoch", "test accuracy in %")
    return finish(figure, content["what"], [seeds_note(runs)], columns=2)


def training_of(run: Record) -> str:
    """The paper's name of a run on Clothing1M."""
    return f"{run['method']} ({run['rate']} % noise)" if run["rate"] else f"{run['method']} (no noise)"


def columns_of(runs: Sequence[Record]) -> list[str]:
    """The accuracies in the curves."""
    first = runs[0]["curve"][0] if runs[0]["curve"] else {}
    return [name for name in first if name not in ("epoch", "loss")]


def curve_of(runs: Iterable[Record], column: str, factor: float = 1) -> dict[float, list[float]]:
    """A column against epochs."""
    return gathered((point["epoch"], factor * point[column]) for run in runs for point in run["curve"])


def draw_drops(panel: Axes, runs: Iterable[Record]) -> None:
    """Marks the drops of the learning rate, which the paper's text on its curves mentions."""
    for number, epoch in enumerate(sorted({epoch for run in runs for epoch in run["run"]["milestones"]})):
        label = None if number else "learning rate divided by 10"
        panel.axvline(epoch, color=GRAY, linestyle=(0, (1, 3)), linewidth=1.1, label=label)


def leave_out_start(panel: Axes, runs: Sequence[Record], columns: Sequence[str] = ()) -> None:
    """Ends the axis below the lines of the later epochs: the rise of the first leaves no room for differences."""
    epochs = [point for run in runs for point in run["curve"]]
    first = START * max(point["epoch"] for point in epochs)
    later = [100 * point[name] for point in epochs if point["epoch"] > first for name in columns or columns_of(runs)]
    low, high = min(later), panel.get_ylim()[1]
    panel.set_ylim(bottom=low - 0.05 * (high - low), top=high)


def effect_of_m(content: Content) -> Figure:
    """Accuracy against m, with k = n."""
    return effect(content, "m", "m, the largest losses dropped")


def effect_of_k(content: Content) -> Figure:
    """Accuracy against n - k, with the paper's m."""
    return effect(content, "k", "n - k, the smallest losses dropped")


def effect(content: Content, name: str, words: str) -> Figure:
    """Accuracy against a rank, one line an attack, with a mark at the paper's choice."""
    here = places(content["runs"])
    figure, panels = grid(len(here))
    for panel, place in zip(panels, here, strict=True):
        runs = [run for run in content["runs"] if place_of(run) == place]
        for column in runs[0]["accuracy"][PART[place[0]]]:
            draw_effect(panel, runs, name, column)
        scale(panel, [dropped(row, name) for row in content["rows"] if place_of(row) == place and is_ranked(row)])
        draw_choice(panel, runs[0], name)
        tidy(panel, title_of(*place), words, "test accuracy in %")
    others = [name for name in OTHERS if any(run["method"] == name for run in content["runs"])]
    notes = [f"{BEST_OTHER}: of {', '.join(others)}, in each column by itself"] if others else []
    notes += [epochs_note(content["runs"]), seeds_note(content["runs"])]
    return finish(figure, content["what"], notes)


def draw_effect(panel: Axes, runs: Sequence[Record], name: str, column: str) -> None:
    """One attack: accuracy against the rank, and level lines for ORAT (automatic) and the best other method."""
    color, title = COLORS.get(column, GRAY), attack_title(column)
    reached = [(run, 100 * run["accuracy"][PART[run["protocol"]]][column]) for run in runs]
    points = gathered((dropped(run, name), value) for run, value in reached if is_ranked(run))
    draw_line(panel, Line(title, color, "-", points), "o")
    means = {
        method: mean(value for run, value in reached if run["method"] == method)
        for method in dict.fromkeys(run["method"] for run in runs if not is_ranked(run))
    }
    automatic, other = means.pop(AUTOMATIC, None), max(means.values(), default=None)
    for height, style, what in ((automatic, STYLES[AUTOMATIC], AUTOMATIC), (other, "--", BEST_OTHER)):
        if height is not None:
            panel.axhline(height, color=color, linestyle=style, linewidth=1.2, label=f"{title}, {what}")


def is_ranked(record: Record) -> bool:
    """Whether the run has k and m."""
    return record["m"] is not None


def dropped(record: Record, name: str) -> int:
    """The number of dropped losses: the largest for m, the smallest for k."""
    m, k = int(record["m"]), int(record["k"])
    return m if name == "m" else SIZES[record["data"]] - k


def draw_choice(panel: Axes, run: Record, name: str) -> None:
    """Marks the rank in the paper's tables."""
    k, m = ranks(run["data"], run["eps"], run["noise"], run["rate"])
    place = dropped({"data": run["data"], "k": k, "m": m}, name)
    panel.axvline(place, color=GRAY, linestyle="--", linewidth=1.2, label="the paper's choice")


def scale(panel: Axes, values: Sequence[int]) -> None:
    """A logarithmic axis with room for 0 where most values are small."""
    from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

    ranked = sorted(set(values)) or [0]
    if ranked[len(ranked) // 2] * FAR < ranked[-1]:
        least = next(value for value in ranked if value > 0)
        panel.set_xscale("symlog", linthresh=least, linscale=0.5)
        powers = [10**power for power in range(6) if least <= 10**power <= ranked[-1]]
        panel.set_xticks([0, *powers] if ranked[0] == 0 else powers)
        panel.set_xlim(left=-least / 4 if ranked[0] == 0 else None, right=1.2 * ranked[-1])
        panel.xaxis.set_minor_locator(NullLocator())
    else:
        panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
