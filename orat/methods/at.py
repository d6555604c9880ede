"""Adversarial training."""

from __future__ import annotations

from dataclasses import dataclass

from orat.core.losses import cross_entropy
from orat.core.types import Scalar
from orat.methods.base import Steady, Step


@dataclass(frozen=True)
class AT(Steady):
    """Adversarial training (Madry et al., 2018): the mean cross-entropy of the attacked inputs."""

    def loss(self, step: Step) -> Scalar:
        """The mean loss after the attack."""
        adv = step.adversary(step.batch.x, step.batch.y)
        return cross_entropy(step.model(adv), step.batch.y).mean()
