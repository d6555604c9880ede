"""GAIRAT: geometry-aware instance-reweighted adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional

from orat.core.losses import cross_entropy, mean_one
from orat.core.options import option
from orat.core.types import PerSample, Scalar
from orat.methods.base import Late, Setting, State, Step, check_counts

STEEPNESS = 5  # of the weight, from the authors' code


@dataclass(frozen=True)
class GAIRAT(Late):
    """GAIRAT (Zhang et al., 2021): losses weighted more the fewer steps of the attack their sample withstands."""

    weight: Literal["tanh", "sigmoid", "discrete"] = option("tanh", "how the weight falls with the steps withstood")
    shift: float = option(-1.0, "lambda in the weight: where tanh and sigmoid fall; large is adversarial training")

    def start(self, setting: Setting) -> State:
        """The number of epochs before the first weight."""
        check_counts(setting, "gairat")
        return super().start(setting)

    def loss(self, step: Step) -> Scalar:
        """The weighted mean; weights have mean 1 in a batch and, made of counts, no gradient."""
        labels = step.batch.y
        adv, iterates = step.adversary.traced(step.batch.x, labels)
        each = cross_entropy(step.model(adv), labels)
        if step.epoch <= step.state.burn_in:
            return each.mean()
        withstood = (iterates.argmax(2) == labels).sum(0)
        return (mean_one(self.log_weights(withstood, len(iterates))) * each).mean()

    def log_weights(self, withstood: Tensor, steps: int) -> PerSample:
        """Logarithms of the weights: a weight itself may be smaller than a float can hold."""
        if self.weight == "discrete":
            return ((steps + 1 - withstood) / (steps + 1)).log()
        half = max(steps // 2, 1)
        place = self.shift + STEEPNESS * (half - withstood) / half
        return functional.logsigmoid(2 * place if self.weight == "tanh" else place)  # (1 + tanh z) / 2 = sigmoid(2z)
