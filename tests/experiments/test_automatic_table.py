"""The study of ORAT (automatic), on a few images, and the methods of the ablations."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import automatic
import numpy as np
import pytest
import torch
from human_labels import quality
from quick_runs import NOISE, QUICK
from scores import Corrected, Oracle, Own, Used

import orat
from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.methods import AT, ORAT
from orat.noise.judge import judge
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import prepare


def test_every_run_is_a_row_with_what_it_reached_and_what_it_found(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "table.json"
    fields = QUICK | {name: value for name, value in NOISE.items() if not name.startswith("noise")}
    command = [
        "automatic.py",
        "--data",
        tiny,
        "--kinds",
        "symmetric:0.2",
        "--arms",
        "at,automatic,oracle,scouts-alone,own-natural",
    ]
    command += ["--autoattack", "5"]
    command += ["--fields", json.dumps(fields), "--runs", str(tmp_path / "runs"), "--out", str(out), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", command)
    automatic.main()
    rows = json.loads(out.read_text())["rows"]
    assert [row["arm"] for row in rows] == ["at", "automatic", "oracle", "scouts-alone", "own-natural"]
    assert all(row["autoattacked"] == 5 and row["autoattack"] % 20 == 0 for row in rows)
    assert 0.5 < rows[1]["auc"] <= 1
    assert len(rows[1]["epochs"]) == len(rows[1]["wrong"]) == len(rows[1]["epoch_seconds"])
    assert sum(sum(counts) for counts in rows[1]["histograms"]["answers"].values()) == rows[1]["outliers"]["of"]
    assert rows[1]["flipped"] == pytest.approx(0.2, abs=0.01)
    assert rows[2]["outliers"]["precision"] == rows[2]["outliers"]["recall"] == 1
    automatic.main()  # what is a row already is not trained again
    assert json.loads(out.read_text())["rows"] == rows
    assert capsys.readouterr().out.count('"arm"') == 5


def test_the_arm_of_the_paper_has_its_k_and_m() -> None:
    printed = automatic.as_printed("cifar10:8/255", "asymmetric", 0.4)
    assert isinstance(printed, ORAT)
    # Table D.1 of the paper
    assert (printed.k, printed.m, printed.solver) == (50000, 500, "minmax")
    with pytest.raises(
        InputError, match="the paper has no k and m for None with symmetric 0.15: give one as cifar10:8/255"
    ):
        automatic.as_printed(None, "symmetric", 0.15)


def trained(tiny: str, folder: Path, method: orat.Method) -> tuple[Run, RunFolder]:
    """A finished run on labels with noise."""
    run = Run(data=tiny, method=method, **{**QUICK, **NOISE})
    orat.train(run, folder, device="cpu", display=SILENT)
    return run, RunFolder(folder)


def test_an_oracle_that_removes_nothing_is_at_to_the_bit(tiny: str, tmp_path: Path) -> None:
    np.save(tmp_path / "none.npy", np.zeros(270, dtype=bool))
    _, plain = trained(tiny, tmp_path / "at", AT())
    _, oracle = trained(tiny, tmp_path / "oracle", Oracle(removed=str(tmp_path / "none.npy")))
    one, other = plain.load_tensors("model"), oracle.load_tensors("model")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_own_predictions_remove_what_their_average_says(tiny: str, tmp_path: Path) -> None:
    run, folder = trained(tiny, tmp_path / "own", Own(attacked=True))
    state, labels = folder.load_tensors("state"), prepare(run).train.labels
    verdict = judge(state["memory.average"].double().log_softmax(1), labels)
    assert torch.equal(~state["keep"], verdict.flagged())
    assert torch.equal(state["labels"], labels)


def test_scouts_alone_learn_the_chances_of_the_cross_fitted_predictions(tiny: str, tmp_path: Path) -> None:
    run, folder = trained(tiny, tmp_path / "scouts", Used(scout_epochs=16))
    state, labels = folder.load_tensors("state"), prepare(run).train.labels
    verdict = judge(folder.load_tensors("predictions")["log_probs"], labels)
    assert verdict.flagged().any()
    chance = torch.where(verdict.flagged(), verdict.p_wrong, verdict.p_wrong.clamp(max=0.5)).float()
    assert torch.equal(state["chance"], chance)
    assert torch.equal(state["labels"] != labels, verdict.flagged())
    _, few = trained(tiny, tmp_path / "flagged", Used(scout_epochs=16, use="flagged"))
    assert torch.equal(few.load_tensors("state")["chance"], chance * verdict.flagged())


@pytest.mark.parametrize("use", ["removed", "relabeled", "weighed"])
def test_other_uses_of_a_verdict_remove_relabel_or_weigh(use: str, tiny: str, tmp_path: Path) -> None:
    run, folder = trained(tiny, tmp_path / use, Used(scout_epochs=16, use=use))
    state, labels = folder.load_tensors("state"), prepare(run).train.labels
    verdict = judge(folder.load_tensors("predictions")["log_probs"], labels)
    flagged, chances = verdict.flagged(), verdict.chances().float()
    sure = flagged & (chances.scatter(1, labels[:, None], 0.0).amax(1) > 0.9) & (use == "relabeled")
    kept = 1 - state["chance"] if use == "weighed" else (~flagged | sure).float()
    torch.testing.assert_close(state["weights"], kept / kept.mean())
    assert torch.equal(state["labels"], torch.where(sure, verdict.others.argmax(1), labels))
    assert sure.any() == (use == "relabeled")
    assert torch.equal(state["keep"], state["weights"] != 0)


def test_a_corrected_run_learns_by_the_chances_of_the_cross_fitted_verdict(tiny: str, tmp_path: Path) -> None:
    run, folder = trained(tiny, tmp_path / "corrected", Corrected(scout_epochs=16))
    state, parts = folder.load_tensors("state"), prepare(run)
    verdict = judge(folder.load_tensors("predictions")["log_probs"], parts.train.labels)
    assert torch.equal(state["transition"], verdict.transition().float())
    assert state["transition"].diagonal().max() < 1
    found = quality(folder, parts.train.labels, parts.train.wrong)
    assert found["last"]["cut"] == 0
