"""Figures as PNG and PDF files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from orat.core.files import replace_file, require
from orat.core.options import PIXEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_figure(make: Callable[[], Figure], *files: Path) -> None:
    """Draws a figure once into PNG and PDF files, without pyplot and its global state."""
    require("matplotlib.backends.backend_agg", "plots", f"the picture {files[0].name}")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = make()
    for file in files:
        buffer = io.BytesIO()
        if file.suffix == ".pdf":
            figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})  # equal numbers give equal files
        else:
            FigureCanvasAgg(figure).print_png(buffer)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, buffer.getvalue())


def radius_label(value: float, pixels: bool) -> str:
    """A radius on an axis: 8/255 in pixels, else 0.3."""
    return f"{PIXEL * value:.4g}/{PIXEL}" if pixels and value else f"{value:.4g}"
