"""A small network that learns images in few epochs: what scouts are, where that costs less than the run's."""

from __future__ import annotations

from math import cos, pi
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTHS = 64, 128, 256  # from one halving of the size to the next
SMALL = 1e-3  # variance below which a difference counts for little


class QuickCNN(nn.Sequential):
    """Differences of neighbors, six convolutions with batch norm, the size halved after every other, largest values.

    Convolutions start as what they are given goes on through them, beside others of random weights.
    """

    rate: ClassVar[float] = 0.1  # that it learns best at, with this decay of weights
    decay: ClassVar[float] = 5e-4

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        layers: list[nn.Module] = [Differences(shape[0])]
        channels = Differences.of_each * shape[0]
        for width in WIDTHS:
            layers += [*convolution(channels, width, nn.MaxPool2d(2)), *convolution(width, width)]
            channels = width
        super().__init__(*layers, Largest(), Scaled(channels, classes))


class Differences(nn.Module):
    """Means and differences of channels and neighbors, of the same variance each, their positive and negative parts.

    Cosines over channels and 2x2 patches are about the principal components of any images.
    """

    of_each: ClassVar[int] = 8  # channel, so many values
    filters: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        color, pair = cosines(channels), cosines(2)
        filters = torch.einsum("ac,yi,xj->ayxcij", color, pair, pair).reshape(-1, channels, 2, 2)
        self.register_buffer("filters", filters)
        self.norm = nn.BatchNorm2d(len(filters), SMALL, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        values = self.norm(functional.conv2d(x, self.filters))
        return torch.cat([values, -values], 1).relu()


class Largest(nn.Module):
    """The largest value of each channel, by its place.

    torch's pooling of this kind adds up gradients in any order on a GPU. By `amax` they would go where the value is met
    again, and compiled, in a half, it may be met nowhere.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).max(2).values


class Scaled(nn.Linear):
    """A linear layer of small outputs: largest values of many would be sure of anything at first."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 4


def cosines(size: int) -> Tensor:
    """The orthonormal cosines of so many values: their mean first, then ever finer differences."""
    rows = [[cos(pi * row * (2 * column + 1) / (2 * size)) for column in range(size)] for row in range(size)]
    return functional.normalize(torch.tensor(rows), dim=1)


def convolution(channels: int, width: int, *pooling: nn.Module) -> list[nn.Module]:
    """A 3x3 convolution that keeps the size, with batch norm, and pooling before it if there is any."""
    layer = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight[: min(channels, width)])
    return [layer, *pooling, nn.BatchNorm2d(width), nn.ReLU()]
