"""Methods of the studies: the oracle, and ORAT (automatic) with one part exchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from orat.core.losses import cross_entropy, noisy_cross_entropy
from orat.core.types import Batch, Indices, Labels, Logits, PerSample, Scalar
from orat.methods import AT, ORAT
from orat.methods.automatic import AutomaticRange, PredictionTable
from orat.methods.base import Decision, Scouts, Setting, State, Step
from orat.methods.ranked_range import Fold, enough_epochs
from orat.noise.evidence import evidence
from orat.noise.judge import between, finite, judge


class Kept(Fold):
    """The mean of the losses without those of removed samples."""

    weights: Tensor

    def __init__(self, n: int) -> None:
        super().__init__()
        self.register_buffer("weights", torch.ones(n))

    def forward(self, losses: PerSample, ids: Indices) -> Scalar:
        """The mean, scaled to the kept samples."""
        return (self.weights[ids].to(losses.dtype) * losses).mean()

    def remove(self, removed: Tensor) -> None:
        """Removes exactly the masked samples, (n,) bool."""
        kept = (~removed).float()
        self.weights.copy_(kept * (len(kept) / kept.sum()))

    def decision(self) -> Decision:
        """The kept samples."""
        return Decision(self.weights != 0)


@dataclass(frozen=True)
class Oracle(AT):
    """AT without the samples that a file names: the best removal."""

    removed: str = ""  # .npy, (n,) bool, in the order of the training part

    def start(self, setting: Setting) -> State:
        """Removes the samples of the file."""
        state = Kept(setting.n)
        state.remove(torch.from_numpy(np.load(self.removed)))
        return state

    def loss(self, step: Step) -> Scalar:
        """The mean loss of the kept samples after the attack."""
        adv = step.adversary(step.batch.x, step.batch.y)
        return step.state(cross_entropy(step.model(adv), step.batch.y), step.batch.id)


class OwnPredictions(Kept):
    """Labels judged after every epoch by the predictions of the network itself, averaged over epochs."""

    def __init__(self, labels: Labels, classes: int, burn_in: int) -> None:
        super().__init__(len(labels))
        self.epochs, self.burn_in = 0, burn_in
        self.register_buffer("given", labels, persistent=False)
        self.memory = PredictionTable(len(labels), classes)

    @torch.no_grad()
    def observe(self, batch: Batch, logits: Logits) -> None:
        """Stores the logits of a batch."""
        self.memory.put(batch.id, latest=logits.float())

    def end_epoch(self) -> dict[str, float]:
        """Averages the predictions, judges the labels, and removes flagged samples after the burn-in."""
        self.memory.end_epoch()
        self.epochs += 1
        verdict = judge(self.memory.log_probs(), self.get_buffer("given"))
        if self.epochs >= self.burn_in:
            self.remove(verdict.flagged())
        numbers = {"noise_rate": verdict.noise_rate, "error": verdict.error, "reliability": verdict.reliability}
        return numbers | {"cut": int((self.weights == 0).sum())}

    def get_extra_state(self) -> dict[str, int]:
        """The epoch count, for the checkpoint."""
        return {"epochs": self.epochs}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Restores the epoch count."""
        self.epochs = state["epochs"]


@dataclass(frozen=True)
class Own(ORAT):
    """ORAT (automatic) without scout networks and relabeling: own predictions on natural or attacked inputs."""

    attacked: bool = False

    def scouts(self) -> Scouts | None:
        """No scout networks."""
        return None

    def start(self, setting: Setting) -> State:
        """The memory of own predictions."""
        assert setting.labels is not None
        return OwnPredictions(setting.labels, setting.classes, enough_epochs(setting))

    def loss(self, step: Step) -> Scalar:
        """The mean loss of the kept samples after the attack."""
        x, y = step.batch.x, step.batch.y
        logits = step.model(step.adversary(x, y))
        step.state.observe(step.batch, logits if self.attacked else step.adversary.logits(x))
        return step.state(cross_entropy(logits, y), step.batch.id)


class FirstVerdict(AutomaticRange):
    """Flags and relabels by the cross-fitted predictions alone."""

    def __init__(self, predictions: Tensor, labels: Labels, confidence: float) -> None:
        super().__init__(predictions, labels, confidence)
        self.apply_verdict(may_relabel=True)

    def end_epoch(self) -> dict[str, float]:
        """Keeps the verdict."""
        verdict = self.verdict()
        numbers = {"noise_rate": verdict.noise_rate, "error": verdict.error, "reliability": verdict.reliability}
        return numbers | {"cut": int(self.cut().sum())}


