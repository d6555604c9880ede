"""The authors' scalars against sorted losses, and AT w/o outliers against cross-entropy in double precision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from quick_runs import NOISE, quick

import orat
from orat.core.console import SILENT
from orat.core.errors import InputError
from orat.data.catalog import load
from orat.methods import AT, AoRR
from orat.noise.inject import symmetric
from orat.training.learner import RunLearner
from orat.training.run import Run
from orat.training.setup import build_model, prepare, setting_of
from orat_paper.authors import AuthorsAoRR, AuthorsMinMaxLoss, AuthorsORAT
from orat_paper.outlier_labels import FILE, labels_without_outliers


def test_the_authors_start_lambda_hat_at_the_mth_loss() -> None:
    state = AuthorsMinMaxLoss(n=5, k=4, m=2)
    state(torch.tensor([3.0, 9.0, 1.0, 7.0, 5.0]))
    state.end_epoch()
    assert (state.lower.item(), state.width.item()) == (3.0, 7.0)  # the fourth and the second largest


@pytest.mark.parametrize("kind", [AuthorsORAT, AuthorsAoRR])
def test_the_authors_scalars_keep_their_rate_at_a_milestone(kind: type[AuthorsORAT | AuthorsAoRR], tiny: str) -> None:
    run = quick(tiny, kind(m=60, k=290, solver="minmax"))
    parts = prepare(run)
    learner = RunLearner(run, build_model(run, parts.train), run.method.start(setting_of(run, parts)))
    learner.epoch = run.milestones[0]
    learner.pace(learner.epoch)
    assert learner.rates == pytest.approx([0.1 * run.lr, run.lr, run.lr])


def test_a_record_never_imports_the_code_of_its_method(tiny: str) -> None:
    run = quick(tiny, AuthorsORAT(m=60, solver="minmax"))
    record = run.record()
    assert record["method"]["name"] == "orat_paper.authors:AuthorsORAT"
    assert Run.from_record(record) == run
    record["method"]["name"] = "antigravity:AuthorsORAT"
    assert Run.from_record(record).method_name == "antigravity:AuthorsORAT"


@pytest.fixture(scope="module")
def filtered(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished AoRR run on labels with noise."""
    folder = tmp_path_factory.mktemp("filter") / "aorr"
    orat.train(quick(tiny, AoRR(m=0.25), **NOISE), folder, device="cpu", display=SILENT)
    return folder


def test_the_label_file_leaves_out_the_m_largest_natural_losses(tiny: str, filtered: Path) -> None:
    found = labels_without_outliers(filtered, device="cpu")
    train = load(tiny).train
    labels = symmetric(train.labels, 3, NOISE["noise_rate"], 0)
    with torch.no_grad():
        logits = orat.load_model(filtered)(train.images / 255).double()
    losses = (logits.exp().sum(1).log() - logits[torch.arange(len(labels)), labels]).tolist()
    hardest = set(sorted(range(len(losses)), key=lambda place: -losses[place])[:75])
    hits = sum(int(labels[place] != train.labels[place]) for place in hardest)
    assert (found["cut"], found["flipped_and_cut"], found["precision"]) == (75, hits, hits / 75)
    run = quick(tiny, AT(), labels=str(filtered / FILE), validation=0.0)
    parts = prepare(run)
    assert set(range(300)) - set(parts.ids.tolist()) == hardest
    assert torch.equal(parts.train.labels, labels[parts.ids])
    held_out = prepare(replace(run, validation=0.1)).validation
    assert held_out is not None
    assert len(held_out) == round(0.1 * 225)


def test_a_run_without_m_has_no_outliers(tiny: str, tmp_path: Path) -> None:
    orat.train(quick(tiny, AT(), epochs=1), tmp_path / "at", device="cpu", display=SILENT)
    with pytest.raises(InputError, match="is a run of at without m: give one of aorr or orat with m"):
        labels_without_outliers(tmp_path / "at")
