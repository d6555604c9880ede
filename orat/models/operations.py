"""How much arithmetic a computation takes: floating-point operations of its matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Operations(TorchDispatchMode):
    """Sums torch's own counts; its FlopCounterMode hooks every module, and those hooks refuse an input's gradient."""

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
    """Those of one input of this shape; the model is left as it was."""
    training = model.training
    with torch.no_grad(), Operations() as operations:
        model.eval()(torch.zeros(1, *shape))
    model.train(training)
    return operations.total
