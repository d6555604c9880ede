"""Networks by name, each with its normalization inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from orat.core.errors import InputError, unknown
from orat.core.random import seeded
from orat.models.adapted import Say
from orat.models.external import build_network
from orat.models.layers import Normalize
from orat.models.mlp import MLP
from orat.models.resnet import resnet18, resnet34
from orat.models.small_networks import DemoCNN, LeNet, QuickCNN, SmallCNN
from orat.models.wide_resnet import WideResNet

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


def operations_of(work: Callable[[], object]) -> int:
    """The floating-point operations of the matrix products and convolutions in some work.

    torch's FlopCounterMode has module hooks that prevent gradients by the input.
    """
    total = 0

    class Operations(TorchDispatchMode):
        """Sums torch's counts."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal total
            result = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                total += flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=result)
            return result

    with Operations():
        work()
    return total


def forward_operations(model: nn.Module, shape: tuple[int, ...]) -> int:
    """The operations of a forward pass of one input; the mode of the network is restored."""
    training = model.training
    with torch.no_grad():
        total = operations_of(lambda: model.eval()(torch.zeros(1, *shape)))
    model.train(training)
    return total


def is_own(model: object) -> bool:
    """Whether a model is a user's: an object, or a text that is no built-in name."""
    return not isinstance(model, str) or any(sign in model for sign in ":./")
