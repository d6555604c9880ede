"""Residual networks for small images: the first convolution keeps the size, without pooling."""

from __future__ import annotations

from torch import Tensor, nn

WIDTHS = (64, 128, 256, 512)


class ResNet(nn.Sequential):
    """ResNet (He et al., 2016) of basic blocks; `units` is the number of blocks of each width."""

    def __init__(self, channels: int, classes: int, units: tuple[int, int, int, int]) -> None:
        blocks: list[nn.Module] = []
        before = WIDTHS[0]
        for width, count in zip(WIDTHS, units, strict=True):
            for unit in range(count):
                halves = unit == 0 and width != WIDTHS[0]
                blocks.append(BasicBlock(before, width, stride=2 if halves else 1))
                before = width
        super().__init__(
            nn.Conv2d(channels, WIDTHS[0], 3, padding=1, bias=False),
            nn.BatchNorm2d(WIDTHS[0]),
            nn.ReLU(),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(WIDTHS[-1], classes),
        )


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut: the identity, or a 1x1 convolution where the shape changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut = nn.Sequential()
        if channels != width or stride != 1:
            self.shortcut.append(nn.Conv2d(channels, width, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        return (self.residual(x) + self.shortcut(x)).relu()


def resnet18(shape: tuple[int, int, int], classes: int) -> ResNet:
    """ResNet-18, the network of the paper's CIFAR-100 experiments."""
    return ResNet(shape[0], classes, (2, 2, 2, 2))


def resnet34(shape: tuple[int, int, int], classes: int) -> ResNet:
    """ResNet-34."""
    return ResNet(shape[0], classes, (3, 4, 6, 3))
