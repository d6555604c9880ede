"""A user's network: inputs in [0, 1], logits out, normalization inside, as in RobustBench."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.registry import as_input_error, names_code, resolve
from orat.core.types import Images
from orat.models.weights import fit, read_weights

CONTRACT = "give a function without arguments that returns an nn.Module"


def load_external(spec: str, weights: Path | None, device: torch.device) -> nn.Module:
    """The network of `package.module:function` or `path/file.py:function`, with these weights, in its own mode."""
    model = build(spec)
    if weights is not None:
        fit(model, read_weights(weights), f"{weights} does not fit the network of {spec}")
    return model.to(device)


def build(spec: str) -> nn.Module:
    """Calls the function of a name, and returns its network."""
    if not names_code(spec):
        raise InputError(f"model {spec!r} names no function: give package.module:function or path/to/file.py:function")
    function = resolve(spec)
    if isinstance(function, nn.Module) or not callable(function):
        raise InputError(f"{spec} is a {type(function).__name__}, not a function: {CONTRACT}")
    with as_input_error(spec, CONTRACT):
        model = function()
    if not isinstance(model, nn.Module):
        raise InputError(f"{spec} returns a {type(model).__name__}, not a network: {CONTRACT}")
    return model


class Adapted(nn.Module):
    """A network whose output is the tensor of its logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Images) -> Tensor:
        """The logits in the output: a tensor, `.logits`, or the entry "logits"."""
        output = self.network(x)
        found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
        if isinstance(found, Tensor):
            return found
        raise InputError(
            f"the network returns a {type(output).__name__}: return the logits as a tensor, as .logits, or in a dict "
            'with "logits"'
        )


def adapted(model: nn.Module) -> nn.Module:
    """The network with a tensor of logits as its output."""
    return Adapted(model)
