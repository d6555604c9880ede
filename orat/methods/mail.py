"""MAIL: probabilistic margins for instance reweighting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from torch.nn import functional

from orat.core.losses import cross_entropy, divergence, mean_one, probability_margin
from orat.core.options import option
from orat.core.types import Labels, Logits, PerSample, Scalar
from orat.methods.base import Late, Setting, State, Step
from orat.methods.trades import check_start, natural_and_attacked

AUTHORS: dict[str, dict[str, Any]] = {"at": {"slope": 10.0, "bias": -0.5}, "trades": {"slope": 2.0, "bias": 0.0}}
CONSTANT = 3  # factor of the weights in the authors' code


@dataclass(frozen=True)
class MAIL(Late):
    """MAIL (Wang et al., 2021): losses weighted more the smaller the margin of their attacked sample's label."""

    attack_start: ClassVar[str] = "gaussian"

    form: Literal["at", "trades"] = option("at", "what is weighted: the cross-entropy, or the divergence of TRADES")
    scale: Literal["const3", "batch"] = option("const3", "weights times 3, as in the authors' code, or of mean 1")
    slope: float = option(None, "how fast the weight falls with the margin", least=0, unset="10; 2 with trades")
    bias: float = option(None, "margin of half the greatest weight", unset="-0.5; 0 with trades")
    beta: float = option(5.0, "weight of the KL divergence", least=0)

    def filled(self, data: str) -> Self:
        """The method with the authors' values on CIFAR-10 for its form."""
        return replace(self, **{name: v for name, v in AUTHORS[self.form].items() if getattr(self, name) is None})

    def start(self, setting: Setting) -> State:
        """The number of epochs before the first weight."""
        if self.form == "trades":
            check_start(setting)
        return super().start(setting)

    def loss(self, step: Step) -> Scalar:
        """The weighted mean, or natural loss and weighted divergence; weights get no gradient."""
        plain, labels = step.epoch <= step.state.burn_in, step.batch.y
        if self.form == "at":
            attacked = step.model(step.adversary(step.batch.x, labels))
            each = cross_entropy(attacked, labels)
            return each.mean() if plain else (self.weights(attacked, labels) * each).mean()
        natural, attacked = natural_and_attacked(step)
        apart = divergence(natural, attacked)
        weighted = apart if plain else self.weights(attacked, labels) * apart
        return (cross_entropy(natural, labels) + self.beta * weighted).mean()

    def weights(self, attacked: Logits, labels: Labels) -> PerSample:
        """A falling sigmoid of the margin of probabilities."""
        margin = probability_margin(attacked.detach(), labels)
        log_weights = functional.logsigmoid(-self.slope * (margin - self.bias))
        return mean_one(log_weights) if self.scale == "batch" else CONSTANT * log_weights.exp()
