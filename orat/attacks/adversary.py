"""The training attack of one step, bound to the network and to its randomness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor, nn

from orat.attacks.pgd import PGD, check_images, frozen, gradient_at
from orat.core.losses import cross_entropy
from orat.core.types import Images, Labels, Logits


@runtime_checkable
class Sight(Protocol):
    """A quicker form of the network in evaluation mode, for attacks to search on."""

    stale: bool  # whether the network has changed since the last refresh

    def logits(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        ...

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each sample."""
        ...

    @property
    def move(self) -> Callable[..., Tensor]:
        """One projected step, as `moved`."""
        ...


@dataclass(frozen=True)
class Adversary:
    """Projected gradient ascent against one network, with its generator."""

    pgd: PGD
    model: nn.Module
    generator: Generator
    sight: Sight | None = None

    def __call__(self, x: Images, y: Labels) -> Images:
        """The inputs after an attack on their cross-entropy."""
        if self.sight is None:
            return self.pgd(self.model, x, y, self.generator)
        gradient = self.sight.gradient
        return self.pgd.climb(lambda adv: gradient(adv, y), x, self.generator, self.sight.move)

    def maximize(self, x: Images, objective: Callable[[Tensor], Tensor]) -> Images:
        """The inputs after an attack on an objective of the logits, one number a sample."""
        if self.sight is not None:
            logits = self.sight.logits
            uphill = partial(gradient_at, lambda adv: objective(logits(adv)))
            return self.pgd.climb(uphill, x, self.generator, self.sight.move)
        check_images(x)
        with frozen(self.model, self.pgd.mode):
            return self.pgd.maximize(lambda adv: objective(self.model(adv)), x, self.generator)

    def traced(self, x: Images, y: Labels) -> tuple[Images, Tensor]:
        """The attacked inputs, and the logits of each iterate before its step: (steps, n, classes)."""
        iterates = []

        def objective(logits: Tensor) -> Tensor:
            iterates.append(logits.detach())
            return cross_entropy(logits, y)

        return self.maximize(x, objective), torch.stack(iterates)

    def logits(self, x: Images) -> Logits:
        """The logits of a batch in the attack's mode, without a graph."""
        with torch.no_grad():
            if self.sight is not None:
                return self.sight.logits(x)
            with frozen(self.model, self.pgd.mode):
                logits: Tensor = self.model(x)
                return logits
