"""A user's network: inputs in [0, 1], logits out, normalization inside, as in RobustBench."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from orat.core.errors import InputError
from orat.core.registry import as_input_error, names_code, resolve
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
