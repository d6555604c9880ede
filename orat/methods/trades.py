"""TRADES: natural loss and the distance between natural and attacked output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.errors import InputError
from orat.core.options import option
from orat.core.types import Batch, Logits, Scalar
from orat.methods.base import Setting, State, Steady


@dataclass(frozen=True)
class TRADES(Steady):
    """TRADES (Zhang et al., 2019): natural cross-entropy, and beta times the KL divergence that an attack can reach."""

    attack_start: ClassVar[str] = "gaussian"
    on_mnist: ClassVar[dict[str, Any]] = {"beta": 1.0}
    elsewhere: ClassVar[dict[str, Any]] = {"beta": 6.0}

    beta: float = option(None, "weight of the KL divergence", least=0, unset="1 on MNIST, else 6")

    def start(self, setting: Setting) -> State:
        """Nothing to remember."""
        check_start(setting)
        return super().start(setting)

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: State, epoch: int) -> Scalar:
        """The mean of both terms."""
        natural, attacked = natural_and_attacked(model, batch, attack)
        return (losses.cross_entropy(natural, batch.y) + self.beta * losses.divergence(natural, attacked)).mean()


def check_start(setting: Setting) -> None:
    """Refuses an attack that starts at the image itself, where a divergence from its own output has no gradient."""
    if setting.attack_start == "none":
        raise InputError("attack_start = none: the KL divergence has no gradient there, so give gaussian or uniform")


def natural_and_attacked(model: Module, batch: Batch, attack: Adversary) -> tuple[Logits, Logits]:
    """The logits of the natural images, and of those in the ball whose output is farthest from the natural one."""
    anchor = attack.logits(batch.x)
    adv = attack.maximize(batch.x, lambda logits: losses.divergence(anchor, logits))
    return model(batch.x), model(adv)
