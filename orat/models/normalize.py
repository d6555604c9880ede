"""Normalization as a layer, so that everything outside of the model lives in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from orat.errors import InputError
from orat.types import Images


class Normalize(nn.Module):
    """Subtracts the mean and divides by the standard deviation of each channel, or of each coordinate of points."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise InputError(f"mean has {len(mean)} values and std has {len(std)}: give one of each a channel")
        if not all(value > 0 for value in std):
            raise InputError(f"std is {tuple(std)}: every value must be above 0")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32))

    def forward(self, x: Images) -> Images:
        per_channel = (-1,) + (1,) * (x.dim() - 2)
        return (x - self.mean.view(per_channel)) / self.std.view(per_channel)
