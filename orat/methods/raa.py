"""RAA-style label correction: our re-derivation, since neither code nor details of RAA are public."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn import Module

from orat.attacks.adversary import Adversary
from orat.core import losses
from orat.core.options import option
from orat.core.types import Batch, Scalar
from orat.methods import relabeling
from orat.methods.base import Late, Setting, check_counts


@dataclass(frozen=True)
class RAA(Late):
    """RAA-style (our re-derivation of Zhu et al., 2021): a label that falls to the attack at once is corrected."""

    withstands: int = option(1, "a label is doubted that stood at so few points of the last attack", least=0)
    confidence: float = option(0.0, "least probability of the class that takes its place", least=0, most=1)
    persistent: bool = option(False, "a correction stays until another one; else it is found anew each epoch")

    def start(self, setting: Setting) -> relabeling.Corrections:
        """The memory of what the last attack said of every label."""
        check_counts(setting, "raa")
        burn_in = self.plain_epochs(setting)
        return relabeling.Corrections(setting.n, burn_in, self.withstands, self.confidence, self.persistent)

    def loss(self, model: Module, batch: Batch, attack: Adversary, state: relabeling.Corrections, epoch: int) -> Scalar:
        """The mean loss after the attack, both against the labels as corrected."""
        labels = state.labels(batch, epoch)
        adv, iterates = attack.traced(batch.x, labels)
        state.remember(batch, iterates)
        return losses.cross_entropy(model(adv), labels).mean()