@dataclass(frozen=True)
class ScoutsAlone(ORAT):
    """ORAT (automatic) without the network's own predictions."""

    def start(self, setting: Setting) -> State:
        """The verdict of the scout networks."""
        assert setting.predictions is not None
        assert setting.labels is not None
        return FirstVerdict(setting.predictions, setting.labels, self.confidence)


class Weights(AutomaticRange):
    """Every sample counts by its chance of a right label; none is relabeled."""

    def apply_verdict(self, may_relabel: bool) -> None:
        """Weighs the samples by a trusted verdict."""
        verdict = self.verdict()
        right = 1 - verdict.p_wrong.float() * verdict.trusted
        self.weights.copy_(right * (self.n / right.sum()))


@dataclass(frozen=True)
class Weighing(ORAT):
    """ORAT (automatic) with weights in place of removing and relabeling."""

    def start(self, setting: Setting) -> State:
        """The weights by the verdict of the scout networks."""
        assert setting.predictions is not None
        assert setting.labels is not None
        return Weights(setting.predictions, setting.labels, confidence=1.0)


class GivenChances(Fold):
    """The chance of each given label for the samples of each class, by the verdict of the scout networks."""

    def __init__(self, transition: Tensor) -> None:
        super().__init__()
        self.register_buffer("transition", transition)

    def forward(self, losses: PerSample, ids: Indices) -> Scalar:
        """The mean of all samples."""
        return losses.mean()


@dataclass(frozen=True)
class Corrected(ORAT):
    """AT on all samples with their given labels, corrected by the chance of each given label, as scouts learn."""

    def start(self, setting: Setting) -> State:
        """The chances by the verdict; no wrong labels if the verdict is not trusted."""
        assert setting.predictions is not None
        assert setting.labels is not None
        verdict = judge(setting.predictions, setting.labels)
        transition = verdict.transition() if verdict.trusted else torch.eye(setting.classes).to(setting.labels.device)
        return GivenChances(transition.float())

    def loss(self, step: Step) -> Scalar:
        """The mean corrected loss after the attack."""
        logits = step.model(step.adversary(step.batch.x, step.batch.y)).float()
        return step.state(noisy_cross_entropy(logits, step.batch.y, step.state.transition), step.batch.id)


def right_classes(predictions: Tensor, labels: Labels) -> Tensor:
    """The chance (n, classes) of each class to be the right one, by the verdict on these predictions."""
    sets = finite(predictions).reshape(-1, *predictions.shape[-2:])
    verdict, given = judge(predictions, labels), labels[:, None]
    if not verdict.trusted:
        return torch.nn.functional.one_hot(labels, sets.shape[-1]).float()
    posterior = evidence(sets.mean(0).log_softmax(1), labels, between(sets)).posterior.scatter(1, given, 0.0)
    others = posterior / posterior.sum(1, keepdim=True).clamp(min=1e-300)
    p_wrong = verdict.p_wrong[:, None]
    return (p_wrong * others).scatter(1, given, 1 - p_wrong).float()


class Chances(Fold):
    """The chance of each class to be the right one, by sample."""

    def __init__(self, chances: Tensor) -> None:
        super().__init__()
        self.register_buffer("chances", chances)

    def forward(self, losses: PerSample, ids: Indices) -> Scalar:
        """The mean of all samples."""
        return losses.mean()


@dataclass(frozen=True)
class Expected(ORAT):
    """AT with the expected loss over the right class, for flagged samples or for all."""

    every: bool = False

    def start(self, setting: Setting) -> State:
        """The chances by the verdict of the scout networks; given labels where they are not doubted."""
        assert setting.predictions is not None
        assert setting.labels is not None
        chances = right_classes(setting.predictions, setting.labels)
        if not self.every:
            kept = ~judge(setting.predictions, setting.labels).flagged()
            chances[kept] = torch.nn.functional.one_hot(setting.labels[kept], setting.classes).float()
        return Chances(chances)

    def loss(self, step: Step) -> Scalar:
        """The mean expected loss after an attack on the likeliest class."""
        chances = step.state.chances[step.batch.id]
        logits = step.model(step.adversary(step.batch.x, chances.argmax(1))).float()
        return step.state(-(chances * logits.log_softmax(1)).sum(1), step.batch.id)
