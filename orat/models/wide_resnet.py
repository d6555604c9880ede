"""Wide residual networks for small images."""

from __future__ import annotations

from torch import Tensor, nn

from orat.core.errors import InputError


class WideResNet(nn.Sequential):
    """Wide ResNet (Zagoruyko and Komodakis, 2016): pre-activation blocks in three groups, `widen` times as wide.

    Depth 6n+4 counts the first convolution and the three shortcuts, depth 6n+2 (Madry et al., 2018) the first
    convolution and the linear layer: wrn-34-10 and Madry's wrn-32-10 are the same network.
    """

    def __init__(self, channels: int, classes: int, depth: int, widen: int) -> None:
        blocks: list[nn.Module] = []
        before = 16
        for width, stride in ((16 * widen, 1), (32 * widen, 2), (64 * widen, 2)):
            for unit in range(blocks_a_group(depth)):
                blocks.append(PreactivationBlock(before, width, stride if unit == 0 else 1))
                before = width
        super().__init__(
            nn.Conv2d(channels, 16, 3, padding=1, bias=False),
            *blocks,
            nn.BatchNorm2d(before),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(before, classes),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class PreactivationBlock(nn.Module):
    """Two 3x3 convolutions, each after normalization and ReLU, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.activate = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU())
        self.residual = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
        )
        changes = channels != width or stride != 1
        self.shortcut = nn.Conv2d(channels, width, 1, stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        active = self.activate(x)
        return self.residual(active) + (x if self.shortcut is None else self.shortcut(active))


def blocks_a_group(depth: int) -> int:
    """The number of blocks per group, for both ways of counting the depth."""
    counted = {4: (depth - 4) // 6, 2: (depth - 2) // 6}.get(depth % 6, 0)
    if counted < 1:
        raise InputError(f"a wide ResNet of depth {depth} does not exist: take 6n+4 (28, 34, ...) or 6n+2 (32, ...)")
    return counted
