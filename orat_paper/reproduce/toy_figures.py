"""The toy sets as the paper draws them: points, outliers, the attack's squares and decision boundaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from orat.data.catalog import load
from orat.data.source import Dataset
from orat.evaluation.curves import BLUE, RED
from orat.training.load import finished_run, load_model
from orat_paper.reproduce.outcomes import LAST
from orat_paper.reproduce.panels import LETTER, LINE, Content, Record, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS, LIGHT = (BLUE, RED), ("#cfe0f3", "#f6d3cf")  # of both classes, and of their predicted regions
YELLOW = "#e0b000"
MARGIN, STEP = 0.06, 0.002  # around the points, and between the points of the grid
WIDTH, WORDS = 4.3, 0.6  # of a panel in inches: its width, and the height of its title and labels
LONGEST = int(WIDTH / LETTER)  # letters in a line above a panel
SETS = {
    "toy-balanced": "balanced, two outliers", "toy-imbalanced": "imbalanced, one outlier",
    "toy-imbalanced-2": "imbalanced (appendix), one outlier",
}  # fmt: skip
SHOWN = {"natural": "natural", "pgd20": "PGD-20"}
STYLES = ("-", "--", ":", "-.", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 3)))


@dataclass(frozen=True)
class Field:
    """The drawn part of the plane."""

    across: Tensor
    up: Tensor

    @classmethod
    def around(cls, points: Tensor) -> Field:
        """All points and a margin, within the unit square of the inputs."""
        low, high = (points.amin(0) - MARGIN).clamp(min=0), (points.amax(0) + MARGIN).clamp(max=1)
        return cls(*(torch.arange(start, end, STEP) for start, end in zip(low.tolist(), high.tolist(), strict=True)))

    def margins(self, model: nn.Module) -> Tensor:
        """The difference of the logits on a grid: above 0 for the second class."""
        x, y = torch.meshgrid(self.across, self.up, indexing="xy")
        with torch.no_grad():
            logits = model(torch.stack([x.flatten(), y.flatten()], 1))
        return (logits[:, 1] - logits[:, 0]).view(x.shape)


@dataclass(frozen=True)
class Learned:
    """The networks of one method on one set: all seeds, and their accuracies in words."""

    runs: Sequence[Record]
    models: Sequence[nn.Module]
    words: Sequence[str]

    @classmethod
    def of(cls, runs: Sequence[Record], out: Path, test: Dataset | None) -> Learned:
        """Loads the networks of the runs."""
        models = [load_model(out / run["folder"]) for run in runs]
        return cls(runs, models, accuracies(runs, models, test))


def toy(content: Content, out: Path) -> Figure:
    """One row of panels a set, one column a method: regions of the first seed, boundaries of all."""
    from matplotlib.figure import Figure

    runs = sorted(content["runs"], key=lambda run: run["seed"])
    sets, methods = (list(dict.fromkeys(run[name] for run in content["runs"])) for name in ("data", "method"))
    first = {run["data"]: finished_run(out / run["folder"]) for run in reversed(runs)}
    splits = {data: load(first[data].data) for data in sets}
    fields = {data: Field.around(splits[data].train.images) for data in sets}
    members = {
        place: [run for run in runs if (run["data"], run["method"]) == place] for place in product(sets, methods)
    }
    cells = {place: Learned.of(own, out, splits[place[0]].test) for place, own in members.items() if own}
    words = WORDS + LINE * max(len(cell.words) for cell in cells.values())
    heights = [words + WIDTH * len(field.up) / len(field.across) for field in fields.values()]
    figure = Figure(figsize=(max(6.4, WIDTH * len(methods)), 0.4 + sum(heights)), dpi=150, layout="constrained")
    panels = figure.subplots(len(sets), len(methods), squeeze=False, height_ratios=heights).flatten()
    for (data, method), panel in zip(members, panels, strict=True):
        if (data, method) not in cells:
            panel.remove()
            continue
        draw_sides(panel, fields[data], cells[data, method])
        draw_points(panel, splits[data].train, first[data].eps)
        describe(panel, cells[data, method])
    return finish(figure, content["what"], [note(runs)], columns=4)


def draw_sides(panel: Axes, field: Field, cell: Learned) -> None:
    """Draws the predicted regions of the first network and the decision boundaries of all."""
    for number, (model, run) in enumerate(zip(cell.models, cell.runs, strict=True)):
        margins = field.margins(model)
        place = field.across.numpy(), field.up.numpy(), margins.numpy()
        if number == 0:
            ends = [min(margins.min().item(), 0) - 1, 0, max(margins.max().item(), 0) + 1]
            panel.contourf(*place, levels=ends, colors=LIGHT, zorder=0)
        style = STYLES[number % len(STYLES)]
        panel.plot(
            [], [], linestyle=style, color="black", linewidth=1.4, label=f"decision boundary, seed {run['seed']}"
        )
        if margins.min() < 0 < margins.max():
            panel.contour(*place, levels=[0], colors="black", linestyles=[style], linewidths=1.4, zorder=1)
    panel.set_xlim(field.across[0].item(), field.across[-1].item())
    panel.set_ylim(field.up[0].item(), field.up[-1].item())
    panel.set_aspect("equal")


def draw_points(panel: Axes, train: Dataset, eps: float) -> None:
    """Draws the training points in the colors of their labels, the attack's squares, and the outliers."""
    from matplotlib.collections import PolyCollection

    corners = eps * torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    squares = (train.images[:, None] + corners).numpy()
    panel.add_collection(
        PolyCollection(list(squares), facecolors="none", edgecolors=YELLOW, linewidths=0.5, zorder=2,
                       label=f"reach of the attack, eps {eps:g}")
    )  # fmt: skip
    flipped = torch.zeros_like(train.labels, dtype=torch.bool) if train.wrong is None else train.wrong
    for label, (name, color) in enumerate(zip(train.classes, COLORS, strict=True)):
        there = train.images[(train.labels == label) & ~flipped]
        panel.plot(*there.T.numpy(), "o", color=color, markersize=2.6, zorder=3, label=f"training point, {name}")
        wrong = train.images[(train.labels == label) & flipped]
        if len(wrong):
            panel.plot(*wrong.T.numpy(), "X", color=color, markersize=9, markeredgecolor="black", zorder=4,
                       label=f"outlier, labeled {name}")  # fmt: skip


