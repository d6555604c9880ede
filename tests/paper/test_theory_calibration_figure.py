"""The picture of Theorem 2 against its conditions, its closed form and brute force."""

from __future__ import annotations

from itertools import product
from math import log

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orat_paper.theory import OratLoss, all_functions, counterexample, failing, is_calibrated_convex, stated_conditions
from orat_paper.theory.calibration_figure import KINDS, LOWER_MAX, LOWERS, PLANES, WIDTH_MAX, WIDTHS, Plane
from orat_paper.theory.calibration_figure import calibration_figure as draw

EVERYTHING = all_functions()
HOLDS, FALSE, SILENT, NEITHER = (name for _, _, name in KINDS.values())


@pytest.fixture(scope="module")
def figure() -> Figure:
    return draw()


def shown(panel: Axes, lower: float, width: float) -> str:
    """The legend of the color at a place."""
    handles, names = panel.get_legend_handles_labels()
    pixels = panel.images[0].get_array()
    color = pixels[int(width / WIDTH_MAX * WIDTHS), int(lower / LOWER_MAX * LOWERS)]
    patches = zip(handles[: len(KINDS)], names, strict=False)
    (found,) = [name for patch, name in patches if patch.get_facecolor()[:3] == pytest.approx(color.tolist())]
    return found


def at(plane: Plane, lower: float, width: float) -> OratLoss:
    return OratLoss(plane.loss, lower, width)


@pytest.mark.parametrize("place", range(len(PLANES)), ids=[plane.name for plane in PLANES])
def test_every_cell_off_the_borders_has_the_color_of_the_closed_form(figure: Figure, place: int) -> None:
    plane = PLANES[place]
    kinds = {(True, True): HOLDS, (True, False): FALSE, (False, True): SILENT, (False, False): NEITHER}
    for column, row in product(range(LOWERS), range(WIDTHS)):
        lower, width = LOWER_MAX * (column + 0.5) / LOWERS, WIDTH_MAX * (row + 0.5) / WIDTHS
        calibrated = is_calibrated_convex(at(plane, lower, width), plane.loss_at_zero)
        assert shown(figure.axes[place], lower, width) == kinds[lower < width, calibrated]


@pytest.mark.parametrize(
    ("place", "lower", "width", "name"),
    [
        (0, 0.1, 0.6, HOLDS), (0, 0.1, 1.5, FALSE), (0, 0.9, 1.0, FALSE), (0, 0.5, 0.2, SILENT), (0, 0.9, 0.3, NEITHER),
        (1, 0.1, 1.6, HOLDS), (1, 0.1, 2.0, FALSE), (1, 0.9, 1.0, FALSE), (1, 0.8, 0.2, SILENT), (1, 1.1, 0.3, NEITHER),
    ],
)  # fmt: skip
def test_brute_force_over_all_functions_agrees(
    figure: Figure, place: int, lower: float, width: float, name: str
) -> None:
    plane = PLANES[place]
    phi = at(plane, lower, width)
    assert shown(figure.axes[place], lower, width) == name
    assert (failing(stated_conditions(phi, plane.nu, plane.risk)) == []) == (name in (HOLDS, FALSE))
    assert (counterexample(phi, EVERYTHING) is None) == (name in (HOLDS, SILENT))


def test_stars_are_counterexamples_that_meet_every_condition() -> None:
    assert [(plane.name, plane.false_at) for plane in PLANES] == [("logistic", (log(2), 1.0)), ("hinge", (0.0, 2.0))]
    for plane in PLANES:
        phi = at(plane, *plane.false_at)
        assert failing(stated_conditions(phi, plane.nu, plane.risk)) == []
        assert counterexample(phi, EVERYTHING) is not None


def test_panels_are_labeled_and_the_dashed_line_is_the_closed_form(figure: Figure) -> None:
    for panel, plane in zip(figure.axes, PLANES, strict=True):
        assert plane.name in panel.get_title()
        assert rf"\nu = {plane.nu:g}" in panel.get_title()
        assert f"least risk {plane.risk:.3g}" in panel.get_title()
        assert "lambda" in panel.get_xlabel()
        border, order, star = panel.get_lines()
        for lower, width in border.get_xydata().tolist():
            assert width == pytest.approx(2 * (plane.loss_at_zero - lower))
        assert (order.get_xdata() == order.get_ydata()).all()
        assert star.get_xydata().tolist() == [list(plane.false_at)]
    assert "lambda" in figure.axes[0].get_ylabel()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][:4] == [HOLDS, FALSE, SILENT, NEITHER]
