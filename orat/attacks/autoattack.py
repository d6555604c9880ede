"""AutoAttack, version standard (Croce & Hein, 2020): four attacks in turn, each on what the former left standing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from orat.attacks.apgd import APGD
from orat.attacks.fab import FAB
from orat.attacks.pgd import Attack, check_radius, frozen, wrong
from orat.attacks.square import Square
from orat.core.random import Source, source_of, take
from orat.core.types import Images, Labels

# In l1 five restarts of APGD-CE, which needs them there, and five targets instead of nine.
STANDARD: dict[str, Callable[[float, str], Attack]] = {
    "apgd-ce": lambda eps, norm: APGD(eps, norm, "ce", restarts=5 if norm == "l1" else 1),
    "apgd-t": lambda eps, norm: APGD(eps, norm, "dlr-targeted", targets=5 if norm == "l1" else 9),
    "fab-t": FAB,
    "square": Square,
}


@dataclass(frozen=True)
class AutoAttack:
    """The point-wise worst case of APGD-CE, APGD-T, FAB-T and Square, each from the clean image.

    With fewer than ten classes all wrong ones are targets. With three the targeted ratio takes the third logit for the
    fourth, which is not there; with two it is the plain difference of the logits.
    """

    eps: float
    norm: str = "linf"

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)

    @property
    def parts(self) -> dict[str, Attack]:
        """The attacks in their order."""
        return {name: attack(self.eps, self.norm) for name, attack in STANDARD.items()}

    def __call__(self, model: nn.Module, x: Images, y: Labels, generator: Source | None = None) -> Images:
        """For each sample a point of its ball where the model is wrong, or the worst one of the last attack."""
        source = source_of(generator, x)
        adv = x.detach().clone()
        standing = torch.arange(len(x), device=x.device)
        for attack in self.parts.values():
            if not len(standing):
                break
            adv[standing] = attack(model, x[standing], y[standing], take(source, standing))
            with frozen(model):
                standing = standing[~wrong(model, adv[standing], y[standing])]
        return adv
