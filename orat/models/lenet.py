"""The LeNet of the paper's MNIST experiments, wider than that of LeCun et al. (1998)."""

from __future__ import annotations

from torch import nn

from orat.models.layers import Dropout


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
