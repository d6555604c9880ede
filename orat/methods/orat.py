"""Outlier robust adversarial training."""

from __future__ import annotations

from dataclasses import dataclass

from orat.lazy import Batch, Module, Scalar, State, TrainingAttack, losses
from orat.methods.ranked import Ranked


@dataclass(frozen=True)
class ORAT(Ranked):
    """ORAT (Hu et al., 2023): the ranked range of the losses of the attacked images."""

    def loss(self, model: Module, batch: Batch, attack: TrainingAttack, state: State, epoch: int) -> Scalar:
        """The ranked range after the attack."""
        adv = attack(model, batch)
        return state(losses.cross_entropy(model(adv), batch.y), batch.index)
