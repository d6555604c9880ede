"""A convolutional network small enough for adversarial training on two CPU cores."""

from __future__ import annotations

from torch import nn


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
