"""MART: misclassification-aware adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.options import option
from orat.core.types import Batch, Scalar
from orat.methods.base import State, Steady

JUST_ABOVE_ONE = 1.0000001  # the authors' 1, so that no sample's divergence has weight 0


@dataclass(frozen=True)
class MART(Steady):
    """MART (Wang et al., 2020): a boosted loss after the attack, and a divergence that counts more for the unsure."""

    attack_start: ClassVar[str] = "gaussian"

    beta: float = option(5.0, "weight of the KL divergence", least=0)

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: State, epoch: int) -> Scalar:
        """The mean of both terms; nothing is detached."""
        adv = attack(batch.x, batch.y)
        natural, attacked = model(batch.x), model(adv)
        boosted = losses.boosted_cross_entropy(attacked, batch.y)
        doubt = JUST_ABOVE_ONE - losses.probability(natural, batch.y)
        return (boosted + self.beta * doubt * losses.divergence(natural, attacked)).mean()
