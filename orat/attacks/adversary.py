"""The attack of a training, as a method sees it: the images after it, and what was seen on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from orat.attacks.pgd import PGD, check_images, frozen, gradient_at
from orat.core.losses import cross_entropy
from orat.core.types import Batch, Images, Labels, Logits


@runtime_checkable
class Sight(Protocol):
    """A quicker way to see what the network says in evaluation mode, and to move, that an attack may take instead."""

    stale: bool  # whether the network has learned since it was last looked at

    def logits(self, x: Tensor) -> Tensor:
        """What the network says of these images."""
        ...

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each image."""
        ...

    @property
    def move(self) -> Callable[..., Tensor]:
        """What does as `moved` does."""
        ...


@dataclass(frozen=True)
class TrainingAttack:
    """Projected gradient ascent, with the randomness it draws from."""

    pgd: PGD
    generator: Generator
    sight: Sight | None = None

    def __call__(self, model: nn.Module, batch: Batch) -> Images:
        """The batch's images, attacked by their cross-entropy."""
        if self.sight is None:
            return self.pgd(model, batch.x, batch.y, self.generator)
        gradient = self.sight.gradient
        return self.pgd.climb(lambda adv: gradient(adv, batch.y), batch.x, self.generator, self.sight.move)

    def maximize(self, model: nn.Module, x: Images, objective: Callable[[Tensor], Tensor]) -> Images:
        """The images x moved so that an objective of the logits grows: one number a sample."""
        if self.sight is not None:
            logits = self.sight.logits
            uphill = partial(gradient_at, lambda adv: objective(logits(adv)))
            return self.pgd.climb(uphill, x, self.generator, self.sight.move)
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
        with torch.no_grad():
            if self.sight is not None:
                return self.sight.logits(x)
            with frozen(model, self.pgd.mode):
                logits: Tensor = model(x)
                return logits
