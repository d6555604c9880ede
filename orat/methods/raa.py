"""RAA-style label correction: our re-derivation, since neither code nor details of RAA are public."""

from __future__ import annotations

from dataclasses import dataclass

from orat.core.losses import cross_entropy
from orat.core.options import option
from orat.core.types import Scalar
from orat.methods.base import Late, Setting, Step, check_counts
from orat.methods.corrections import Corrections


@dataclass(frozen=True)
class RAA(Late):
    """RAA-style (our re-derivation of Zhu et al., 2021): a label that falls to the attack at once is corrected."""

    withstands: int = option(1, "a label is doubted that stood at so few points of the last attack", least=0)
    confidence: float = option(0.0, "least probability of the class that takes its place", least=0, most=1)
    persistent: bool = option(False, "a correction stays until another one; else it is found anew each epoch")

    def start(self, setting: Setting) -> Corrections:
        """The memory of the last attack on every label."""
        check_counts(setting, "raa")
        burn_in = self.plain_epochs(setting)
        return Corrections(setting.n, burn_in, self.withstands, self.confidence, self.persistent)

    def loss(self, step: Step) -> Scalar:
        """The mean loss after the attack, both against the corrected labels."""
        labels = step.state.labels(step.batch, step.epoch)
        adv, iterates = step.adversary.traced(step.batch.x, labels)
        step.state.remember(step.batch, iterates)
        return cross_entropy(step.model(adv), labels).mean()
