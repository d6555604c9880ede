"""A model asked in half precision: quick to search with; what it breaks must be broken in float32 too."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from orat.attacks.apgd import APGD
from orat.attacks.pgd import Attack
from orat.attacks.square import Square
from orat.core.device import able
from orat.core.errors import unknown
from orat.core.losses import margin
from orat.core.types import Images, Labels
from orat.models.folded import Replica, quickened

PRECISIONS = ("auto", "half", "float32")
# APGD needs the range of bfloat16 for its gradients, Square, which has none, the digits of float16 for its small gains.
# FAB walks along the border itself and needs all digits.
HALVES: dict[type, torch.dtype] = {APGD: torch.bfloat16, Square: torch.float16}

TOLERANCE = 0.1  # of the margin on the clean image


class Quick(nn.Module):
    """The same model under autocast, with float32 logits."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = model
        self.dtype = dtype

    def forward(self, x: Images) -> Tensor:
        """The logits, with the error of half precision in them."""
        with torch.autocast(x.device.type, self.dtype, cache_enabled=False):  # a CUDA graph would keep the cache
            logits: Tensor = self.model(x)
        return logits.float()


def quick(model: nn.Module, attack: Attack, precision: str, device: torch.device) -> nn.Module | None:
    """The model to search with, where that is another than the model itself."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    dtype = HALVES.get(type(attack))
    if dtype is None or precision == "float32" or (precision == "auto" and not able(device, dtype)):
        return None
    return Quick(model, dtype)


def sees_margins(searcher: nn.Module, model: nn.Module, x: Images, y: Labels) -> Tensor:
    """For which samples the quick model finds the margin that the model finds."""
    with torch.no_grad():
        whole, half = margin(model(x), y), margin(searcher(x), y)
    return (half - whole).abs() <= TOLERANCE * whole.abs()


class OneSize(nn.Module):
    """A replica that is compiled for batches of one size; those of fewer samples are filled up to it."""

    def __init__(self, replica: Replica, size: int) -> None:
        super().__init__()
        self.replica, self.size = replica, size
        self.quick = quickened(replica.forward)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.size:
            return torch.cat([self(part) for part in x.split(self.size)])
        whole = functional.pad(x, (0, 0) * (x.dim() - 1) + (0, self.size - len(x)))
        return self.quick(whole)[: len(x)]


class CompiledSearchers:
    """Compiled replicas of a network, each made when the first attack comes that searches in its precision."""

    def __init__(self, model: nn.Module, size: int) -> None:
        self.model, self.size = model, size
        self.made: dict[torch.dtype, OneSize] = {}

    def __call__(self, attack: Attack) -> nn.Module:
        """The one for this attack: a half where that will do, else float32."""
        dtype = HALVES.get(type(attack), torch.float32)
        if dtype not in self.made:
            self.made[dtype] = OneSize(Replica(self.model, dtype, pools=True), self.size)
        return self.made[dtype]
