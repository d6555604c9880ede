"""Small convolutional networks: the paper's LeNet and Small-CNN, one for a CPU, and one for scout networks."""

from __future__ import annotations

from math import cos, pi
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from orat.models.layers import Dropout

QUICK_WIDTHS = 64, 128, 256  # channels after each halving of the size
SMALL = 1e-3  # added to variances, so that nearly constant differences stay small

SMALL_CNN_WIDTHS = (64, 128, 196)


class LeNet(nn.Sequential):
    """LeNet as the ORAT authors train it: two 5x5 convolutions of 64 channels, then 1024 hidden units with dropout."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        channels, height, width = shape
        # Two times: a 5x5 convolution without padding takes 4 pixels, the pooling halves.
        rows, columns = (((size - 4) // 2 - 4) // 2 for size in (height, width))
        super().__init__(
            nn.Conv2d(channels, 64, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * rows * columns, 1024),
            nn.ReLU(),
            Dropout(0.5),
            nn.Linear(1024, classes),
        )


class SmallCNN(nn.Sequential):
    """Small-CNN (Wang et al., 2019): six 3x3 convolutions in three blocks, then 256 hidden units."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        channels, height, width = shape
        before = (channels, *SMALL_CNN_WIDTHS[:-1])
        super().__init__(
            *(block(old, new) for old, new in zip(before, SMALL_CNN_WIDTHS, strict=True)),
            nn.Flatten(),
            nn.Linear(SMALL_CNN_WIDTHS[-1] * (height // 8) * (width // 8), 256),
            nn.ReLU(),
            nn.Linear(256, classes),
        )


def block(channels: int, width: int) -> nn.Sequential:
    """Two convolutions, each normalized over the batch, and a pooling that halves the image."""
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class DemoCNN(nn.Sequential):
    """Two convolutions with stride 2, then 512 hidden units: fast, and large enough to memorize wrong labels."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        channels, height, width = shape
        super().__init__(
            nn.Conv2d(channels, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * ((height + 3) // 4) * ((width + 3) // 4), 512),
            nn.ReLU(),
            nn.Linear(512, classes),
        )


class QuickCNN(nn.Sequential):
    """Differences of neighbors, then six convolutions with batch norm and three poolings, then global max-pooling.

    Convolutions start as the identity on their input channels, beside channels of random weights.
    """

    rate: ClassVar[float] = 0.1  # the best learning rate, with this weight decay
    decay: ClassVar[float] = 5e-4

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        layers: list[nn.Module] = [Differences(shape[0])]
        channels = Differences.of_each * shape[0]
        for width in QUICK_WIDTHS:
            layers += [*convolution(channels, width, nn.MaxPool2d(2)), *convolution(width, width)]
            channels = width
        super().__init__(*layers, Largest(), Scaled(channels, classes))


class Differences(nn.Module):
    """Means and differences of channels and neighbors, with equal variances, as positive and negative parts.

    Cosines over channels and 2x2 patches are close to the principal components of most images.
    """

    of_each: ClassVar[int] = 8  # outputs per input channel
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
    """The largest value of each channel, with the gradient at its place.

    On a GPU, torch's adaptive max-pooling sums gradients in random order. `amax` compares values again for the
    gradient, and may find no equal value when compiled in half precision.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).max(2).values


class Scaled(nn.Linear):
    """A linear layer with outputs divided by 4: largest values would give extreme logits at first."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 4


def cosines(size: int) -> Tensor:
    """The orthonormal cosines of `size` values: the mean first, then finer and finer differences."""
    rows = [[cos(pi * row * (2 * column + 1) / (2 * size)) for column in range(size)] for row in range(size)]
    return functional.normalize(torch.tensor(rows), dim=1)


def convolution(channels: int, width: int, *pooling: nn.Module) -> list[nn.Module]:
    """A 3x3 convolution, pooling if given, batch norm and ReLU."""
    layer = nn.Conv2d(channels, width, 3, padding=1, bias=False)
    nn.init.dirac_(layer.weight[: min(channels, width)])
    return [layer, *pooling, nn.BatchNorm2d(width), nn.ReLU()]
