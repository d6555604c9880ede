"""The measured default rates: the page has the numbers of the file, and the default is the best rate of the table."""

from __future__ import annotations

import json
from pathlib import Path

import default_rates
import numpy as np
import torch
from study import Cell

import orat
from orat.data.source import Dataset
from orat.training.defaults import Facts, fitting

ROOT = Path(__file__).parents[2]
CONTENT = json.loads((ROOT / "results" / "default-rates.json").read_text())


def test_the_page_has_the_measured_rates() -> None:
    assert "\n".join(default_rates.lines(CONTENT)) in (ROOT / "docs" / "yours.md").read_text()


def test_the_default_rate_is_the_best_of_the_measured_rates() -> None:
    facts = Facts(CONTENT["setting"]["samples"], (3, 32, 32), 10, "cpu")
    found = fitting(facts)
    assert (found["batch_size"], found["epochs"]) == (16, default_rates.EPOCHS)
    scores: dict[float, list[float]] = {}
    for row in CONTENT["rows"]:
        if row["attack_warmup"] == found["attack_warmup"] / found["epochs"]:
            scores.setdefault(row["lr"], []).append(sum(row["validation"].values()))
    assert found["lr"] == max(scores, key=lambda lr: sum(scores[lr]) / len(scores[lr]))


def test_samples_are_drawn_from_files_that_are_sorted_by_class(tmp_path: Path) -> None:
    labels = torch.arange(10).repeat_interleave(200)
    whole = Dataset(torch.zeros(2000, 1, 2, 2), labels, tuple(map(str, range(10))))
    file = tmp_path / "sorted.npz"
    np.savez(file, x_train=whole.images.numpy(), y_train=labels.numpy())
    part = default_rates.part_of(str(file), None)
    assert len(part) == default_rates.SAMPLES
    assert part.labels.bincount(minlength=10).min() > 20


def test_a_collapsed_run_is_a_row_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text(
        '{"epoch": 2, "validation": {"natural": 0.1, "pgd10": 0.1}, "seconds": 1.5}\n'
    )
    cell = Cell({}, tmp_path, orat.Run(data="sample", method=orat.methods.AT()))
    row = default_rates.row_of(cell, {"error": "collapsed"})
    assert row == {"epoch": 2, "validation": {"natural": 0.1, "pgd10": 0.1}, "seconds": 1.5, "error": "collapsed"}
    assert default_rates.outcome(row) == "collapse"
