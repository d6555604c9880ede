"""TRADES: natural loss and the distance between natural and attacked output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from orat.core.errors import InputError
from orat.core.losses import cross_entropy, divergence
from orat.core.options import option
from orat.core.types import Logits, Scalar
from orat.methods.base import Setting, State, Steady, Step


@dataclass(frozen=True)
class TRADES(Steady):
    """TRADES (Zhang et al., 2019): natural cross-entropy plus beta times the largest KL divergence in the ball."""

    attack_start: ClassVar[str] = "gaussian"
    on_mnist: ClassVar[dict[str, Any]] = {"beta": 1.0}
    elsewhere: ClassVar[dict[str, Any]] = {"beta": 6.0}

    beta: float = option(None, "weight of the KL divergence", least=0, unset="1 on MNIST, else 6")

    def start(self, setting: Setting) -> State:
        """No memory."""
        check_start(setting)
        return super().start(setting)

    def loss(self, step: Step) -> Scalar:
        """The mean of both terms."""
        natural, attacked = natural_and_attacked(step)
        return (cross_entropy(natural, step.batch.y) + self.beta * divergence(natural, attacked)).mean()


def check_start(setting: Setting) -> None:
    """Refuses an attack that starts at the natural input, where the KL divergence has no gradient."""
    if setting.attack_start == "none":
        raise InputError("attack_start = none: the KL divergence has no gradient there, so give gaussian or uniform")


def natural_and_attacked(step: Step) -> tuple[Logits, Logits]:
    """The logits of the natural inputs, and of the inputs in the ball with the largest divergence from them."""
    anchor = step.adversary.logits(step.batch.x)
    adv = step.adversary.maximize(step.batch.x, lambda logits: divergence(anchor, logits))
    return step.model(step.batch.x), step.model(adv)
