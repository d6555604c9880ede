"""Which picture suits a table or figure of the paper, and its files: drawn from finished runs, as PDF and PNG."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from orat.breakdown import require
from orat.curves import write_figure
from orat.errors import InputError
from orat.reproduce.line_figures import accuracy_curves, clothing_curves, effect_of_k, effect_of_m, loss_curves
from orat.reproduce.number_figures import beside_the_paper, stability
from orat.reproduce.panels import Content
from orat.reproduce.toy_figures import toy
from orat.run_folder import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Other tables say all that they have in numbers; toy asks the networks, too.
DRAWN: dict[str, Callable[[Content], Figure]] = {
    "table1": beside_the_paper, "stability": stability, "loss-curves": loss_curves,
    "accuracy-curves": accuracy_curves, "effect-of-m": effect_of_m, "effect-of-k": effect_of_k,
    "clothing1m": clothing_curves,
}  # fmt: skip
TOY = "toy"


def draw(content: Content, out: Path) -> str | None:
    """Writes the figure, and says where it is or why there is none: numbers do not wait for pictures."""
    name = content["name"]
    if name not in (*DRAWN, TOY):
        return None
    if not content["runs"]:
        return f"no figure of {name}: no run of it is finished"
    try:
        files = write(content, out)
    except InputError as error:
        return f"no figure of {name}: {error}"
    return f"figure: {' and '.join(map(str, files))}"


def write(content: Content, out: Path) -> list[Path]:
    """Draws once, into two files."""
    png, pdf = (out / f"{content['name']}.{kind}" for kind in ("png", "pdf"))
    require("matplotlib.backends.backend_agg", "plots", f"the picture {png.name}")
    figure = picture(content, out)
    write_figure(lambda: figure, png)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})  # the same runs, the same file
    replace_file(pdf, buffer.getvalue())
    return [pdf, png]


def picture(content: Content, out: Path) -> Figure:
    """The figure of what is finished; the runs lie in `out`."""
    return toy(content, out) if content["name"] == TOY else DRAWN[content["name"]](content)
