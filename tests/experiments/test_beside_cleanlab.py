"""The study beside cleanlab: figures by hand, and a small study as a whole."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path

import beside_cleanlab
import pytest
import torch
from quick_runs import QUICK, SLOW

from orat.data.source import Dataset


def test_figures_are_what_a_hand_counts() -> None:
    """Two of three wrong labels and a right one are flagged; in one of six pairs the right label has more score."""
    data = Dataset(torch.zeros(5, 1), torch.tensor([1, 1, 1, 0, 0]), ("a", "b"), torch.zeros(5, dtype=torch.int64))
    flags, scores = torch.tensor([True, True, False, True, False]), torch.tensor([5.0, 4.0, 2.0, 3.0, 1.0])
    found = beside_cleanlab.figures(flags, scores, data)
    assert found["precision"] == found["recall"] == found["f1"] == pytest.approx(2 / 3)
    assert found["auc"] == pytest.approx(5 / 6)


def test_every_judge_gets_every_prediction(tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, fields = tmp_path / "rows.json", json.dumps({**QUICK, **SLOW})
    command = ["--data", tiny, "--device", "cpu", "--kinds", "symmetric:0.2", "--scout-epochs", "16"]
    command += ["--held-out", "--held-out-epochs", "12", "--whole", "--fields", fields, "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["beside_cleanlab.py", *command])
    beside_cleanlab.main()
    rows = json.loads(out.read_text())["rows"]
    pairs = {(row["answers"], row["judge"]) for row in rows}
    assert pairs == {*product(("scouts", "held-out"), beside_cleanlab.JUDGES), ("scouts and network", "orat")}
    assert all(row["f1"] > 0.7 and row["seconds"] > 0 for row in rows)
