"""Labels by people: paired differences on the same images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from human_labels import COLUMNS, difference, page

N = 400


def report(masks: Path, right: dict[tuple[str, int], np.ndarray]) -> list[dict[str, object]]:
    """Rows and files of runs with these correct images, the same in all columns."""
    rows = []
    for (arm, seed), mask in right.items():
        np.savez(masks / f"{arm}-{seed}.npz", **{name: np.packbits(mask) for name in COLUMNS})
        share = dict.fromkeys(COLUMNS, 100 * mask.mean())
        rows.append({"arm": arm, "seed": seed, "images": dict.fromkeys(COLUMNS, N), **share})
    return rows


def test_a_difference_is_that_of_the_means_and_its_interval_that_of_paired_images(tmp_path: Path) -> None:
    images = np.arange(N)
    first, second = images % 2 == 0, images % 4 == 0  # 50 and 25 %, and never right where the other is wrong
    rows = report(tmp_path, {("automatic", 0): first, ("at", 0): second})
    width = 1.96 * 100 * np.std(first.astype(float) - second) / N**0.5
    assert difference(tmp_path, rows, "automatic", "at", [0], "natural") == f"+25.00 ± {width:.2f}"


def test_only_seeds_of_both_runs_are_compared(tmp_path: Path) -> None:
    right = np.ones(N, dtype=bool)
    rows = report(tmp_path, {("automatic", 0): right, ("automatic", 1): right, ("at", 1): ~right})
    lines = page(rows, tmp_path)
    assert "| ORAT (automatic) | 2 | 100.00 | 100.00 | 100.00 |" in lines
    assert "| ORAT (automatic) - AT | 1 | +100.00 ± 0.00 | +100.00 ± 0.00 | +100.00 ± 0.00 |" in lines
    assert sum("oracle" in line for line in lines) == 0
