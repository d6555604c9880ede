"""GAIRAT: geometry-aware instance-reweighted adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import Module, functional

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.options import option
from orat.core.types import Batch, PerSample, Scalar
from orat.methods.base import BurnIn, Late, Setting, State, check_counts

STEEPNESS = 5  # of the weight, from the authors' code


@dataclass(frozen=True)
class GAIRAT(Late):
    """GAIRAT (Zhang et al., 2021): losses weigh more the fewer steps of the attack their sample withstands."""

    weight: Literal["tanh", "sigmoid", "discrete"] = option("tanh", "how the weight falls with the steps withstood")
    shift: float = option(-1.0, "lambda in the weight: where tanh and sigmoid fall; large is adversarial training")

    def start(self, setting: Setting) -> State:
        """The epochs before the first weight."""
        check_counts(setting, "gairat")
        return super().start(setting)

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: BurnIn, epoch: int) -> Scalar:
        """The weighted mean; weights have mean 1 in a batch and, made of counts, no gradient."""
        adv, iterates = attack.traced(batch.x, batch.y)
        each = losses.cross_entropy(model(adv), batch.y)
        if epoch <= state.burn_in:
            return each.mean()
        withstood = (iterates.argmax(2) == batch.y).sum(0)
        return (losses.mean_one(self.log_weights(withstood, len(iterates))) * each).mean()

    def log_weights(self, withstood: Tensor, steps: int) -> PerSample:
        """Logarithms of the weights, because samples that withstand all may weigh less than a float can hold."""
        if self.weight == "discrete":
            return ((steps + 1 - withstood) / (steps + 1)).log()
        half = max(steps // 2, 1)
        place = self.shift + STEEPNESS * (half - withstood) / half
        return functional.logsigmoid(2 * place if self.weight == "tanh" else place)  # (1 + tanh z) / 2 = sigmoid(2z)
