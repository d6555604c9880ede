"""How often ORAT by its two scalars loses a class, on the page of the paper's numbers."""

from __future__ import annotations

import json
from pathlib import Path

from pages import grouped, measured_on, table_head, table_line

NAME = "lost-class"
ARMS = {"burn-in-2": "ours, two epochs of burn-in"}  # whose names say too little
NOTE = """With `benchmarks/lost_class.py`: the first {epochs} epochs of ORAT on mnist, eps {eps}, {noise} {rate} %, where Table 1 was missed by far ([errata](errata.md), 13). A class is lost that
the network gives to fewer than half of its test images; samples with a loss above the upper cut, λ + λ̂, are left out."""


def section(results: Path) -> list[str]:
    """In how many runs a class was lost, and what the others reach; nothing where there is no file of them."""
    file = results / f"{NAME}.json"
    if not file.is_file():
        return []
    content = json.loads(file.read_text())
    titles = ["protocol", "runs", "that lost a class", "upper cut of these", "natural accuracy"]
    titles += ["upper cut of the others", "natural accuracy"]
    lines = ["", "## Classes that are lost", "", NOTE.format(**content["setting"]), "", *table_head(titles)]
    for arm, group in grouped(content["rows"], lambda row: row["arm"]):
        lost, kept = ([row for row in group if bool(row["lost"]) == wanted] for wanted in (True, False))
        spans = [span([row[name] for row in rows]) for rows in (lost, kept) for name in ("upper_cut", "natural")]
        lines.append(table_line([ARMS.get(arm, arm), len(group), len(lost), *spans]))
    return [*lines, *measured_on(NAME, content["rows"])]


def span(values: list[float]) -> str:
    """From the least to the most."""
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"
