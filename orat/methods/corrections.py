"""Labels that a training corrects by the iterates of its own attack."""

from __future__ import annotations

import torch
from torch import Tensor

from orat.core.types import Batch, Labels
from orat.methods.base import BurnIn, Decision, SampleTable

NEVER_ATTACKED = torch.iinfo(torch.int64).max  # no label is corrected before its first attack


class Corrections(BurnIn):
    """The last attack on every training label, and the label of its last step."""

    def __init__(self, n: int, burn_in: int, withstands: int, confidence: float, persistent: bool) -> None:
        super().__init__(burn_in)
        self.withstands, self.least_confidence, self.persistent = withstands, confidence, persistent
        self.memory = SampleTable(
            n,
            withstood=torch.tensor(NEVER_ATTACKED),  # points of the attack that kept the label
            predicted=torch.tensor(0),  # at the first point
            confidence=torch.tensor(0.0),  # of that prediction
            used=torch.tensor(-1),  # label of the last step with this sample; -1 before it
            changed=torch.tensor(False),  # whether that label was a correction
        )

    def labels(self, batch: Batch, epoch: int) -> Labels:
        """The labels to train a batch with: the predicted class where the given label is doubted."""
        withstood, predicted, confidence, used, changed = (
            self.memory[name][batch.id] for name in ("withstood", "predicted", "confidence", "used", "changed")
        )
        chosen = batch.y
        if epoch > self.burn_in:
            doubted = (withstood <= self.withstands) & (confidence >= self.least_confidence)
            kept = torch.where(changed, used, batch.y) if self.persistent else batch.y
            chosen = torch.where(doubted & (predicted != batch.y), predicted, kept)
        self.memory.put(batch.id, used=chosen, changed=chosen != batch.y)
        return chosen

    def remember(self, batch: Batch, iterates: Tensor) -> None:
        """Writes how often the given label stood among the iterates, and the prediction at the first of them."""
        confidence, predicted = iterates[0].softmax(1).max(1)
        withstood = (iterates.argmax(2) == batch.y).sum(0)
        self.memory.put(batch.id, withstood=withstood, confidence=confidence, predicted=predicted)

    def decision(self) -> Decision:
        """The labels of the last epoch's steps; no sample is removed."""
        return Decision(labels=self.memory["used"])

    def describe(self) -> str:
        """The number of epochs with the given labels."""
        return f"our re-derivation, labels as given until epoch {self.burn_in}"
