"""A small residual network that learns images in few epochs: what scouts are, where that costs less than the run's."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

WIDTH = 32  # of the first convolution; the size halves and the width doubles from there on


class QuickResNet(nn.Sequential):
    """Seven convolutions with batch norm, three of the widths with a shortcut around two of them, largest values."""

    rate: ClassVar[float] = 0.1  # that it learns best at

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        layers: list[nn.Module] = [convolution(shape[0], WIDTH)]
        for width in (WIDTH, 2 * WIDTH, 4 * WIDTH):
            layers += [nn.MaxPool2d(2), convolution(width, 2 * width), Shortcut(2 * width)]
        super().__init__(*layers, Largest(), Scaled(8 * WIDTH, classes))


class Shortcut(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(convolution(width, width), convolution(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.residual(x)


class Largest(nn.Module):
    """The largest value of each channel; torch's pooling of this kind adds up gradients in any order on a GPU."""

    def forward(self, x: Tensor) -> Tensor:
        return x.amax((2, 3))


class Scaled(nn.Linear):
    """A linear layer of small outputs: largest values of many would be sure of anything at first."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 4


def convolution(channels: int, width: int) -> nn.Sequential:
    """A 3x3 convolution that keeps the size, with batch norm."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
    )
