"""A convolutional network small enough for adversarial training on a laptop."""

from __future__ import annotations

from torch import nn


class DemoCNN(nn.Sequential):
    """Three convolutions, two of them with stride 2, then 128 hidden units."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        channels, height, width = shape
        super().__init__(
            nn.Conv2d(channels, 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * (height // 4) * (width // 4), 128),
            nn.ReLU(),
            nn.Linear(128, classes),
        )
        # With torch's own, smaller weights the first epochs of adversarial training on few images often learn nothing.
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
