"""Networks that are compiled for a GPU, and what attacks on them search with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from orat.attacks.pgd import Attack
from orat.attacks.quick import HALVES
from orat.replica import Replica


def as_it_is(function: Any) -> Any:
    """Does not compile."""
    return function


def quickened(function: Any) -> Any:
    """Compiled for the shapes at hand, with more than one way tried for each kernel."""
    return torch.compile(function, dynamic=False, options={"max_autotune_pointwise": True})


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
