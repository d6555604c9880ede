"""Layers of our networks: normalization inside of the network, and dropout with its own random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.random import GOLDEN, mixed, shifted
from orat.core.types import Images


class Normalize(nn.Module):
    """Subtracts the mean and divides by the standard deviation of each channel, or of each feature of points."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise InputError(f"mean has {len(mean)} values and std has {len(std)}: give one of each per channel")
        if not all(value > 0 for value in std):
            raise InputError(f"std is {tuple(std)}: every value must be above 0")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, x: Images) -> Images:
        per_channel = (-1,) + (1,) * (x.dim() - 2)
        return (x - self.mean.view(per_channel)) / self.std.view(per_channel)


BITS = 24  # of a random number, compared with the share to keep


class Dropout(nn.Module):
    """Sets a share p of the values to 0 in training and scales the rest up.

    Random numbers depend on the number of former calls alone, so that a checkpoint can hold them.
    """

    asked: Tensor

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.register_buffer("asked", torch.zeros((), dtype=torch.int64), persistent=False)  # not a weight

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        self.asked += 1
        place = torch.arange(x.numel(), device=x.device).view(x.shape)
        random = shifted(mixed((place + mixed(self.asked * GOLDEN)) * GOLDEN), 64 - BITS)
        return x * ((random >= self.p * 2**BITS).to(x.dtype) / (1 - self.p))


def dropouts(model: nn.Module) -> list[Dropout]:
    """All dropouts of a network."""
    return [module for module in model.modules() if isinstance(module, Dropout)]


@contextmanager
def nothing_dropped(*models: nn.Module) -> Iterator[None]:
    """Switches all dropouts of the networks off; other layers stay in their modes."""
    active = [module for model in models for module in dropouts(model) if module.training]
    for module in active:
        module.training = False
    try:
        yield
    finally:
        for module in active:
            module.training = True


def seed_dropout(model: nn.Module, seed: int, first: int = 0) -> None:
    """Gives every dropout of a network its own part of the random numbers of a seed, numbered from `first`."""
    for number, module in enumerate(dropouts(model), first):
        module.asked.fill_(((seed << 40) + (number << 32)) % 2**63)  # the last 23 bits of the seed
