"""Floating-point operations of the matrix products and convolutions of a network."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Operations(TorchDispatchMode):
    """Sums torch's counts; torch's FlopCounterMode has module hooks that prevent gradients by the input."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func.overloadpacket in flop_registry:
            self.total += flop_registry[func.overloadpacket](*args, **kwargs, out_val=result)
        return result


def forward_operations(model: nn.Module, shape: tuple[int, ...]) -> int:
    """The operations of a forward pass of one input; the mode of the network is restored."""
    training = model.training
    with torch.no_grad(), Operations() as operations:
        model.eval()(torch.zeros(1, *shape))
    model.train(training)
    return operations.total
