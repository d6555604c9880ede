"""The benchmark beside cleanlab: figures by hand, folds that do not see what they are asked, and a small one whole."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from quick_runs import JUDGING, NOISE, QUICK, SLOW, quick
from timing import Machine
from torch import Tensor

from orat.core.console import SILENT
from orat.data.source import Dataset
from orat.training.train import Job, open_job

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "beside_cleanlab.py"


@pytest.fixture(scope="module")
def benchmark() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_figures_are_what_a_hand_counts(benchmark: dict[str, Any]) -> None:
    """Two of three wrong labels are cut, and a right one; of six pairs, one ranks the right label above the wrong."""
    data = Dataset(torch.zeros(5, 1), torch.tensor([1, 1, 1, 0, 0]), ("a", "b"), torch.zeros(5, dtype=torch.int64))
    cut, score = torch.tensor([True, True, False, True, False]), torch.tensor([5.0, 4.0, 2.0, 3.0, 1.0])
    found = benchmark["figures"](cut, score, data)
    assert found["precision"] == found["recall"] == found["f1"] == pytest.approx(2 / 3)
    assert found["auc"] == pytest.approx(5 / 6)


def opened(tiny: str, folder: Path) -> Job:
    job = open_job(quick(tiny, JUDGING, **NOISE), folder, None, "cpu", SILENT, "auto")
    assert isinstance(job, Job)
    return job


def test_a_fold_does_not_see_the_labels_that_it_is_asked_about(
    benchmark: dict[str, Any], tiny: str, tmp_path: Path
) -> None:
    job = opened(tiny, tmp_path)
    asked = torch.arange(len(job.parts.train)) % 5 == 0

    def said() -> list[Tensor]:
        fold = benchmark["Fold"](replace(benchmark["scouting_of"](job), epochs=2), 0)
        return [answers for _, _, answers in benchmark["epochs_of"](job, Machine(job.device), fold, ~asked, asked)]

    before, train = said(), job.parts.train
    job.parts = replace(job.parts, train=replace(train, labels=torch.where(asked, 2 - train.labels, train.labels)))
    assert all(map(torch.equal, before, said()))
    job.parts = replace(job.parts, train=replace(train, labels=2 - train.labels))
    assert not any(map(torch.equal, before, said()))


def test_scouts_cut_what_their_answers_say(benchmark: dict[str, Any], tiny: str, tmp_path: Path) -> None:
    job = opened(tiny, tmp_path)
    heard = benchmark["scouted"](job, Machine(job.device))
    cut, _ = benchmark["orats"](heard.said, job.parts.train.labels)
    assert job.learner.epoch == 1
    assert cut.any()
    assert torch.equal(cut, job.learner.state.cut())


def test_everyone_judges_every_answer(
    benchmark: dict[str, Any], tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, fields = tmp_path / "rows.json", json.dumps({**QUICK, **SLOW})
    command = ["--data", tiny, "--device", "cpu", "--kinds", "symmetric:0.2", "--scout-epochs", "16", "--folds", "3"]
    monkeypatch.setattr(
        sys, "argv", [str(SCRIPT), *command, "--fields", fields, "--held-out", "--whole", "--out", str(out)]
    )
    benchmark["main"]()
    rows = json.loads(out.read_text())["rows"]
    pairs = {(row["answers"], row["judge"]) for row in rows}
    who = {answers for answers, _ in pairs} - {"scouts and network"}
    assert pairs == {*product(who, benchmark["JUDGES"]), ("scouts and network", "orat")}
    assert who == {"scouts", "folds, last epoch", "folds, averaged", "held-out"}
    assert all(row["f1"] > 0.7 and row["seconds"] > 0 for row in rows if row["answers"] in who)
