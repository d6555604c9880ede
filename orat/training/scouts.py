"""Scout networks: small networks that learn natural inputs, each predicting the samples that it was not trained on.

Ours, not the paper's: the paper's method knows only the losses of the network that it trains.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from math import ceil
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.losses import noisy_cross_entropy
from orat.core.types import Batch, Labels, PerSample, Scalar
from orat.data.loader import Loader, loader
from orat.methods.automatic import PredictionTable
from orat.models.layers import nothing_dropped, seed_dropout
from orat.noise.judge import RELIABLE, Verdict, judge
from orat.training.engine import Views
from orat.training.learner import Learner, warm
from orat.training.plan import Plan, groups_of
from orat.training.run import Run
from orat.training.setup import Parts

WARMUP = 0.5  # epochs in which the rate rises
FALLING = 1 / 3  # share of the epochs in which the rate falls to zero
TINY, NEVER = 1e-12, -1e4  # smallest share in a logarithm; log-probability for a sample that does not count
CHANGED, FEW = 0.1, 0.002  # of a settled verdict: changed flags at most, as shares of the flags and of the samples
BALANCE = 0.3  # weight of predicted classes that are rarer than their labels
HIGHER = 0.02  # the reliability of a settled verdict above that of the verdict before, at most


class ScoutLearner(Learner):
    """Scout networks, and their predictions of all samples, averaged over epochs.

    A sample's fold is the remainder of its id. Network f predicts the next folds, as many as there are sets, and learns
    all others. Each trusted verdict says how often a class gets a wrong label; by these chances, networks learn right
    classes from noisy labels. Once the verdict has settled, the rate falls.
    """

    def __init__(self, run: Run, labels: Labels, classes: int, plan: Plan, form: str, first_dropout: int = 0) -> None:
        device = labels.device
        networks = nn.ModuleList(plan.make(number) for number in range(plan.folds)).to(device)
        seed_dropout(networks, run.seed, first_dropout)
        table = PredictionTable(len(labels), plan.sets, classes, flagged=torch.tensor(False)).to(device)
        groups = groups_of(networks, plan, run.lr)
        super().__init__(run, nn.ModuleDict({"networks": networks, "table": table}), groups, device)
        self.modules.register_buffer("transition", torch.eye(classes, device=device))
        self.plan, self.table, self.labels = plan, table, labels
        self.shares = learned_shares(labels, classes, plan)
        self.epochs, self.batch_size = plan.epochs, plan.batch_size
        self.falls = (1 - FALLING) * plan.epochs  # epochs before the rate falls
        self.forms = [Views(network, form, run.precision, attacked=False) for network in networks]
        self.numbers: dict[str, float] = {}  # of the last verdict

    @property
    def views(self) -> list[Views]:
        """The forms of the networks."""
        return self.forms

    @property
    def transition(self) -> Tensor:
        """The chance of each given label (column) of the samples of each class (row), by the last trusted verdict."""
        return self.modules.get_buffer("transition")

    @property
    def key(self) -> Hashable:
        """All steps run the same operations."""
        return None

    @property
    def order(self) -> int:
        """Epochs up to 0, so that no order is repeated by the run itself."""
        return self.epoch - self.plan.epochs

    def loss(self, batch: Batch) -> Scalar:
        """The mean loss of all networks; the predictions of the batch are stored."""
        usual = len(batch.y) == self.batch_size
        networks = [views.at(usual).model for views in self.forms]
        loss, logits, batch = lesson(networks, batch, self.transition, self.shares, self.plan.sets)
        self.table.put(batch.id, latest=logits)
        return loss

    def pace(self, progress: float) -> None:
        """A short warm-up, then the full rate; at the end, the rate falls to zero."""
        left = max(0.0, self.epochs - progress) / (self.epochs - self.falls)
        groups = self.optimizer.param_groups
        self.set_rates([float(group["peak"] * min(warm(progress, WARMUP), left)) for group in groups])

    def close(self) -> dict[str, float]:
        """Averages the predictions, and judges the labels when due."""
        self.table.end_epoch()
        if self.epoch == self.epochs or is_due(self.epoch):
            verdict = judge(self.predictions(), self.labels)
            flagged = verdict.flagged()
            if self.epoch <= self.falls and self.settled(verdict, flagged):
                self.falls = float(self.epoch)
                self.epochs = min(self.epochs, ceil(self.epoch / (1 - FALLING)))
            self.table["flagged"].copy_(flagged)
            if verdict.trusted:
                self.transition.copy_(verdict.transition())
            numbers = {"noise_rate": verdict.noise_rate, "error": verdict.error, "reliability": verdict.reliability}
            self.numbers = numbers | {"cut": int(flagged.sum())}
        return self.numbers

    def settled(self, verdict: Verdict, flagged: Tensor) -> bool:
        """Whether a verdict repeats the last one: the rate within its interval, hardly a changed flag."""
        low, high = verdict.interval
        if not self.numbers or verdict.reliability < RELIABLE or not low <= self.numbers["noise_rate"] <= high:
            return False
        changed = int((flagged != self.table["flagged"]).sum())
        most = max(CHANGED * int(flagged.sum()), FEW * len(flagged))
        return changed <= most and verdict.reliability <= self.numbers["reliability"] + HIGHER

    def predictions(self) -> Tensor:
        """The averaged log-probabilities (sets, n, classes), in double precision."""
        return self.table.log_probs().movedim(1, 0).contiguous()

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed cross-fitting needs."""
        return super().state_dict() | {"numbers": self.numbers, "epochs": self.epochs, "falls": self.falls}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restores everything."""
        super().load_state_dict(saved)
        self.numbers, self.epochs, self.falls = saved["numbers"], saved["epochs"], saved["falls"]


def is_due(epoch: int) -> bool:
    """Whether labels are judged after an epoch: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    power = 1 << (epoch.bit_length() - 1)
    return epoch in (power, power + power // 2)


def lesson(
    networks: Sequence[nn.Module], batch: Batch, transition: Tensor, shares: Tensor, sets: int = 1
) -> tuple[Scalar, Tensor, Batch]:
    """The loss of all networks on a batch, the logits (n, sets, classes) of its samples, and the batch in their order.

    Classes that a network predicts more rarely than their shares (folds, classes) of its labels are a part of its loss.
    Batches have about as many samples of each fold. Surplus samples of a fold are left out, and their logits are NaN.
    The value is the mean of the networks' losses; the gradient is that of each network's own loss.
    """
    folds = len(networks)
    batch, places = by_fold(batch, folds)
    fits = torch.cat([batch.id[place] % folds == fold for fold, place in enumerate(places)])
    losses, predicted = [], []
    for number, network in enumerate(networks):
        order = [places[(number + 1 + step) % folds] for step in range(folds)]
        with torch.no_grad(), nothing_dropped(network):
            logits = network(picked(batch.x, order[:sets])).float()
        predicted.append(logits.split([place.stop - place.start for place in order[:sets]]))
        learned = network(picked(batch.x, order[sets:])).float()
        labels, fitting = (picked(values, order[sets:]) for values in (batch.y, fits))
        each = noisy_cross_entropy(learned, labels, transition)
        losses.append(mean_over(each, fitting) + BALANCE * rarity(learned, fitting, shares[number]))
    logits = torch.cat(
        [torch.stack([predicted[fold - 1 - number][number] for number in range(sets)], 1) for fold in range(folds)]
    ).masked_fill(~fits[:, None, None], torch.nan)
    loss = torch.stack(losses).sum()
    return loss - loss.detach() * (1 - 1 / folds), logits, batch


def learned_shares(labels: Labels, classes: int, plan: Plan) -> Tensor:
    """The share of each class among the given labels that each network learns (folds, classes)."""
    found = []
    for number in range(plan.folds):
        after = (torch.arange(len(labels), device=labels.device) - number - 1) % plan.folds
        learned = labels[after >= plan.sets]
        found.append(torch.bincount(learned, minlength=classes) / max(len(learned), 1))
    return torch.stack(found)


def rarity(logits: Tensor, mask: Tensor, shares: Tensor) -> Scalar:
    """The divergence KL(shares || p) of the mean prediction p over a mask; 0 for an empty mask."""
    each = logits.log_softmax(1).masked_fill(~mask[:, None], NEVER)
    log_mean = each.logsumexp(0) - mask.sum().clamp(min=1).log()
    return (shares * (shares.clamp(min=TINY).log() - log_mean)).sum() * mask.any()


def by_fold(batch: Batch, folds: int) -> tuple[Batch, list[slice]]:
    """A batch in the order of the folds, and an equal part for each fold."""
    order = (batch.id % folds).argsort(stable=True)
    ends = [len(order) * fold // folds for fold in range(folds + 1)]
    return Batch(batch.x[order], batch.y[order], batch.id[order]), [slice(*place) for place in pairwise(ends)]


def picked(values: Tensor, places: Sequence[slice]) -> Tensor:
    """The values in some places, one after the other."""
    return torch.cat([values[place] for place in places])


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
