"""The bounds of Theorem 3 and the measured gap as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, nan, sqrt
from typing import TYPE_CHECKING

import torch

from orat.evaluation.curves import BLUE, GRAY, GREEN, ORANGE, RED
from orat_paper.theory.complexity import complexity_from_norms
from orat_paper.theory.gap import Gap
from orat_paper.theory.generalization import Bound, Setting, linear_bound, network_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIMENSION, HIDDEN, EPS, NU, N = 784, 100, 0.1, 0.8, 60_000  # as of MNIST, with pixels in 0..1
# Name of a class -> color and exponent of its norm. The network has outer weights of l_1 norm 1.
LINEAR = {
    r"linear, $\|\theta\|_1 \leq 1$": (BLUE, 1.0),
    r"linear, $\|\theta\|_2 \leq 1$": (ORANGE, 2.0),
    r"linear, $\|\theta\|_\infty \leq 1$": (GREEN, inf),
}
NETWORK = rf"{HIDDEN} ReLUs, $\|w\|_1 \leq 1$"


def class_bound(p: float, n: float, nu: float, eps: float, hidden: int = 0) -> Bound:
    """Theorem 3 for losses in 0..1 and functions of norm 1 on images: linear ones, or networks if `hidden`."""
    setting = Setting(int(n), nu, loss_max=1.0)
    if hidden:
        return network_bound(1.0, DIMENSION, hidden, 1.0, 1.0, p, eps, setting)
    norms = torch.full((DIMENSION,), sqrt(int(n)), dtype=torch.float64)
    return linear_bound(complexity_from_norms(norms, int(n), 1.0, p), DIMENSION, 1.0, p, eps, setting)


def bounds_figure() -> Figure:
    """The bound against n, nu and eps, for losses in 0..1 such as the clipped hinge loss."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.4), dpi=150, layout="constrained")
    panels = figure.subplots(1, 3, sharey=True).tolist()
    sizes = torch.logspace(3, 8, 41).tolist()
    shares, radii = torch.linspace(0.05, 1, 39).tolist(), torch.linspace(0, 0.5, 26).tolist()
    draw_panel(panels[0], sizes, lambda n, p, hidden: class_bound(p, n, NU, EPS, hidden))
    draw_panel(panels[1], shares, lambda nu, p, hidden: class_bound(p, N, nu, EPS, hidden))
    draw_panel(panels[2], radii, lambda eps, p, hidden: class_bound(p, N, NU, eps, hidden))
    panels[0].set_xscale("log")
    panels[1].set_xlim(left=0)
    panels[0].set_yscale("log")
    panels[0].set_ylabel("bound of the gap (losses in 0..1)", fontsize=12)
    labels = (
        f"training samples n\n(ν = {NU:g}, ε = {EPS:g})",
        f"share that counts, ν = (k − m) / n\n(n = {N:,}, ε = {EPS:g})",
        rf"ε of the $\ell_\infty$ attack"
        f"\n(n = {N:,}, ν = {NU:g})",
    )
    for panel, label in zip(panels, labels, strict=True):
        panel.set_xlabel(label, fontsize=12)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=11)
    return figure


def draw_panel(panel: Axes, places: Sequence[float], bound: Callable[[float, float, int], Bound]) -> None:
    """Draws one line for every class, and the height of a vacuous bound."""
    classes = [(name, color, p, 0) for name, (color, p) in LINEAR.items()] + [(NETWORK, RED, 1.0, HIDDEN)]
    for name, color, p, hidden in classes:
        bounds = [bound(place, p, hidden) for place in places]
        panel.plot(places, [each.value for each in bounds], color=color, linewidth=2, label=name)
    panel.axhline(1, color=GRAY, linestyle="--", linewidth=1.2, label="above it a bound says nothing")
    tidy(panel)


def gap_figure(gaps: Sequence[Gap]) -> Figure:
    """The measured gap and the bound against n; the logarithmic axis leaves out a gap of 0 or less."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.8), dpi=150, layout="constrained")
    panel = figure.add_subplot()
    sizes, draws = [gap.n for gap in gaps], len(gaps[0].trained)
    loss_max = gaps[0].bound.loss_max
    lines = (
        ("bound of Theorem 3", [gap.bound.value for gap in gaps], RED, "-"),
        ("worst function of the class", [max(gap.largest) for gap in gaps], ORANGE, "o-"),
        ("trained function", [max(gap.trained) for gap in gaps], BLUE, "s-"),
    )
    for name, heights, color, style in lines:
        shown = [height if height > 0 else nan for height in heights]
        panel.plot(sizes, shown, style, color=color, linewidth=2, markersize=5, label=name)
    panel.axhline(loss_max, color=GRAY, linestyle="--", linewidth=1.2, label=f"largest loss M = {loss_max:.1f}")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(sizes, [f"{n:,}" for n in sizes])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("training points n", fontsize=12)
    panel.set_ylabel(f"gap of the ORAT risk, {'one draw' if draws == 1 else f'largest of {draws} draws'}", fontsize=12)
    tidy(panel)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=11)
    return figure


def tidy(panel: Axes) -> None:
    """The common look of the panels."""
    panel.grid(color="#dddddd", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=10)
    panel.spines[["top", "right"]].set_visible(False)
