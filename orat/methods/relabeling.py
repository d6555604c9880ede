"""Labels that a training corrects on its way, by what its own attack says of them."""

from __future__ import annotations

import torch
from torch import Tensor

from orat.core.types import Batch, Labels
from orat.methods.base import BurnIn

NEVER_SEEN = torch.iinfo(torch.int64).max  # withstands everything, so that nothing is corrected blindly


class Corrections(BurnIn):
    """What the last attack said of every training label, and the label that it was trained with."""

    withstood: Tensor
    predicted: Tensor
    confidence: Tensor
    used: Tensor
    changed: Tensor

    def __init__(self, n: int, burn_in: int, withstands: int, confidence: float, persistent: bool) -> None:
        super().__init__(burn_in)
        self.withstands, self.least_confidence, self.persistent = withstands, confidence, persistent
        self.register_buffer("withstood", torch.full((n,), NEVER_SEEN))  # points of the attack that kept the label
        self.register_buffer("predicted", torch.zeros(n, dtype=torch.int64))  # at its first point
        self.register_buffer("confidence", torch.zeros(n))  # there
        self.register_buffer("used", torch.full((n,), -1))  # label in the last step with this sample; -1 before it
        self.register_buffer("changed", torch.zeros(n, dtype=torch.bool))  # whether that was not the given one

    def labels(self, batch: Batch, epoch: int) -> Labels:
        """The labels to train these samples with: the predicted class where the given one is doubted."""
        own = batch.id
        chosen = batch.y
        if epoch > self.burn_in:
            doubted = (self.withstood[own] <= self.withstands) & (self.confidence[own] >= self.least_confidence)
            kept = torch.where(self.changed[own], self.used[own], batch.y) if self.persistent else batch.y
            chosen = torch.where(doubted & (self.predicted[own] != batch.y), self.predicted[own], kept)
        self.used[own] = chosen
        self.changed[own] = chosen != batch.y
        return chosen

    def remember(self, batch: Batch, iterates: Tensor) -> None:
        """Keeps how often the given label stood among the attack's points, and what was seen at the first of them."""
        self.withstood[batch.id] = (iterates.argmax(2) == batch.y).sum(0)
        confidence, predicted = iterates[0].softmax(1).max(1)
        self.confidence[batch.id] = confidence.to(self.confidence.dtype)
        self.predicted[batch.id] = predicted

    def corrected(self) -> Tensor:
        """The labels of the last epoch's steps."""
        return self.used

    def describe(self) -> str:
        """From when on labels are corrected."""
        return f"our re-derivation, labels as given until epoch {self.burn_in}"
