"""Outlier robust adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orat.lazy import losses
from orat.methods.aorr import Ranked

if TYPE_CHECKING:
    from torch import nn

    from orat.methods.method import TrainingAttack
    from orat.state import State
    from orat.types import Batch, Scalar


@dataclass(frozen=True)
class ORAT(Ranked):
    """ORAT (Hu et al., 2023): the ranked range of the losses of the attacked images."""

    def loss(self, model: nn.Module, batch: Batch, attack: TrainingAttack, state: State, epoch: int) -> Scalar:
        """The ranked range after the attack."""
        adv = attack(model, batch)
        return state(losses.cross_entropy(model(adv), batch.y), batch.index)
