"""ORAT by measured scalars: the epoch after the burn-in learns nothing, and the scalars are ranks of its losses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from quick_runs import quick
from torch import Tensor
from torch.nn.functional import cross_entropy

import orat
from orat.core.console import SILENT
from orat.methods import ORAT, AoRR
from orat.training.events import EpochDone
from orat.training.learner import RunLearner
from orat.training.observers import Observer
from orat.training.run_folder import RunFolder, weights
from orat.training.setup import prepare
from orat.training.train import Session, train


@dataclass
class Weights(Observer):
    """The weights after every epoch."""

    learner: RunLearner
    found: list[dict[str, Tensor]]

    def epoch_done(self, event: EpochDone) -> None:
        """Copies the weights."""
        self.found.append(weights(self.learner.model))


@pytest.mark.parametrize("burn_in", [1, 2])
def test_the_scalars_start_at_ranks_of_the_losses_of_the_network_at_the_end_of_the_burn_in(
    burn_in: int, tiny: str, tmp_path: Path
) -> None:
    method = AoRR(k=0.95, m=0.2, solver="minmax-measured", burn_in=burn_in)
    run, found = quick(tiny, method), list[dict[str, Tensor]]()

    def observers(_: Session, learner: RunLearner) -> list[Observer]:
        return [Weights(learner, found)]

    train(run, tmp_path / "run", device="cpu", display=SILENT, observers=observers)
    moved = [any(not torch.equal(one[name], two[name]) for name in one) for one, two in pairwise(found)]
    assert moved == [epoch != burn_in for epoch in range(1, run.epochs)]

    parts = prepare(run)
    model = orat.load_model(tmp_path / "run", device="cpu")
    model.load_state_dict(found[burn_in - 1])
    with torch.no_grad():
        logits = model(parts.train.images / 255)
    ranked = cross_entropy(logits, parts.train.labels, reduction="none").sort(descending=True).values
    low, high = ranked[round(0.95 * len(ranked)) - 1].item(), ranked[round(0.2 * len(ranked)) - 1].item()
    record = RunFolder(tmp_path / "run").history()[burn_in]["state"]
    assert record["lambda"] == pytest.approx(low, rel=1e-5)
    assert record["lambda"] + record["lambda_hat"] == pytest.approx(high, rel=1e-5)


def test_nothing_is_removed_before_the_scalars_start(tiny: str, tmp_path: Path) -> None:
    run = quick(tiny, ORAT(m=0.3, solver="minmax-measured"), noise="symmetric", noise_rate=0.3)
    train(run, tmp_path / "run", device="cpu", display=SILENT)
    cuts = [bool(record["state"]["cut"]) for record in RunFolder(tmp_path / "run").history()]
    assert cuts == [False, False, True, True]
