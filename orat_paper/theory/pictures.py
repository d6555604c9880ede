"""Writes the three pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from orat.core.console import SILENT, Display
from orat.core.plots import write_figure
from orat_paper.theory.calibration_figure import calibration_figure
from orat_paper.theory.figures import bounds_figure, gap_figure
from orat_paper.theory.gap import Gap

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_pictures(gaps: Sequence[Gap], folder: Path, display: Display = SILENT) -> list[Path]:
    """Draws the bounds, the measured gap and calibration as PNG and PDF; returns the files."""
    drawings: dict[str, Callable[[], Figure]] = {
        "bounds": bounds_figure, "gap": lambda: gap_figure(gaps), "calibration": lambda: calibration_figure(display),
    }  # fmt: skip
    written: list[Path] = []
    for name, drawing in drawings.items():
        files = [folder / f"theory-{name}.{kind}" for kind in ("png", "pdf")]
        write_figure(drawing, *files)
        written += files
    return written
