"""The average of the ranked range of natural losses."""

from __future__ import annotations

from dataclasses import dataclass

from orat.core.losses import cross_entropy
from orat.core.types import Scalar
from orat.methods.base import Step
from orat.methods.ranked_range import Ranked


@dataclass(frozen=True)
class AoRR(Ranked):
    """AoRR (Hu et al., 2020): the ranked range of the losses of the natural inputs."""

    def loss(self, step: Step) -> Scalar:
        """The ranked range without an attack."""
        losses = cross_entropy(step.model(step.batch.x), step.batch.y)
        return step.state(losses, step.batch.id)
