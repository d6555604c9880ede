"""A model asked in bfloat16: quick to search with, never believed; what it finds is verified in float32."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from orat.errors import unknown
from orat.types import Images

PRECISIONS = ("auto", "bfloat16", "float32")


class Quick(nn.Module):
    """The same model under autocast to bfloat16, with float32 logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Images) -> Tensor:
        """The logits, with the error of bfloat16 in them."""
        with torch.autocast(x.device.type, torch.bfloat16):
            logits: Tensor = self.model(x)
        return logits.float()


def quick(model: nn.Module, precision: str, device: torch.device) -> nn.Module | None:
    """The model to search with where the precision asks for another than the model itself."""
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    wanted = precision == "bfloat16" or (precision == "auto" and has_bfloat16(device))
    return Quick(model) if wanted else None


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device computes in bfloat16 itself, instead of imitating it slowly."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if not hasattr(torch.cpu, "get_capabilities"):  # before torch 2.10
        return False
    able = torch.cpu.get_capabilities()
    return any(able.get(name, False) for name in ("avx512_bf16", "amx_bf16"))