def describe(panel: Axes, cell: Learned) -> None:
    """Adds the method, the set, the accuracies and the axes."""
    run = cell.runs[0]
    name = f"{run['method']}: {SETS.get(run['data'], run['data'])}"
    panel.set_title("\n".join([name, *cell.words]), fontsize=10)
    panel.set_xlabel("first coordinate", fontsize=9)
    panel.set_ylabel("second coordinate", fontsize=9)
    panel.tick_params(labelsize=8)


def accuracies(runs: Sequence[Record], models: Sequence[nn.Module], test: Dataset | None) -> list[str]:
    """The test accuracy of every seed, in all and by class: a rare class hardly counts in the whole."""
    lines = fitting([f"{name} {listed(run['accuracy'][LAST][key] for run in runs)} %" for key, name in SHOWN.items()])
    if test is not None:
        with torch.no_grad():
            right = [model(test.images).argmax(1) == test.labels for model in models]
        parts = ((name, test.labels == label) for label, name in enumerate(test.classes))
        lines += fitting(
            [f"{name} {listed(one[part].float().mean().item() for one in right)} %" for name, part in parts]
        )
    return lines


def fitting(texts: Sequence[str]) -> list[str]:
    """The texts in one line if it fits a panel, else one line a text."""
    whole = ", ".join(texts)
    return [whole] if len(whole) <= LONGEST else [line for text in texts for line in wrap(text, LONGEST)]


def listed(shares: Iterable[float]) -> str:
    """Shares in percent, in the order of the seeds."""
    return " / ".join(f"{100 * share:.1f}".removesuffix(".0") for share in shares)


def note(runs: Sequence[Record]) -> str:
    """A note on the drawn seeds and on the titles."""
    seeds = sorted({run["seed"] for run in runs})
    several = f", seeds {' / '.join(map(str, seeds))}" if len(seeds) > 1 else ""
    return (
        f"shaded: the class predicted by the network of seed {seeds[0]}; "
        f"titles: accuracy on test points without outliers, in all and by class{several}"
    )
