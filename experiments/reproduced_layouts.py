"""The layout of the paper's CIFAR-10 images on docs/reproduced.md: scrambled or right."""

from __future__ import annotations

import json
from pathlib import Path

import lossless
from layouts import cells
from markdown import Row, grouped, measured_on, noise_words, spread, table_head, table_line

from orat.cli.tables import TITLES

ROWS, LAYOUTS = "scrambled-cifar10", "layouts"
NOTE = """The authors' noise script scrambles images ([errata](errata.md), 20 and 21). Small-CNN on **JPEG copies**, in brackets ours minus
the paper's. As in the authors' code: no augmentation, nothing held out, and each column's best epoch on the test set.
Under attack, hardly anything has been learned in that epoch ([errata](errata.md), 36)."""


def section(results: Path) -> list[str]:
    """JPEG copies: rows on scrambled images, and natural accuracy on both layouts; lossless images replace them."""
    if lossless.both_layouts(results):
        return []
    rows, layouts = ((results / f"{name}.json") for name in (ROWS, LAYOUTS))
    if not (rows.is_file() and layouts.is_file()):
        return []
    report, both = json.loads(rows.read_text()), json.loads(layouts.read_text())
    return [
        "", "## CIFAR-10, scrambled images", "", NOTE, "", *beside(report["rows"]),
        *measured_on(ROWS, [run["origin"] for run in report["runs"]]), "", *apart(both["rows"]),
        *measured_on(LAYOUTS, both["rows"]),
    ]  # fmt: skip


def beside(rows: list[Row]) -> list[str]:
    """Finished rows on scrambled images beside the paper's."""
    done = [row for row in rows if row["ours"] is not None]
    columns = [name for name in TITLES if any(row["column"] == name for row in done)]
    lines = table_head(["eps", "noise", "method", *(TITLES[name] for name in columns)])
    keys = grouped(done, lambda row: (row["eps"], noise_words(row["noise"], row["rate"]), row["method"]))
    for place, group in keys:
        figures = {row["column"]: f"{row['ours']:.2f} ({row['difference']:+.2f})" for row in group}
        lines.append(table_line([*place, *(figures[name] for name in columns)]))
    return lines


def apart(rows: list[Row]) -> list[str]:
    """Best natural accuracy of standard training on both layouts, and the paper's at both radii."""
    titles = ["ST, symmetric noise", "images", "seeds", "best natural accuracy", "the paper's, 2/255 and 8/255"]
    lines = table_head(titles)
    for (rate, layout), group in grouped(rows, lambda row: (row["rate"], row["layout"])):
        best = spread([row["best"] for row in group])
        theirs = " and ".join(f"{cell.theirs['natural']:.2f}" for cell in cells(rate))
        lines.append(table_line([f"{rate} %", layout, len(group), best, theirs]))
    return lines
