"""The table of ORAT that is told nothing beside others, filled on a few images."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import automatic
import pytest
from quick_runs import NOISE, QUICK

import orat
from orat.core.errors import InputError


def test_every_run_is_a_row_with_what_it_reached_and_what_it_found(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "table.json"
    fields = QUICK | {name: value for name, value in NOISE.items() if not name.startswith("noise")}
    command = ["automatic.py", "--data", tiny, "--kinds", "symmetric:0.2", "--arms", "at,automatic,oracle"]
    command += ["--autoattack", "5"]
    command += ["--fields", json.dumps(fields), "--runs", str(tmp_path / "runs"), "--out", str(out), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", command)
    automatic.main()
    rows = json.loads(out.read_text())["rows"]
    assert [row["arm"] for row in rows] == ["at", "automatic", "oracle"]
    assert all(row["autoattacked"] == 5 and row["autoattack"] % 20 == 0 for row in rows)
    assert 0.5 < rows[1]["auc"] <= 1
    assert rows[1]["flipped"] == pytest.approx(0.2, abs=0.01)
    assert rows[2]["outliers"]["precision"] == rows[2]["outliers"]["recall"] == 1
    automatic.main()  # what is a row already is not trained again
    assert json.loads(out.read_text())["rows"] == rows
    assert capsys.readouterr().out.count('"arm"') == 3


def test_the_arm_of_the_paper_has_its_k_and_m() -> None:
    printed = automatic.as_printed("cifar10:8/255", "asymmetric", 0.4)
    assert isinstance(printed, orat.methods.ORAT)
    # Table D.1 of the paper
    assert (printed.k, printed.m, printed.solver) == (50000, 500, "minmax")
    with pytest.raises(InputError, match="the paper has no k and m for None with symmetric 0.15; one is cifar10:8/255"):
        automatic.as_printed(None, "symmetric", 0.15)
