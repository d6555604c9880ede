"""The forms of a network in a training step: as the method calls it, and as attacks search on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.base import gradient_at
from orat.attacks.pgd import moved
from orat.core.device import able
from orat.core.losses import cross_entropy
from orat.models.folded import Folded, as_it_is


def takes_halves(precision: str, device: torch.device) -> bool:
    """Whether attacks are in bfloat16 there; on a CPU only where it was asked for and has instructions for it."""
    if precision == "auto":
        return device.type == "cuda"
    return precision == "mixed" and able(device, torch.bfloat16)


class Mixed(nn.Module):
    """A network whose matrix products and convolutions are in bfloat16, and all else in float32."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            logits: Tensor = self.network(x)
        return logits.float()


class ReplicaSight:
    """A replica for the attacks of a step, brought up to date when the first of them looks."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, quick: Callable[..., Any]) -> None:
        replica = Folded(model, dtype, pools=quick is not as_it_is)
        self.stale = True
        self.refresh = replica.refresh
        self.replica = quick(replica.forward)
        self.uphill = partial(uphill, replica) if quick is as_it_is else quick(partial(uphill_in_one, replica))
        self.move = quick(moved)

    def update(self) -> None:
        """Takes over what the network has learned since the last step."""
        if self.stale:
            self.refresh()
            self.stale = False

    def logits(self, x: Tensor) -> Tensor:
        """What the network says of these images."""
        self.update()
        return self.replica(x)

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each image."""
        self.update()
        return self.uphill(x, y)


def uphill(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the cross-entropy of each image."""
    return gradient_at(lambda images: cross_entropy(network(images), y), x)


def uphill_in_one(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The same as one function to compile, in which what goes forth and back may share kernels."""
    return torch.func.grad(lambda images: cross_entropy(network(images), y).sum())(x)
