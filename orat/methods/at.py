"""Adversarial training."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.types import Batch, Scalar
from orat.methods.base import State, Steady


@dataclass(frozen=True)
class AT(Steady):
    """Adversarial training (Madry et al., 2018): the mean cross-entropy of the attacked images."""

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: State, epoch: int) -> Scalar:
        """The mean loss after the attack."""
        adv = attack(batch.x, batch.y)
        return losses.cross_entropy(model(adv), batch.y).mean()
