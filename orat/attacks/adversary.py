"""The attack of one training step, bound to the network, the threat and the random numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from orat.attacks.base import Ascent, Move, frozen, gradient_at
from orat.attacks.pgd import moved
from orat.attacks.threat import Threat
from orat.core.losses import cross_entropy
from orat.core.random import Randomness
from orat.core.types import Images, Labels, Logits
from orat.models.folded import Folded, as_it_is


@runtime_checkable
class Sight(Protocol):
    """A faster form of the network in evaluation mode, and of the steps of an attack."""

    stale: bool  # whether the network has learned since the last update

    def logits(self, x: Tensor) -> Tensor:
        """The logits of the network."""
        ...

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each image."""
        ...

    @property
    def move(self) -> Move:
        """A faster form of `moved`."""
        ...


@dataclass(frozen=True)
class Adversary:
    """The attack of one training step, as a method sees it."""

    attack: Ascent
    threat: Threat
    model: nn.Module
    generator: Randomness
    sight: Sight | None = None  # replaces the network where given

    def __call__(self, x: Images, y: Labels) -> Images:
        """The images after an attack on their cross-entropy."""
        if self.sight is None:
            return self.attack(self.model, x, y, self.threat, self.generator)
        gradient = self.sight.gradient
        return self.attack.climb(lambda adv: gradient(adv, y), x, self.threat, self.generator, self.sight.move)

    def maximize(self, x: Images, objective: Callable[[Tensor], Tensor]) -> Images:
        """The images after an attack on an objective of the logits, one number per sample."""
        if self.sight is not None:
            logits = self.sight.logits
            uphill = partial(gradient_at, lambda adv: objective(logits(adv)))
            return self.attack.climb(uphill, x, self.threat, self.generator, self.sight.move)
        self.threat.check_inputs(x)
        with frozen(self.model, self.attack.mode):
            return self.attack.maximize(lambda adv: objective(self.model(adv)), x, self.threat, self.generator)

    def traced(self, x: Images, y: Labels) -> tuple[Images, Tensor]:
        """The images after an attack on their cross-entropy, and the logits before each step: (steps, n, classes)."""
        iterates = []

        def objective(logits: Tensor) -> Tensor:
            iterates.append(logits.detach())
            return cross_entropy(logits, y)

        return self.maximize(x, objective), torch.stack(iterates)

    def logits(self, x: Images) -> Logits:
        """The logits as the attack sees them: in its mode, without a graph."""
        with torch.no_grad():
            if self.sight is not None:
                return self.sight.logits(x)
            with frozen(self.model, self.attack.mode):
                logits: Tensor = self.model(x)
                return logits


class FoldedSight:
    """A folded network for the attacks of a step, refreshed at the first look of each step."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, quick: Callable[..., Any]) -> None:
        folded = Folded(model, dtype, pools=quick is not as_it_is)
        self.stale = True
        self.refresh = folded.refresh
        self.folded = quick(folded.forward)
        self.uphill = partial(uphill, folded) if quick is as_it_is else quick(partial(uphill_in_one, folded))
        self.move = quick(moved)

    def update(self) -> None:
        """Copies the network's weights if they have changed."""
        if self.stale:
            self.refresh()
            self.stale = False

    def logits(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        self.update()
        return self.folded(x)

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each sample."""
        self.update()
        return self.uphill(x, y)


def uphill(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the cross-entropy of each sample."""
    return gradient_at(lambda images: cross_entropy(network(images), y), x)


def uphill_in_one(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the cross-entropy as a single function to compile: both passes can share kernels."""
    return torch.func.grad(lambda images: cross_entropy(network(images), y).sum())(x)
