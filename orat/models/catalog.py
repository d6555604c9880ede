"""Networks by name, each with its normalization inside; those of a few convolutions are defined here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import cos, pi, prod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from orat.core.device import device_of, operations_of
from orat.core.errors import InputError, unknown
from orat.core.random import seeded
from orat.models.adapted import Say
from orat.models.external import build_network
from orat.models.layers import Dropout, Normalize
from orat.models.mlp import MLP
from orat.models.resnet import resnet18, resnet34
from orat.models.wide_resnet import WideResNet

SMALL_CNN_WIDTHS = (64, 128, 196)
QUICK_WIDTHS = 64, 128, 256  # channels after each halving of the size
SMALL = 1e-3  # added to variances, so that nearly constant differences stay small


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


# All names wrn-DEPTH-WIDTH and mlp-HIDDEN-HIDDEN-... are valid; the paper's are listed.
NAMES = (
    "lenet",
    "small_cnn",
    "demo_cnn",
    "quick_cnn",
    "resnet18",
    "resnet34",
    "wrn-32-10",
    "mlp-3",
    "mlp-20-20-20",
    "mlp-64",
)


def build(
    name: str | nn.Module | Callable[..., Any],
    shape: tuple[int, ...],
    classes: int,
    seed: int,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    say: Say = lambda line: None,
) -> nn.Module:
    """The network of this name behind its normalization, with weights drawn from `seed` alone.

    A user's network has a normalization only where mean and std are given; `say` takes notes about it.
    """
    if classes < 2:
        raise InputError(f"classes = {classes}: a classifier has at least 2 classes")
    if not shape or min(shape) < 1:
        raise InputError(
            f"inputs of shape {tuple(shape)} hold no values: give (channels, height, width) or (dimensions,)"
        )
    normalize = Normalize(_per_channel("mean", mean, 0.0, shape[0]), _per_channel("std", std, 1.0, shape[0]))
    if not isinstance(name, str) or is_own(name):
        own = build_network(name, shape, classes, seed, say)
        return own if mean is None and std is None else nn.Sequential(normalize, own)
    with seeded(seed):
        model = nn.Sequential(normalize, network(name, shape, classes))
    # The memory format of batches: a third faster on a CPU. The stubs of torch lack this form of `to`.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _per_channel(what: str, values: Sequence[float] | None, default: float, channels: int) -> Sequence[float]:
    """The given values or the default, one per channel."""
    if values is None:
        return (default,) * channels
    if len(values) != channels:
        raise InputError(f"{what} has {len(values)} values for {channels} channels: give one per channel")
    return values


# Convolutional networks, with the least height and width that leave a pixel before the linear layers.
CONVOLUTIONAL: dict[str, tuple[Callable[[tuple[int, int, int], int], nn.Module], int]] = {
    "lenet": (LeNet, 16),
    "small_cnn": (SmallCNN, 8),
    "demo_cnn": (DemoCNN, 4),
    "quick_cnn": (QuickCNN, 9),
    "resnet18": (resnet18, 8),
    "resnet34": (resnet34, 8),
}
WIDE_RESNET_LEAST = 8


def network(name: str, shape: tuple[int, ...], classes: int) -> nn.Module:
    """The network of this name, with random weights and without normalization."""
    if re.fullmatch(r"mlp(-[0-9]+)+", name):
        return MLP(prod(shape), _numbers(name), classes)
    if re.fullmatch(r"wrn-[0-9]+-[0-9]+", name):
        depth, widen = _numbers(name)
        return WideResNet(_image_shape(name, shape, WIDE_RESNET_LEAST)[0], classes, depth, widen)
    if name not in CONVOLUTIONAL:
        raise unknown("model", name, NAMES)
    make, least = CONVOLUTIONAL[name]
    return make(_image_shape(name, shape, least), classes)


def _numbers(name: str) -> tuple[int, ...]:
    """The numbers in a name such as mlp-20-20-20 or wrn-32-10."""
    numbers = tuple(int(part) for part in name.split("-")[1:])
    if 0 in numbers:
        raise InputError(f"model {name!r} has a 0 in its name: every layer needs at least one unit")
    return numbers


def _image_shape(name: str, shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
    """Channels, height and width; refuses shapes that are no images, and images too small for the network."""
    if len(shape) != 3:
        raise InputError(f"model {name!r} needs images, got inputs of shape {shape}: use mlp-64")
    channels, height, width = shape
    if min(height, width) < least:
        raise InputError(
            f"model {name!r} needs images of at least {least}x{least} pixels, got {height}x{width}: "
            "use larger images, or mlp-64"
        )
    return channels, height, width


def forward_operations(model: nn.Module, shape: tuple[int, ...]) -> int:
    """The operations of a forward pass of one input; the mode of the network is restored."""
    training = model.training
    with torch.no_grad():
        total = operations_of(lambda: model.eval()(torch.zeros(1, *shape, device=device_of(model))))
    model.train(training)
    return total


def is_own(model: object) -> bool:
    """Whether a model is a user's: an object, or a text that is no built-in name."""
    return not isinstance(model, str) or any(sign in model for sign in ":./")
