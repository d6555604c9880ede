"""Lost classes of ORAT by Algorithm 1 on docs/reproduced.md."""

from __future__ import annotations

import json
from pathlib import Path

from markdown import grouped, measured_on, table_head, table_line

NAME = "lost-class"
ARMS = {
    "burn-in-2": "ours, two epochs of burn-in", "measured": "ours, scalars from measured losses",
    "measured+burn-in-2": "ours, scalars from measured losses, two epochs of burn-in",
}  # fmt: skip
NOTE = """The first {epochs} epochs of ORAT on mnist, eps {eps}, {noise} {rate} % (`experiments/lost_class.py`). This cell of Table 1 is
far below the paper's ([errata](errata.md), 13).

| term | meaning |
|---|---|
| lost class | the network predicts it for fewer than half of its test images |
| upper cut | λ + λ̂; samples with a larger loss are removed |"""


def section(results: Path) -> list[str]:
    """The number of runs with a lost class, and the accuracies; empty without a file."""
    file = results / f"{NAME}.json"
    if not file.is_file():
        return []
    content = json.loads(file.read_text())
    titles = ["protocol", "runs", "with a lost class", "their upper cut", "their natural accuracy"]
    titles += ["upper cut of the other runs", "natural accuracy of the other runs"]
    lines = ["", "## Classes that are lost", "", NOTE.format(**content["setting"]), "", *table_head(titles)]
    for arm, group in grouped(content["rows"], lambda row: row["arm"]):
        lost, kept = ([row for row in group if bool(row["lost"]) == wanted] for wanted in (True, False))
        spans = [span([row[name] for row in rows]) for rows in (lost, kept) for name in ("upper_cut", "natural")]
        lines.append(table_line([ARMS.get(arm, arm), len(group), len(lost), *spans]))
    return [*lines, *measured_on(NAME, content["rows"])]


def span(values: list[float]) -> str:
    """From the least to the largest value."""
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"
