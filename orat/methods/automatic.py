"""ORAT (automatic): labels are judged by cross-fitted predictions and by the network, and learned by their chances.

The score that ranks and the loss that is minimized are two things. Under a strong attack, the loss does not tell a
wrong label from a hard sample; predictions on natural inputs, averaged over epochs, do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from orat.core.losses import expected_cross_entropy
from orat.core.types import Batch, Indices, Labels, Logits, PerSample, Scalar
from orat.methods.base import Decision, SampleTable
from orat.methods.ranked_range import Fold
from orat.noise.judge import DOUBTED, Verdict, judge, right_chances

MEMORY = 0.7  # weight of former epochs in averaged predictions
FEWEST_FLAGS = 0.01  # share of flagged labels below which all labels are learned as given: right labels are flagged too


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


class ExpectedLoss(Fold):
    """The mean of the expected losses: each class counts by its chance to be the right one, by a verdict on the labels.

    Cross-fitted predictions judge first. The network itself is heard after its first epoch, and whenever it has been
    trained for twice as long; its predictions on attacked inputs cost nothing.
    """

    given: Tensor
    chance: Tensor  # (n,) that the given label is wrong

    def __init__(self, predictions: Tensor, labels: Labels) -> None:
        super().__init__()
        self.epochs = 0
        self.memory = PredictionTable(len(labels), predictions.shape[-1], times_cut=torch.tensor(0))  # of the network
        self.register_buffer("predictions", predictions, persistent=False)  # they have a file of their own
        self.register_buffer("given", labels, persistent=False)
        self.register_buffer("chance", torch.zeros(len(labels)))
        self.keep_verdict(judge(predictions, labels))

    def forward(self, losses: PerSample, ids: Indices) -> Scalar:
        """The mean of all samples."""
        return losses.mean()

    def losses(self, logits: Logits, batch: Batch) -> PerSample:
        """The expected cross-entropy of each sample over its right class."""
        return expected_cross_entropy(logits, self.chances(batch))

    def attacked(self, batch: Batch) -> Labels:
        """The likeliest classes."""
        return self.chances(batch).argmax(1)

    def chances(self, batch: Batch) -> Tensor:
        """The chance of each class to be the right one, (n, classes)."""
        return right_chances(self.chance[batch.id], self.get_buffer("verdict_others")[batch.id], batch.y)

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
            self.keep_verdict(judge(self.get_buffer("predictions"), self.given, self.memory.log_probs()))
        return self.numbers()

    def numbers(self) -> dict[str, float]:
        """The estimates for the record of an epoch."""
        verdict = self.verdict()
        numbers = {"noise_rate": verdict.noise_rate, "error": verdict.error, "reliability": verdict.reliability}
        return numbers | {"cut": int(self.cut().sum())}

    def keep_verdict(self, verdict: Verdict) -> None:
        """Stores a verdict and the chances that are learned, in buffers, which keep their place for a recorded step."""
        for name, value in verdict.tensors().items():
            buffer = f"verdict_{name}"
            self.get_buffer(buffer).copy_(value) if buffer in self._buffers else self.register_buffer(buffer, value)
        flagged = verdict.flagged()
        chance = torch.where(flagged, verdict.p_wrong, verdict.p_wrong.clamp(max=DOUBTED))
        self.chance.copy_(chance * (flagged.double().mean() >= FEWEST_FLAGS))

    def verdict(self) -> Verdict:
        """The last verdict on all labels."""
        buffers = {name: value for name, value in self.named_buffers() if name.startswith("verdict_")}
        return Verdict.of(self.given, {name.removeprefix("verdict_"): value for name, value in buffers.items()})

    def cut(self) -> Tensor:
        """The samples whose given label is learned as wrong, (n,) bool."""
        return self.chance > DOUBTED

    def decision(self) -> Decision:
        """Removes no sample, and takes the likeliest other class of flagged samples for their label."""
        flagged = self.cut()
        labels = torch.where(flagged, self.get_buffer("verdict_others").argmax(1), self.given)
        return Decision(torch.ones_like(flagged), labels)

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
