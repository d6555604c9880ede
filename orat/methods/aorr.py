"""The average of the ranked range of natural losses."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.types import Batch, Scalar
from orat.methods.base import State
from orat.methods.ranked_range import Ranked


@dataclass(frozen=True)
class AoRR(Ranked):
    """AoRR (Hu et al., 2020): the ranked range of the losses of the natural images."""

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: State, epoch: int) -> Scalar:
        """The ranked range, without an attack."""
        return state(losses.cross_entropy(model(batch.x), batch.y), batch.index)
