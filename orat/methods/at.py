"""Adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orat.lazy import losses
from orat.methods.method import Method

if TYPE_CHECKING:
    from torch import nn

    from orat.methods.method import TrainingAttack
    from orat.state import State
    from orat.types import Batch, Scalar


@dataclass(frozen=True)
class AT(Method):
    """Adversarial training (Madry et al., 2018): the mean cross-entropy of the attacked images."""

    def loss(self, model: nn.Module, batch: Batch, attack: TrainingAttack, state: State, epoch: int) -> Scalar:
        """The mean loss after the attack."""
        adv = attack(model, batch)
        return losses.cross_entropy(model(adv), batch.y).mean()
