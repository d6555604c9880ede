"""MART: misclassification-aware adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from orat.core.losses import boosted_cross_entropy, divergence, probability
from orat.core.options import option
from orat.core.types import Scalar
from orat.methods.base import Steady, Step

JUST_ABOVE_ONE = 1.0000001  # the authors' 1, so that no sample's divergence has weight 0


@dataclass(frozen=True)
class MART(Steady):
    """MART (Wang et al., 2020): a boosted loss after the attack, and a divergence with more weight for doubt."""

    attack_start: ClassVar[str] = "gaussian"

    beta: float = option(5.0, "weight of the KL divergence", least=0)

    def loss(self, step: Step) -> Scalar:
        """The mean of both terms, with gradients through all of them."""
        labels = step.batch.y
        adv = step.adversary(step.batch.x, labels)
        natural, attacked = step.model(step.batch.x), step.model(adv)
        doubt = JUST_ABOVE_ONE - probability(natural, labels)
        return (boosted_cross_entropy(attacked, labels) + self.beta * doubt * divergence(natural, attacked)).mean()
