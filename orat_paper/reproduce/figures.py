"""The pictures of the tables and figures, drawn from finished runs as PDF and PNG."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orat.core.errors import InputError
from orat.core.plots import write_figure
from orat_paper.reproduce.line_figures import accuracy_curves, clothing_curves, effect_of_k, effect_of_m, loss_curves
from orat_paper.reproduce.number_figures import beside_the_paper, stability
from orat_paper.reproduce.panels import Content
from orat_paper.reproduce.rate_figures import against_rates
from orat_paper.reproduce.toy_figures import toy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Table or figure -> its pictures, by the ending of their file names. Other tables have numbers only; the picture of
# the toy sets needs the networks, too.
DRAWN: dict[str, dict[str, Callable[[Content], Figure]]] = {
    "table1": {"": beside_the_paper, "-rates": against_rates}, "stability": {"": stability},
    "loss-curves": {"": loss_curves}, "accuracy-curves": {"": accuracy_curves}, "effect-of-m": {"": effect_of_m},
    "effect-of-k": {"": effect_of_k}, "clothing1m": {"": clothing_curves},
}  # fmt: skip
TOY = "toy"


def draw(content: Content, out: Path) -> str | None:
    """Writes the pictures; returns a line with their files, or with the reason for a missing picture."""
    name = content["name"]
    if name not in (*DRAWN, TOY):
        return None
    if not content["runs"]:
        return f"no figure of {name}: it has no finished run"
    try:
        files = write(content, out)
    except InputError as error:
        return f"no figure of {name}: {error}"
    return f"figure: {' and '.join(map(str, files))}"


def write(content: Content, out: Path) -> list[Path]:
    """Draws every picture once, into two files."""
    written: list[Path] = []
    for name, drawing in pictures(content, out).items():
        files = [out / f"{name}.{kind}" for kind in ("pdf", "png")]
        write_figure(drawing, *files)
        written += files
    return written


def pictures(content: Content, out: Path) -> dict[str, Callable[[], Figure]]:
    """The functions that draw the pictures, by name; `out` is the folder of the runs."""
    name = content["name"]
    if name == TOY:
        return {name: partial(toy, content, out)}
    return {name + more: partial(drawing, content) for more, drawing in DRAWN[name].items()}
