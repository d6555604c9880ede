"""AutoAttack, version standard (Croce & Hein, 2020): four attacks, each on the samples that withstood the former."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from orat.attacks.apgd import APGD
from orat.attacks.base import Attack, frozen, wrong
from orat.attacks.fab import FAB
from orat.attacks.square import Square
from orat.attacks.threat import Threat, ThreatLike
from orat.core.random import Randomness, take
from orat.core.types import Images, Labels

STANDARD: dict[str, Attack] = {
    "apgd-ce": APGD(),
    "apgd-t": APGD(loss="dlr-targeted"),
    "fab-t": FAB(),
    "square": Square(),
}


@dataclass(frozen=True)
class AutoAttack(Attack):
    """The worst case of APGD-CE, APGD-T, FAB-T and Square per sample, each from the clean input.

    With fewer than ten classes, all wrong classes are targets. With three classes, the targeted ratio reads the third
    logit instead of the fourth; with two classes, the ratio is the difference of the logits.
    """

    @property
    def parts(self) -> dict[str, Attack]:
        """The attacks in their order."""
        return STANDARD

    def work(self, threat: Threat, classes: int) -> int:
        """The work of all parts."""
        return sum(part.work(threat, classes) for part in self.parts.values())

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """For each sample an adversarial input, or the result of the last attack."""
        threat, randomness = self.prepared(threat, x, draws)
        adv = x.detach().clone()
        standing = torch.arange(len(x), device=x.device)
        for attack in self.parts.values():
            if not len(standing):
                break
            adv[standing] = attack(model, x[standing], y[standing], threat, take(randomness, standing))
            with frozen(model):
                standing = standing[~wrong(model, adv[standing], y[standing])]
        return adv
