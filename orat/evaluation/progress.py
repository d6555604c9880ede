"""How much work an attack is, in forward passes of one sample, and a model that counts it."""

from __future__ import annotations

from torch import Tensor, nn

from orat.attacks.apgd import APGD
from orat.attacks.carlini_wagner import CarliniWagner
from orat.attacks.fab import FAB
from orat.attacks.pgd import PGD, Attack
from orat.attacks.square import Square
from orat.core.console import Bar
from orat.core.types import Images

GRADIENT = 3  # forward passes that one with a gradient takes, about


class Metered(nn.Module):
    """A model that moves a bar with every sample it is asked about."""

    def __init__(self, model: nn.Module, bar: Bar) -> None:
        super().__init__()
        self.model = model
        self.bar = bar

    def forward(self, x: Images) -> Tensor:
        """The model's answer."""
        self.bar.advance(len(x) * (GRADIENT if x.requires_grad else 1))
        logits: Tensor = self.model(x)
        return logits


def work(attack: Attack, classes: int) -> int:
    """The forward passes that an attack takes for a sample that it does not break; a guess where it is not known."""
    match attack:
        case PGD():
            return GRADIENT * attack.steps * attack.restarts
        case APGD():
            targets = min(attack.targets, classes - 1) if attack.loss == "dlr-targeted" else 1
            return GRADIENT * (attack.steps + 1) * attack.restarts * targets
        case FAB():
            return (GRADIENT + 1) * attack.steps * min(attack.targets, classes - 1)
        case Square():
            return attack.queries
        case CarliniWagner():
            return GRADIENT * attack.steps * attack.search_steps
    return GRADIENT * 5000
