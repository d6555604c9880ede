"""Networks by name, each with its normalization inside: one network a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orat.errors import InputError

if TYPE_CHECKING:
    from torch import nn

# Any wrn-DEPTH-WIDTH and any mlp-HIDDEN-HIDDEN-... can be built; those of the paper are listed.
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
    name: str,
    shape: tuple[int, ...],
    classes: int,
    seed: int,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> nn.Module:
    """The model of this name for inputs of this shape, its weights drawn from `seed` alone."""
    # Imported here because the command line reads NAMES for its help, which should not wait for torch.
    import torch

    from orat.models.networks import network
    from orat.models.normalize import Normalize

    if classes < 2:
        raise InputError(f"a classifier of {classes} classes does not exist: give at least 2")
    if not shape or min(shape) < 1:
        raise InputError(
            f"inputs of shape {tuple(shape)} hold no values: give (channels, height, width) or (dimensions,)"
        )
    normalize = Normalize(_per_channel("mean", mean, 0.0, shape[0]), _per_channel("std", std, 1.0, shape[0]))
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed: it would also seed the GPUs, whose state is not put back.
        torch.default_generator.manual_seed(seed)
        model = torch.nn.Sequential(normalize, network(name, shape, classes))
    # As batches are laid out in memory: a third faster on a CPU. The stubs of torch do not know this form of `to`.
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _per_channel(what: str, values: Sequence[float] | None, default: float, channels: int) -> Sequence[float]:
    """These values, or the default, for each channel."""
    if values is None:
        return (default,) * channels
    if len(values) != channels:
        raise InputError(f"{what} has {len(values)} values for {channels} channels: give one a channel")
    return values
