"""A model asked in half precision: quick to search with; what it breaks must be broken in float32 too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from orat.attacks.apgd import APGD
from orat.attacks.pgd import Attack
from orat.attacks.square import Square
from orat.errors import unknown
from orat.losses import margin
from orat.types import Images, Labels

PRECISIONS = ("auto", "half", "float32")
# APGD needs the range of bfloat16 for its gradients, Square, which has none, the digits of float16 for its small gains.
# FAB walks along the border itself and needs all digits.
HALVES: dict[type, torch.dtype] = {APGD: torch.bfloat16, Square: torch.float16}
# What a CPU needs so that a half is quicker than a whole.
CPU_ABLE = {torch.bfloat16: ("avx512_bf16", "amx_bf16"), torch.float16: ("avx512_fp16", "amx_fp16")}

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


def able(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the device computes in this type itself, instead of imitating it slowly."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.10
        return False
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in CPU_ABLE[dtype])
