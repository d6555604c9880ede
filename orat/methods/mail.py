"""MAIL: probabilistic margins for instance reweighting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from torch.nn import Module, functional

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.options import option
from orat.core.types import Batch, Logits, PerSample, Scalar
from orat.methods.base import BurnIn, Late, Setting, State
from orat.methods.trades import check_start, natural_and_attacked

AUTHORS: dict[str, dict[str, Any]] = {  # on CIFAR-10
    "at": {"slope": 10.0, "bias": -0.5},
    "trades": {"slope": 2.0, "bias": 0.0},
}
CONSTANT = 3  # that the authors' code multiplies its weights with


@dataclass(frozen=True)
class MAIL(Late):
    """MAIL (Wang et al., 2021): losses weigh more the smaller the margin of their attacked sample's label is."""

    attack_start: ClassVar[str] = "gaussian"

    form: Literal["at", "trades"] = option("at", "what is weighted: the cross-entropy, or the divergence of TRADES")
    scale: Literal["const3", "batch"] = option("const3", "weights times 3, as in the authors' code, or of mean 1")
    slope: float = option(None, "how fast the weight falls with the margin", least=0, unset="10; 2 with trades")
    bias: float = option(None, "margin of half the greatest weight", unset="-0.5; 0 with trades")
    beta: float = option(5.0, "weight of the KL divergence", least=0)

    def filled(self, data: str) -> Self:
        """The method with the authors' values for its form where nothing was said."""
        return replace(self, **{name: v for name, v in AUTHORS[self.form].items() if getattr(self, name) is None})

    def start(self, setting: Setting) -> State:
        """The epochs before the first weight."""
        if self.form == "trades":
            check_start(setting)
        return super().start(setting)

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: BurnIn, epoch: int) -> Scalar:
        """The weighted mean, or natural loss and weighted divergence; weights get no gradient."""
        plain = epoch <= state.burn_in
        if self.form == "at":
            attacked = model(attack(batch.x, batch.y))
            each = losses.cross_entropy(attacked, batch.y)
            return each.mean() if plain else (self.weights(attacked, batch) * each).mean()
        natural, attacked = natural_and_attacked(model, batch, attack)
        apart = losses.divergence(natural, attacked)
        weighted = apart if plain else self.weights(attacked, batch) * apart
        return (losses.cross_entropy(natural, batch.y) + self.beta * weighted).mean()

    def weights(self, attacked: Logits, batch: Batch) -> PerSample:
        """A falling sigmoid of the margin of probabilities."""
        margin = losses.probability_margin(attacked.detach(), batch.y)
        log_weights = functional.logsigmoid(-self.slope * (margin - self.bias))
        return losses.mean_one(log_weights) if self.scale == "batch" else CONSTANT * log_weights.exp()
