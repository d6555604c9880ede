"""Standard training."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.types import Batch, Scalar
from orat.methods.base import State, Steady


@dataclass(frozen=True)
class ST(Steady):
    """Standard training: the mean cross-entropy of the natural images."""

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: State, epoch: int) -> Scalar:
        """The mean loss; no attack."""
        return losses.cross_entropy(model(batch.x), batch.y).mean()
