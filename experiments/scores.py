"""Methods of the studies: the oracle, and ORAT (automatic) with one part exchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from orat.core.losses import cross_entropy, noisy_cross_entropy
from orat.core.types import Batch, Indices, Labels, Logits, PerSample, Scalar
from orat.methods import AT, ORAT
from orat.methods.automatic import ExpectedLoss, PredictionTable
from orat.methods.base import Decision, Scouts, Setting, State, Step
from orat.methods.ranked_range import Fold, enough_epochs
from orat.noise.judge import Verdict, judge


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


class FirstVerdict(ExpectedLoss):
    """The chances by the cross-fitted predictions alone."""

    def end_epoch(self) -> dict[str, float]:
        """Keeps the verdict."""
        return self.numbers()


class OtherUse(FirstVerdict):
    """Another use of the verdict: flagged samples `removed`, or `relabeled` if sure, or all samples `weighed`."""

    def __init__(self, predictions: Tensor, labels: Labels, use: str, confidence: float) -> None:
        super().__init__(predictions, labels)
        verdict, flagged = self.verdict(), self.cut()
        most, likeliest = verdict.others.max(1)
        sure = flagged & (verdict.p_wrong * most > confidence) & (use == "relabeled")
        weights = 1 - self.chance if use == "weighed" else (~flagged | sure).float()
        self.register_buffer("weights", weights * (len(weights) / weights.sum()))
        self.register_buffer("labels", torch.where(sure, likeliest, labels))

    def attacked(self, batch: Batch) -> Labels:
        """The labels that are learned."""
        return self.get_buffer("labels")[batch.id]

    def losses(self, logits: Logits, batch: Batch) -> PerSample:
        """The weighted cross-entropy of these labels."""
        return self.get_buffer("weights")[batch.id] * cross_entropy(logits, self.attacked(batch))

    def decision(self) -> Decision:
        """Removes and relabels."""
        return Decision(self.get_buffer("weights") != 0, self.get_buffer("labels"))


class FlaggedAlone(FirstVerdict):
    """Expected losses of flagged samples; all others are learned with their given labels."""

    def keep_verdict(self, verdict: Verdict) -> None:
        """Takes the given labels of other samples as right."""
        super().keep_verdict(verdict)
        self.chance.mul_(self.cut())


@dataclass(frozen=True)
class Used(ORAT):
    """ORAT (automatic) with another use of the verdict of the scout networks; the network itself is not heard."""

    use: str = "expected"
    confidence: float = 0.9  # least chance of a class to relabel a sample

    def start(self, setting: Setting) -> State:
        """The verdict of the scout networks."""
        assert setting.predictions is not None
        assert setting.labels is not None
        known = setting.predictions, setting.labels
        if self.use in ("expected", "flagged"):
            return FirstVerdict(*known) if self.use == "expected" else FlaggedAlone(*known)
        return OtherUse(*known, self.use, self.confidence)


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
