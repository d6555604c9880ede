"""WMMR: weighted minimax risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.options import option
from orat.core.types import Batch, Logits, PerSample, Scalar
from orat.methods.base import State, Steady


@dataclass(frozen=True)
class WMMR(Steady):
    """WMMR (Zeng et al., 2021): losses weigh exp(-alpha margin), in training and in the attack."""

    on_mnist: ClassVar[dict[str, Any]] = {"alpha": 0.05}
    elsewhere: ClassVar[dict[str, Any]] = {"alpha": 0.5}

    alpha: float = option(None, "how fast the weight falls with the margin", least=0, unset="0.05 on MNIST, else 0.5")
    detach_weights: bool = option(False, "no gradient through the weights in training")
    weighted_attack: bool = option(True, "attack the weighted loss, through its weight too")

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: State, epoch: int) -> Scalar:
        """The mean of weight times loss after the attack."""
        if self.weighted_attack:
            adv = attack.maximize(batch.x, lambda logits: self.weighted(logits, batch, detached=False))
        else:
            adv = attack(batch.x, batch.y)
        return self.weighted(model(adv), batch, self.detach_weights).mean()

    def weighted(self, logits: Logits, batch: Batch, detached: bool) -> PerSample:
        """Weight times cross-entropy of each sample."""
        margin = losses.probability_margin(logits, batch.y)
        weights = (-self.alpha * (margin.detach() if detached else margin)).exp()
        return weights * losses.cross_entropy(logits, batch.y)
