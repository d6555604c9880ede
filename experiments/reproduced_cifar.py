"""JPEG copies of CIFAR-10 on docs/reproduced.md, where lossless images do not replace them yet, and the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import lossless
from automatic_page import origin
from markdown import Row, noise_words, spread, table_head, table_line

from orat.cli.tables import TITLES
from orat_paper.reproduce.artifacts import ACCURACY, table

NAME = "automatic-cifar10"
ARMS = {
    "at": "AT", "paper": "ORAT, the paper's k and m", "automatic": "ORAT (automatic)",
    "oracle": "oracle: AT without the wrong labels",
}  # fmt: skip
PRINTED = {"at": "AT", "paper": "ORAT"}  # with numbers in the paper
EPS = "8/255"
KINDS = (("none", 0.0), ("symmetric", 0.2), ("symmetric", 0.4), ("asymmetric", 0.4))
NOTE = """Small-CNN, last epoch: mean and standard deviation of the seeds, in brackets ours minus the paper's
(`experiments/automatic.py`). Lossless images with the paper's schedule replace these rows one by one.

| setting | ours | the paper |
|---|---|---|
| images | **JPEG copies**, augmented | symmetric rows: scrambled, by all that can be seen ([errata](errata.md), 20 and 21) |
| epochs, learning rate | **24**, 0.02, nothing held out | 100, 0.1 |
| epoch | the last | each column's best |

{holes}[Other numbers of these runs](automatic-measured.md)."""


def section(results: Path) -> list[str]:
    """The rows of every noise, and the missing runs; empty without a file."""
    file = results / f"{NAME}.json"
    if not file.is_file():
        return []
    content = json.loads(file.read_text())
    kinds = [kind for kind in KINDS if kind not in lossless.replaced(results)]
    if not kinds:
        return []
    titles = ["noise", "method", "seeds", *(TITLES[column] for column in ACCURACY)]
    lines, missing = table_head(titles), []
    for noise, rate in kinds:
        place = noise_words(noise, 100 * rate)
        for arm, name in ARMS.items():
            own = [row for row in content["rows"] if (row["noise"], row["rate"], row["arm"]) == (noise, rate, arm)]
            if own:
                lines.append(table_line([place, name, len(own), *(figure(own, column, arm) for column in ACCURACY)]))
            elif rate:
                missing.append(f"{name} ({place})")
    holes = f"Not run yet: {', '.join(missing)}. " if missing else ""
    head = ["", f"## CIFAR-10 as JPEG copies, eps {EPS}, 24 epochs", "", NOTE.format(holes=holes), ""]
    return [*head, *lines, *origin(NAME, content)]


def figure(rows: list[Row], column: str, arm: str) -> str:
    """The mean and deviation over seeds, and the difference to the paper's number."""
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
