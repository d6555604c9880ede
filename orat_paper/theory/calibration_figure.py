"""Theorem 2 as a picture: its conditions, and calibration of the ORAT loss by brute force."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.evaluation.curves import BLUE, GRAY, GREEN, RED
from orat_paper.theory.calibration import (
    MarginLoss,
    OratLoss,
    failing,
    hinge,
    logistic,
    stated_of_loss,
    stated_of_scalars,
)
from orat_paper.theory.calibration_function import all_functions, counterexample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOWER_MAX, WIDTH_MAX = 1.2, 2.4
LOWERS, WIDTHS = 48, 50  # cells of a panel; no center lies on a border
ETAS = (0.5, 0.75, 1.0)  # the label -1 mirrors them
# (conditions hold, loss calibrated) -> color, strength of the color, name.
KINDS = {
    (True, True): (BLUE, 0.45, "conditions hold, calibrated"),
    (True, False): (RED, 0.75, "conditions hold, NOT calibrated"),
    (False, True): (GREEN, 0.3, "a condition fails, calibrated"),
    (False, False): (GRAY, 0.12, "a condition fails, not calibrated"),
}


@dataclass(frozen=True)
class Plane:
    """A loss, the other numbers of Theorem 2, and a pair of scalars for which the theorem is false."""

    name: str
    loss: MarginLoss
    loss_at_zero: float
    nu: float
    risk: float  # the least risk of the plain loss
    false_at: tuple[float, float]  # lambda and lambda-hat


# The settings of errata 4 and 5.
PLANES = (
    Plane("logistic", logistic, log(2), nu=0.75, risk=log(2), false_at=(log(2), 1.0)),
    Plane("hinge", hinge, 1.0, nu=0.8, risk=0.2, false_at=(0.0, 2.0)),
)


def centers(end: float, cells: int) -> list[float]:
    """The middle of each cell of 0..end."""
    return [end * (place + 0.5) / cells for place in range(cells)]


def conditions_hold(plane: Plane) -> Tensor:
    """Whether all printed conditions of Theorem 2 hold, one row a lambda-hat."""
    of_loss = not failing(stated_of_loss(plane.loss))
    rows = [
        [
            of_loss and not failing(stated_of_scalars(OratLoss(plane.loss, lower, width), plane.nu, plane.risk))
            for lower in centers(LOWER_MAX, LOWERS)
        ]
        for width in centers(WIDTH_MAX, WIDTHS)
    ]
    return torch.tensor(rows)


def calibrated(plane: Plane, display: Display = SILENT) -> Tensor:
    """Whether the grid has no counterexample, one row a lambda-hat."""
    functions = all_functions(steps=41)
    widths = display.track(centers(WIDTH_MAX, WIDTHS), f"calibration, {plane.name} loss", WIDTHS)
    rows = [
        [
            counterexample(OratLoss(plane.loss, lower, width), functions, ETAS) is None
            for lower in centers(LOWER_MAX, LOWERS)
        ]
        for width in widths
    ]
    return torch.tensor(rows)


def calibration_figure(display: Display = SILENT) -> Figure:
    """The conditions of Theorem 2 and calibration of the ORAT loss in the plane of both scalars."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(10, 5.6), dpi=150, layout=ConstrainedLayoutEngine(wspace=0.06))
    panels = figure.subplots(1, len(PLANES), sharey=True).tolist()
    for panel, plane in zip(panels, PLANES, strict=True):
        draw_kinds(panel, conditions_hold(plane), calibrated(plane, display))
        draw_borders(panel, plane)
        panel.set_xlabel(r"$\lambda$, at the optimum $\ell_{[k]}$", fontsize=12)
    panels[0].set_ylabel(r"$\hat\lambda$, at the optimum $\ell_{[m]} - \ell_{[k]}$", fontsize=12)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2, frameon=False, fontsize=11)
    return figure


def draw_kinds(panel: Axes, hold: Tensor, right: Tensor) -> None:
    """Colors every computed cell by its case."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    pixels = torch.ones(*hold.shape, 3)
    for (holds, is_right), (color, share, name) in KINDS.items():
        tint = 1 - share * (1 - torch.tensor(to_rgb(color)))  # opaque, so that PDF and PNG are alike
        pixels[(hold == holds) & (right == is_right)] = tint
        panel.add_patch(Rectangle((0, 0), 0, 0, facecolor=tint.tolist(), label=name))  # for the legend
    panel.imshow(
        pixels.numpy(), extent=(0, LOWER_MAX, 0, WIDTH_MAX), origin="lower", aspect="auto", interpolation="nearest"
    )


def draw_borders(panel: Axes, plane: Plane) -> None:
    """Draws the closed form of calibration, the order of the scalars in the theorem, and a counterexample."""
    at_zero = plane.loss_at_zero
    panel.plot([0, at_zero], [2 * at_zero, 0], "k--", linewidth=1.8, label=r"$\hat\lambda = 2\,(\ell(0) - \lambda)$")
    panel.plot(
        [0, LOWER_MAX], [0, LOWER_MAX], color=GRAY, linestyle=":", linewidth=1.8, label=r"$\hat\lambda = \lambda$"
    )
    panel.plot(
        *plane.false_at, "*", color="black", markeredgecolor="white", markersize=16, clip_on=False, zorder=5,
        linestyle="none", label="counterexample to Theorem 2 (errata 4 and 5)",
    )  # fmt: skip
    settings = rf"$\ell(0) = {at_zero:.3g}$, $\nu = {plane.nu:g}$, least risk {plane.risk:.3g}"
    panel.set_title(f"{plane.name} loss: {settings}", fontsize=12)
    panel.set_xlim(0, LOWER_MAX)
    panel.set_ylim(0, WIDTH_MAX)
    panel.tick_params(labelsize=10)
    panel.spines[["top", "right"]].set_visible(False)
