"""Which images the paper's CIFAR-10 rows come from, on the page of its numbers: scrambled or right ones."""

from __future__ import annotations

import json
from pathlib import Path

from layouts import cells
from pages import Row, grouped, measured_on, spread, table_head, table_line

from orat.cli.tables import TITLES

ROWS, LAYOUTS = "scrambled-cifar10", "layouts"
NOTE = """The authors' noise script scrambles images ([errata](errata.md), 20 and 21). Small-CNN on **JPEG copies**, in brackets ours less the paper's; no augmentation, nothing held out,
the best epoch on the test set, each column by itself, as they do it. Under attack that is an epoch in which hardly anything was learned ([errata](errata.md), 36)."""


def section(results: Path) -> list[str]:
    """Rows on scrambled images beside the paper's, and natural accuracy on both kinds; nothing where no file is."""
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
    """Rows that were run on scrambled images, as `orat reproduce` reports them."""
    done = [row for row in rows if row["ours"] is not None]
    columns = [name for name in TITLES if any(row["column"] == name for row in done)]
    lines = table_head(["eps", "noise", "method", *(TITLES[name] for name in columns)])
    for place, group in grouped(done, lambda row: (row["eps"], f"{row['noise']} {row['rate']} %", row["method"])):
        figures = {row["column"]: f"{row['ours']:.2f} ({row['difference']:+.2f})" for row in group}
        lines.append(table_line([*place, *(figures[name] for name in columns)]))
    return lines


def apart(rows: list[Row]) -> list[str]:
    """Best natural accuracy of standard training on scrambled and on right images, and the paper's at both radii."""
    lines = table_head(
        ["ST, symmetric noise", "images", "seeds", "best natural accuracy", "the paper's, 2/255 and 8/255"]
    )
    for (rate, layout), group in grouped(rows, lambda row: (row["rate"], row["layout"])):
        best = spread([row["best"] for row in group])
        theirs = " and ".join(f"{cell.theirs['natural']:.2f}" for cell in cells(rate))
        lines.append(table_line([f"{rate} %", layout, len(group), best, theirs]))
    return lines
