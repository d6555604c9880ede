"""Standard training."""

from __future__ import annotations

from dataclasses import dataclass

from orat.core.losses import cross_entropy
from orat.core.types import Scalar
from orat.methods.base import Steady, Step


@dataclass(frozen=True)
class ST(Steady):
    """Standard training: the mean cross-entropy of the natural inputs."""

    def loss(self, step: Step) -> Scalar:
        """The mean loss without an attack."""
        return cross_entropy(step.model(step.batch.x), step.batch.y).mean()
