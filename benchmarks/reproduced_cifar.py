"""CIFAR-10 on the page of the paper's numbers: right images, and the oracle that the paper does not have."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from orat.reproduce.artifacts import table

Row = dict[str, Any]
NAME = "automatic-cifar10.json"
COLUMNS = {"natural": "Natural", "fgsm": "FGSM", "pgd20": "PGD-20", "cw": "CW"}
ARMS = {
    "at": "AT", "published": "ORAT, the paper's k and m", "automatic": "ORAT, told nothing",
    "oracle": "oracle: AT without the wrong labels",
}  # fmt: skip
PRINTED = {"at": "AT", "published": "ORAT"}  # which the paper has numbers of
KINDS = (("none", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("asymmetric", 0.4))
EPS = "8/255"
NOTE = """With `benchmarks/automatic.py`: Small-CNN, last epoch, mean and standard deviation of the seeds, in brackets ours less the paper's. These are **JPEG copies** of the images, augmented, 24 epochs at a
learning rate of 0.02 with nothing held out; the paper has 100 epochs at 0.1, and best epochs. Its symmetric rows probably show scrambled images ([errata](errata.md), 20 and 21), so that a difference there is not one of training. {holes}
[Other figures of these runs](automatic-measured.md)."""


def section(results: Path) -> list[str]:
    """The rows of all kinds of noise, and what was not run; nothing where there is no file of them."""
    if not (results / NAME).is_file():
        return []
    rows = json.loads((results / NAME).read_text())["rows"]
    titles = ["noise", "method", "seeds", *COLUMNS.values()]
    lines, missing = [line_of(titles), "|" + "---|" * len(titles)], []
    for noise, rate in KINDS:
        said = f"{noise} {100 * rate:.0f} %" if rate else "none"
        for arm, name in ARMS.items():
            own = [row for row in rows if (row["noise"], row["rate"], row["arm"]) == (noise, rate, arm)]
            if own:
                lines.append(line_of([said, name, len(own), *(figure(own, column, arm) for column in COLUMNS)]))
            elif rate:
                missing.append(f"{name} ({said})")
    holes = f"Not run yet: {', '.join(missing)}." if missing else ""
    origin = f"Measured on {' and '.join(sorted({row['device'] for row in rows}))} at {commits(rows)} ([all numbers](../results/{NAME}))."
    return ["", f"## CIFAR-10, right images, eps {EPS}", "", NOTE.format(holes=holes), "", *lines, "", origin]


def figure(rows: list[Row], column: str, arm: str) -> str:
    """The mean over seeds, its deviation, and the difference to the paper's number where it prints one."""
    values = [row[column] for row in rows]
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    theirs = printed(rows[0], column, PRINTED.get(arm))
    return f"{mean(values):.2f}{spread}" + ("" if theirs is None else f" ({mean(values) - theirs:+.2f})")


def printed(row: Row, column: str, method: str | None) -> float | None:
    """The paper's number with the same noise."""
    place = ("cifar10", EPS, row["noise"], round(100 * row["rate"]), method)
    found = [
        cell.theirs[column]
        for cell in table("table1_accuracy")
        if (cell.data, cell.eps, cell.noise, cell.rate, cell.method) == place
    ]
    return found[0] if found else None


def commits(rows: list[Row]) -> str:
    """All commits that rows are of."""
    return ", ".join(sorted({row["commit"] for row in rows}))


def line_of(cells: list[Any]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"
