"""The attack of a training, as a method sees it: the images after it, and what was seen on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from orat.attacks.pgd import PGD, check_images, frozen
from orat.losses import cross_entropy
from orat.types import Batch, Images, Labels, Logits


@dataclass(frozen=True)
class TrainingAttack:
    """Projected gradient ascent, with the randomness it draws from."""

    pgd: PGD
    generator: Generator

    def __call__(self, model: nn.Module, batch: Batch) -> Images:
        """The batch's images, attacked by their cross-entropy."""
        return self.pgd(model, batch.x, batch.y, self.generator)

    def maximize(self, model: nn.Module, x: Images, objective: Callable[[Tensor], Tensor]) -> Images:
        """The images x moved so that an objective of the logits grows: one number a sample."""
        check_images(x)
        with frozen(model, self.pgd.mode):
            return self.pgd.maximize(lambda adv: objective(model(adv)), x, self.generator)

    def traced(self, model: nn.Module, x: Images, y: Labels) -> tuple[Images, Tensor]:
        """The images x attacked against y, and the logits of each iterate before its step: (steps, n, classes)."""
        iterates = []

        def objective(logits: Tensor) -> Tensor:
            iterates.append(logits.detach())
            return cross_entropy(logits, y)

        return self.maximize(model, x, objective), torch.stack(iterates)

    def view(self, model: nn.Module, x: Images) -> Logits:
        """What the model says of x as the attack sees it: in the attack's mode, without a graph."""
        with frozen(model, self.pgd.mode), torch.no_grad():
            logits: Tensor = model(x)
            return logits
