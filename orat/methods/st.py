"""Standard training."""

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
class ST(Method):
    """Standard training: the mean cross-entropy of the natural images."""

    def loss(self, model: nn.Module, batch: Batch, attack: TrainingAttack, state: State, epoch: int) -> Scalar:
        """The mean loss; no attack."""
        return losses.cross_entropy(model(batch.x), batch.y).mean()
