"""ORAT (automatic): labels are judged by cross-fitted predictions and by the network, then removed or relabeled.

The score that ranks and the loss that is minimized are two things. Under a strong attack, the loss does not tell a
wrong label from a hard sample; predictions on natural inputs, averaged over epochs, do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from orat.core.types import Batch, Indices, Labels, Logits, PerSample, Scalar
from orat.methods.base import Decision, SampleTable
from orat.methods.ranked_range import Fold
from orat.noise.judge import Verdict, judge

MEMORY = 0.7  # weight of former epochs in averaged predictions


class PredictionTable(SampleTable):
    """The predictions of every sample, of shape (classes,) or (sets, classes), averaged over epochs."""

    def __init__(self, n: int, *shape: int, **columns: Tensor) -> None:
        super().__init__(
            n,
            latest=torch.full(shape, torch.nan),  # logits of the running epoch
            average=torch.zeros(shape),  # log-probabilities
            seen=torch.tensor(False),
            **columns,
        )

    def end_epoch(self) -> None:
        """Takes the logits of the epoch into the averages; the first prediction of a sample is its average."""
        latest, average, seen = (self[name] for name in ("latest", "average", "seen"))
        logs, predicted = latest.log_softmax(-1), ~latest.flatten(1)[:, 0].isnan()
        ones = (1,) * (latest.dim() - 1)
        newest, taken = torch.where(seen, 1 - MEMORY, 1.0).view(-1, *ones), predicted.view(-1, *ones)
        average.copy_(torch.where(taken, torch.lerp(average, logs, newest), average))
        seen |= predicted
        latest.fill_(torch.nan)

    def log_probs(self) -> Tensor:
        """The averages as log-probabilities, in double precision."""
        return self["average"].double().log_softmax(-1)


def average(log_probs: Tensor) -> Tensor:
    """The mean (n, classes) of predictions (n, classes) or (sets, n, classes), as log-probabilities."""
    return log_probs.double().reshape(-1, *log_probs.shape[-2:]).mean(0).log_softmax(-1)


class AutomaticRange(Fold):
    """The mean of the losses without those of removed samples; relabeled samples are learned as their new class.

    Cross-fitted predictions judge first. The network itself is heard after its first epoch, and whenever it has been
    trained for twice as long; its predictions on attacked inputs cost nothing.
    """

    predictions: Tensor  # cross-fitted, (n, classes) or (sets, n, classes)
    given: Tensor
    weights: Tensor
    relabeled: Tensor

    def __init__(self, predictions: Tensor, labels: Labels, confidence: float) -> None:
        super().__init__()
        n, classes = predictions.shape[-2:]
        self.n, self.confidence, self.epochs = n, confidence, 0
        self.memory = PredictionTable(n, classes, times_cut=torch.tensor(0))  # of the network
        self.register_buffer("predictions", predictions, persistent=False)  # they have a file of their own
        self.register_buffer("given", labels, persistent=False)
        self.register_buffer("weights", torch.ones(n))  # in the mean; 0 for removed samples
        self.register_buffer("relabeled", torch.zeros(n, dtype=torch.bool))
        self.keep_verdict(judge(predictions, labels))
        self.apply_verdict(may_relabel=False)

    def forward(self, losses: PerSample, ids: Indices) -> Scalar:
        """The mean of the losses without those of removed samples."""
        return (self.weights[ids].to(losses.dtype) * losses).mean()

    def learned(self, batch: Batch) -> Labels:
        """The labels to learn: the predicted class of relabeled samples, else the given label."""
        return torch.where(self.relabeled[batch.id], self.get_buffer("verdict_predicted")[batch.id], batch.y)

    @torch.no_grad()
    def observe(self, batch: Batch, logits: Logits) -> None:
        """Stores the network's logits on the attacked batch."""
        self.memory.put(batch.id, latest=logits.float())

    def end_epoch(self) -> dict[str, float]:
        """Averages the network's predictions, judges all labels when due, and returns the estimates."""
        self.memory.end_epoch()
        self.memory["times_cut"].add_(self.cut())
        self.epochs += 1
        if self.epochs.bit_count() == 1:  # epochs 1, 2, 4, 8, ...
            self.keep_verdict(judge(self.predictions, self.given, self.memory.log_probs()))
            self.apply_verdict(may_relabel=True)
        verdict = self.verdict()
        numbers = {"noise_rate": verdict.noise_rate, "error": verdict.error, "reliability": verdict.reliability}
        return numbers | {"cut": int(self.cut().sum())}

    def apply_verdict(self, may_relabel: bool) -> None:
        """Removes flagged samples, or relabels them where the verdict is confident."""
        verdict = self.verdict()
        flagged = verdict.flagged()
        relabeled = flagged & (verdict.confidence.float() > self.confidence) & may_relabel
        learned = ~flagged | relabeled
        self.weights.copy_(learned * (self.n / learned.sum()))
        self.relabeled.copy_(relabeled)

    def keep_verdict(self, verdict: Verdict) -> None:
        """Stores a verdict in buffers, which keep their place for a recorded step."""
        for name, value in verdict.tensors().items():
            buffer = f"verdict_{name}"
            self.get_buffer(buffer).copy_(value) if buffer in self._buffers else self.register_buffer(buffer, value)

    def verdict(self) -> Verdict:
        """The last verdict on all labels."""
        buffers = {name: value for name, value in self.named_buffers() if name.startswith("verdict_")}
        return Verdict.of(self.given, {name.removeprefix("verdict_"): value for name, value in buffers.items()})

    def cut(self) -> Tensor:
        """The samples that are not learned with their given label, (n,) bool."""
        return (self.weights == 0) | self.relabeled

    def decision(self) -> Decision:
        """Removes and relabels by the last verdict."""
        keep = self.weights != 0
        if self.confidence == 1:
            return Decision(keep)
        return Decision(keep, torch.where(self.relabeled, self.get_buffer("verdict_predicted"), self.given))

    def warning(self) -> str | None:
        """Warns of predictions that are too unreliable to judge labels."""
        reason = self.verdict().reason
        if reason is None:
            return None
        return (
            f"the predictions are too unreliable to judge labels ({reason}), so no label is flagged: give more data or "
            "more epochs"
        )

    def describe(self) -> str:
        """The estimate from the cross-fitted predictions."""
        verdict = self.verdict()
        if not verdict.trusted:
            return f"automatic; the scout networks cannot judge labels ({verdict.reason}), so none is flagged yet"
        return f"automatic, {verdict.noise_rate:.1%} of the labels estimated wrong by cross-fitted scout networks"

    def tensors(self) -> dict[str, Tensor]:
        """The tensors to keep after training, without the logits of the running epoch."""
        return {name: value for name, value in super().tensors().items() if name != "memory.latest"}

    def get_extra_state(self) -> dict[str, int]:
        """The epoch count, for the checkpoint."""
        return {"epochs": self.epochs}

    def set_extra_state(self, state: dict[str, int]) -> None:
        """Restores the epoch count."""
        self.epochs = state["epochs"]
