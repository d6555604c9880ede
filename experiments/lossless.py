"""CIFAR-10 without loss on the pages: the runs of Table 1 at 8/255, and the noises where they replace JPEG copies."""

from __future__ import annotations

import json
from pathlib import Path

from markdown import Row

from orat_paper.reproduce.artifacts import AUTOMATIC

NAME, EPS = "reproduce-table1-cifar10", "8/255"


def all_runs(results: Path) -> list[Row]:
    """The runs of Table 1 on lossless images."""
    file = results / f"{NAME}.json"
    found: list[Row] = json.loads(file.read_text())["runs"] if file.is_file() else []
    return found


def runs(results: Path) -> list[Row]:
    """The runs at 8/255 with our settings."""
    return [run for run in all_runs(results) if (run["eps"], run["protocol"]) == (EPS, "ours")]


def replaced(results: Path) -> set[tuple[str, float]]:
    """The noises, with their rates, of both AT and ORAT (automatic)."""
    by_method = [
        {(run["noise"], run["rate"] / 100) for run in runs(results) if run["method"] == method}
        for method in ("AT", AUTOMATIC)
    ]
    return set.intersection(*by_method)


def both_layouts(results: Path) -> bool:
    """Whether the authors' settings were run on scrambled and on right images."""
    return {"authors", "authors-right"} <= {run["protocol"] for run in all_runs(results)}
