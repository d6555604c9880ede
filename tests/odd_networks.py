"""Networks with all that a user's network may have; none of them knows orat."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Normal(nn.Module):
    """A convolution, a normalization and a linear layer."""

    def __init__(self, classes: int, channels: int, norm: Any = nn.BatchNorm2d) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, 6, 3), norm(6), nn.ReLU(), nn.AdaptiveAvgPool2d(3))
        self.head = nn.Linear(54, classes)

    def features(self, x: Tensor) -> Tensor:
        return torch.flatten(self.body(x), 1)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.features(x))


def group_norm(classes: int, channels: int) -> nn.Module:
    return Normal(classes, channels, lambda width: nn.GroupNorm(2, width))


class Viewed(Normal):
    """Needs contiguous features."""

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).view(len(x), -1)


class Dropped(Normal):
    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self.drop = nn.Dropout(0.3)

    def features(self, x: Tensor) -> Tensor:
        return self.drop(super().features(x))


class Functional(Normal):
    def features(self, x: Tensor) -> Tensor:
        return functional.dropout(super().features(x), 0.3, self.training)


class Depth(Normal):
    """Stochastic depth by Python's generator."""

    def forward(self, x: Tensor) -> Tensor:
        features = self.features(x)
        return self.head(features if not self.training or random.random() < 0.7 else 0 * features)


class Attention(nn.Module):
    """Attention over rows, with a dropout inside of torch's function."""

    def __init__(self, num_classes: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.embed = nn.Linear(shape[0] * shape[2], 12)
        self.attention = nn.MultiheadAttention(12, 2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(12, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.embed(x.movedim(2, 1).flatten(2))
        seen, _ = self.attention(rows, rows, rows, need_weights=False)
        return self.head((rows + seen).mean(1))


class Encoder(nn.Module):
    """An encoder layer of torch, and scaled_dot_product_attention."""

    def __init__(self, num_classes: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.embed = nn.Linear(shape[0] * shape[2], 16)
        layer = nn.TransformerEncoderLayer(16, 2, 16, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(16, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.encoder(self.embed(x.movedim(2, 1).flatten(2)))
        return self.head(functional.scaled_dot_product_attention(rows, rows, rows).mean(1))


class Tied(nn.Module):
    """One block at two places, one matrix in two layers, and a lazy layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.first = nn.LazyLinear(16)
        self.block = nn.Sequential(nn.Linear(16, 16), nn.ReLU())
        self.again = self.block
        self.other = nn.Linear(16, 16)
        self.other.weight = self.block[0].weight
        self.head = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.flatten(1))
        for layer in (self.block, self.again, self.other):
            x = x + layer(x)
        return self.head(x)


class Listed(nn.Module):
    """Modules in plain containers, at two depths, besides numbers and modules that torch sees."""

    def __init__(self, classes: int, width: int = 16) -> None:
        super().__init__()
        self.sizes = [width, classes]
        self.blocks = [nn.Flatten(), (nn.LazyLinear(width), nn.BatchNorm1d(width))]
        self.ends = {"act": nn.ReLU(), "drop": nn.Dropout(0.1)}
        self.head = nn.Linear(width, classes)
        self.seen = [self.head]

    def forward(self, x: Tensor) -> Tensor:
        flatten, (linear, norm) = self.blocks
        return self.seen[0](self.ends["drop"](self.ends["act"](norm(linear(flatten(x))))))


@dataclass
class Output:
    logits: Tensor
    features: Tensor


class WithLogits(Normal):
    def forward(self, x: Tensor) -> Output:
        return Output(super().forward(x), x)


class InDict(Normal):
    def forward(self, x: Tensor) -> dict[str, Any]:
        return {"scores": super().forward(x), "name": "scores"}


class AuxiliaryInTraining(Normal):
    """As GoogLeNet: another type of output in train mode."""

    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        return Output(logits, x) if self.training else logits


class Captured(Normal):
    """Hides a module in a closure, where no copy finds it."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self.norm = nn.BatchNorm1d(54)
        norm = self.norm
        self.act = lambda x: torch.relu(norm(x))

    def features(self, x: Tensor) -> Tensor:
        return self.act(super().features(x))


class LastConvolution(nn.Module):
    """A network whose last layer comes first, is a convolution, and has no bias."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.head = nn.Conv2d(6, classes, 1, bias=False)
        self.body = nn.Sequential(nn.Conv2d(channels, 6, 3), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)).mean((2, 3))


def free(**kwargs: Any) -> nn.Module:
    """As the functions of torchvision."""
    return Normal(kwargs.get("num_classes", 1000), 1)


# Networks to refuse.


class Softmax(Normal):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(1)


class NotFinite(Normal):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 0


class Labels(Normal):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).long()


class Detached(Normal):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach())


class WithoutGradient(Normal):
    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class Unregistered(Normal):
    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self.scales = [nn.Parameter(torch.ones(54))]

    def features(self, x: Tensor) -> Tensor:
        return super().features(x) * self.scales[0]


class Counts(Normal):
    """Counts its calls outside of its buffers."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x) * (1 + self.calls)


class CountsInTraining(Normal):
    """As a schedule by the number of calls."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self.rate = 0.1

    def forward(self, x: Tensor) -> Tensor:
        self.rate = 0.9 * self.rate if self.training else self.rate
        return super().forward(x)


class Caches(Normal):
    """Keeps what it computes at its first call."""

    def forward(self, x: Tensor) -> Tensor:
        self.shape, self.ones = tuple(x.shape), torch.ones(len(x), 1)
        return super().forward(x) * self.ones


class Mixed(Normal):
    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self.pairs = [("first", nn.Linear(3, 3))]


class TwoTensors(Normal):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(x), x


class Fixed(Normal):
    def __init__(self, classes: int, channels: int) -> None:
        super().__init__(classes, channels)
        self.requires_grad_(False)


class OfColor(Normal):
    def __init__(self, classes: int) -> None:
        super().__init__(classes, 3)


def with_outputs(classes: int, channels: int) -> nn.Module:
    return Normal(classes + 2, channels)


def asks(classes: int, depth: int) -> nn.Module:
    return Normal(classes, depth)
