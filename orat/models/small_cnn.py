"""The Small-CNN of the paper's CIFAR-10 experiments."""

from __future__ import annotations

from torch import nn

WIDTHS = (64, 128, 196)


class SmallCNN(nn.Sequential):
    """Small-CNN (Wang et al., 2019): six 3x3 convolutions in three blocks, then 256 hidden units."""

    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        channels, height, width = shape
        before = (channels, *WIDTHS[:-1])
        super().__init__(
            *(block(old, new) for old, new in zip(before, WIDTHS, strict=True)),
            nn.Flatten(),
            nn.Linear(WIDTHS[-1] * (height // 8) * (width // 8), 256),
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
