"""CIFAR-10 on the page of the paper's numbers: right images, and the oracle that the paper does not have."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

from automatic_page import KINDS, origin
from pages import Row, spread, table_head, table_line

from orat.cli.tables import TITLES
from orat_paper.reproduce.artifacts import ACCURACY, table

NAME = "automatic-cifar10"
ARMS = {
    "at": "AT", "paper": "ORAT, the paper's k and m", "automatic": "ORAT, told nothing",
    "oracle": "oracle: AT without the wrong labels",
}  # fmt: skip
PRINTED = {"at": "AT", "paper": "ORAT"}  # which the paper has numbers of
EPS = "8/255"
NOTE = """With `benchmarks/automatic.py`: Small-CNN, last epoch, mean and standard deviation of the seeds, in brackets ours less the paper's. These are **JPEG copies** of the images, augmented, 24 epochs at a
learning rate of 0.02 with nothing held out; the paper has 100 epochs at 0.1, and best epochs. Its symmetric rows come from scrambled images, as far as can be seen (below, and [errata](errata.md), 20 and 21), so that a difference there is not one of training. {holes}
[Other figures of these runs](automatic-measured.md)."""


def section(results: Path) -> list[str]:
    """The rows of all kinds of noise, and what was not run; nothing where there is no file of them."""
    file = results / f"{NAME}.json"
    if not file.is_file():
        return []
    content = json.loads(file.read_text())
    titles = ["noise", "method", "seeds", *(TITLES[column] for column in ACCURACY)]
    lines, missing = table_head(titles), []
    for noise, rate in KINDS:
        said = f"{noise} {100 * rate:.0f} %" if rate else "none"
        for arm, name in ARMS.items():
            own = [row for row in content["rows"] if (row["noise"], row["rate"], row["arm"]) == (noise, rate, arm)]
            if own:
                lines.append(table_line([said, name, len(own), *(figure(own, column, arm) for column in ACCURACY)]))
            elif rate:
                missing.append(f"{name} ({said})")
    holes = f"Not run yet: {', '.join(missing)}." if missing else ""
    head = ["", f"## CIFAR-10, right images, eps {EPS}", "", NOTE.format(holes=holes), ""]
    return [*head, *lines, *origin(NAME, content)]


def figure(rows: list[Row], column: str, arm: str) -> str:
    """The mean over seeds, its deviation, and the difference to the paper's number where it prints one."""
    values = [row[column] for row in rows]
    theirs = printed(rows[0], column, PRINTED.get(arm))
    return spread(values) + ("" if theirs is None else f" ({mean(values) - theirs:+.2f})")


def printed(row: Row, column: str, method: str | None) -> float | None:
    """The paper's number with the same noise."""
    place = ("cifar10", EPS, row["noise"], round(100 * row["rate"]), method)
    found = [
        cell.theirs[column]
        for cell in table("table1_accuracy")
        if (cell.data, cell.eps, cell.noise, cell.rate, cell.method) == place
    ]
    return found[0] if found else None
