"""Names -> networks: the one place that decides what the name of a network means."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from torch import nn

from orat.errors import InputError, unknown
from orat.models import NAMES
from orat.models.demo_cnn import DemoCNN
from orat.models.lenet import LeNet
from orat.models.mlp import MLP
from orat.models.quick_cnn import QuickCNN
from orat.models.resnet import resnet18, resnet34
from orat.models.small_cnn import SmallCNN
from orat.models.wide_resnet import WideResNet

# Each network of a fixed form, with the least height and width that leave it a pixel to look at.
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
    """The network of this name for inputs of this shape, with random weights."""
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
    """The shape as channels, height and width, where it is one and large enough for this network."""
    if len(shape) != 3:
        raise InputError(f"model {name!r} needs images, got inputs of shape {shape}: use mlp-64")
    channels, height, width = shape
    if min(height, width) < least:
        raise InputError(
            f"model {name!r} needs images of at least {least}x{least} pixels, got {height}x{width}: "
            "use larger images, or mlp-64"
        )
    return channels, height, width
