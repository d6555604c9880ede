"""Faster forms of a network to search on: half precision; the network verifies every result."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from orat.attacks.base import Attack
from orat.core.device import able
from orat.core.errors import unknown
from orat.core.losses import margin
from orat.core.types import Images, Labels
from orat.evaluation.subject import Averaged

PRECISIONS = ("auto", "half", "float32")
TOLERANCE = 0.1  # of the margin on the clean input


class Quick(nn.Module):
    """The network under autocast, with float32 logits."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype

    def forward(self, x: Images) -> Tensor:
        """The logits, with the rounding errors of half precision."""
        with torch.autocast(x.device.type, self.dtype, cache_enabled=False):  # a CUDA graph would keep the cache
            logits: Tensor = self.model(x)
        return logits.float()


def quick(model: nn.Module, attack: Attack, precision: str, device: torch.device) -> nn.Module | None:
    """The network in half precision, where the attack, the network and the device allow."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    if attack.half is None or not searches_in(attack.half, precision, device, model):
        return None
    return Quick(model, attack.half)


def searches_in(dtype: torch.dtype, precision: str, device: torch.device, model: nn.Module) -> bool:
    """Whether searches run in this half precision; with auto, where the device is fast in it; never on a mean."""
    return not isinstance(model, Averaged) and (precision == "half" or (precision == "auto" and able(device, dtype)))


def sees_margins(searcher: nn.Module, model: nn.Module, x: Images, y: Labels) -> Tensor:
    """Which samples have about the same margin by the faster form and by the network."""
    with torch.no_grad():
        whole, half = margin(model(x), y), margin(searcher(x), y)
    return (half - whole).abs() <= TOLERANCE * whole.abs()
