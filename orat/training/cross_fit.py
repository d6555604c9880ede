"""Cross-fitting: small networks learn natural inputs, and each predicts the samples that it was not trained on.

Ours, not the paper's: the paper's method knows only the losses of the network that it trains.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import cos, pi
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.console import SILENT, Display
from orat.core.device import choose_device
from orat.core.losses import cross_entropy
from orat.core.types import Batch, Labels, Logits, PerSample, Scalar
from orat.data.loader import Loader, loader
from orat.methods.automatic import PredictionTable
from orat.methods.base import Scouts
from orat.models.layers import nothing_dropped, seed_dropout
from orat.noise.judge import judge
from orat.training.engine import Eager, Engine, Views, execution, possible
from orat.training.graph import Graph
from orat.training.learner import Learner, warm
from orat.training.loop import fit
from orat.training.observers import Lines
from orat.training.run import Run
from orat.training.setup import MOST_EPOCHS, Parts, Plan, cheaper, check_folds, groups_of, plan_for

WARMUP = 0.5  # epochs in which the rate rises
JUDGED_EVERY = 3  # epochs between two verdicts during cross-fitting


class ScoutLearner(Learner):
    """Scout networks, one a fold, and their predictions of all samples, averaged over epochs.

    A sample's fold is the remainder of its id. Network f learns all folds but f + 1 and predicts that fold. Samples
    flagged meanwhile are not learned any more.
    """

    def __init__(self, run: Run, labels: Labels, classes: int, plan: Plan, form: str, first_dropout: int = 0) -> None:
        device = labels.device
        networks = nn.ModuleList(plan.make(number) for number in range(plan.folds)).to(device)
        seed_dropout(networks, run.seed, first_dropout)
        table = PredictionTable(len(labels), classes, kept=torch.tensor(True)).to(device)
        groups = groups_of(networks, plan, run.lr)
        super().__init__(run, nn.ModuleDict({"networks": networks, "table": table}), groups, device)
        self.plan, self.table, self.labels = plan, table, labels
        self.epochs, self.batch_size = plan.epochs, plan.batch_size
        self.forms = [Views(network, form, run.precision, attacked=False) for network in networks]
        self.numbers: dict[str, float] = {}  # of the last verdict

    @property
    def views(self) -> list[Views]:
        """The forms of the networks."""
        return self.forms

    @property
    def key(self) -> Hashable:
        """All steps run the same operations."""
        return None

    @property
    def order(self) -> int:
        """Epochs up to 0, so that no order is repeated by the run itself."""
        return self.epoch - self.epochs

    def loss(self, batch: Batch) -> Scalar:
        """The mean loss of all networks; the predictions of the batch are stored."""
        usual = len(batch.y) == self.batch_size
        networks = [views.at(usual).model for views in self.forms]
        loss, logits, batch = lesson(networks, batch, self.table["kept"])
        self.table.put(batch.id, latest=logits)
        return loss

    def pace(self, progress: float) -> None:
        """A short warm-up, then half a cosine down to nothing."""
        fallen = (1 + cos(pi * min(1.0, progress / self.epochs))) / 2
        groups = self.optimizer.param_groups
        self.set_rates([float(group["peak"] * warm(progress, WARMUP) * fallen) for group in groups])

    def close(self) -> dict[str, float]:
        """Averages the predictions, and judges the labels when due."""
        self.table.end_epoch()
        if self.epoch == 1 or (self.epochs - self.epoch) % JUDGED_EVERY == 0:
            verdict = judge(self.predictions(), self.labels)
            self.table["kept"].copy_(~verdict.flagged())
            numbers = {"noise_rate": verdict.noise_rate, "error": verdict.error, "reliability": verdict.reliability}
            self.numbers = numbers | {"cut": int(verdict.flagged().sum())}
        return self.numbers

    def predictions(self) -> Tensor:
        """The averaged log-probabilities (n, classes), in double precision."""
        return self.table.log_probs()

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed cross-fitting needs."""
        return super().state_dict() | {"numbers": self.numbers}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restores everything."""
        super().load_state_dict(saved)
        self.numbers = saved["numbers"]


def lesson(networks: Sequence[nn.Module], batch: Batch, kept: Tensor) -> tuple[Scalar, Logits, Batch]:
    """The loss of all networks on a batch, the logits of its samples, and the batch in the order of the logits.

    Batches have about as many samples of each fold. Surplus samples of a fold are left out, and their logits are NaN.
    The value is the mean of the networks' losses; the gradient is that of each network's own loss.
    """
    folds = len(networks)
    order = (batch.id % folds).argsort(stable=True)
    batch = Batch(batch.x[order], batch.y[order], batch.id[order])
    ends = [len(order) * fold // folds for fold in range(folds + 1)]
    slices = [slice(*place) for place in pairwise(ends)]
    fits = torch.cat([batch.id[place] % folds == fold for fold, place in enumerate(slices)])
    with torch.no_grad(), nothing_dropped(*networks):
        predicted = [networks[fold - 1](batch.x[place]).float() for fold, place in enumerate(slices)]
        logits = torch.cat(predicted).masked_fill(~fits[:, None], torch.nan)
    learned, losses = kept[batch.id] & fits, []
    for network, own in zip(networks, [*slices[1:], slices[0]], strict=True):
        each = cross_entropy(network(without(batch.x, own)), without(batch.y, own))
        losses.append(mean_over(each, without(learned, own)))
    loss = torch.stack(losses).sum()
    return loss - loss.detach() * (1 - 1 / folds), logits, batch


def without(values: Tensor, part: slice) -> Tensor:
    """The values before and after a slice."""
    if part.start == 0 or part.stop == len(values):
        return values[part.stop :] if part.start == 0 else values[: part.start]
    return torch.cat([values[: part.start], values[part.stop :]])


def mean_over(losses: PerSample, mask: Tensor) -> Scalar:
    """The mean over a mask, 0 for an empty mask."""
    return (losses * mask).sum() / mask.sum().clamp(min=1)


def scout_learner(run: Run, parts: Parts, plan: Plan, form: str, device: torch.device, before: int = 0) -> ScoutLearner:
    """Scout networks for the training part of a run; `before` dropouts of other networks have been numbered."""
    return ScoutLearner(run, parts.train.labels.to(device), len(parts.train.classes), plan, form, before)


def scout_loader(run: Run, parts: Parts, plan: Plan, device: torch.device) -> Loader:
    """The batches of scout networks, which see images moved at least a little."""
    augment = run.augment if "crop" in run.augment else f"{run.augment}-nudge"
    return loader(parts.train, plan.batch_size, run.seed, device, augment)


def cross_fit(
    run: Run,
    parts: Parts,
    folds: int = 5,
    epochs: int | None = None,
    model: str | None = None,
    device: str = "auto",
    display: Display = SILENT,
) -> Tensor:
    """Cross-fitted log-probabilities (n, classes) of a run's training part, by scout networks of as many folds."""
    check_folds(folds, epochs, len(parts.train))
    where = choose_device(device)
    name = model or cheaper(run, parts.train)
    plan = plan_for(replace(run, model=name), parts, Scouts(name), folds)  # which builds no network of a user
    plan = replace(plan, epochs=epochs or min(plan.epochs, MOST_EPOCHS))
    batches = scout_loader(run, parts, plan, where)
    how = possible(execution("auto", where, batches.steps * plan.epochs), batches, display)
    learner = scout_learner(run, parts, plan, how.form, where)
    lines = Lines(display, plan.epochs, f"cross-fitting, {folds} networks, epoch")
    engine: Engine = Graph(learner, display) if how.recorded else Eager()
    for event in fit(learner, batches, engine):
        lines(event)
    return learner.predictions().cpu()
