"""A user's network: inputs in [0, 1] and logits out; named, built by a function, or in memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from orat.core.errors import InputError
from orat.core.random import seeded
from orat.core.registry import as_input_error, names_code, resolve
from orat.models.adapted import Say, adapt
from orat.models.weights import fit, read_weights

CONTRACT = "give a function that returns an nn.Module"
ALSO = {"num_classes": "classes", "in_channels": "channels"}  # other names of a parameter that the data fill
FILLED = f"classes, shape, channels, {', '.join(ALSO)}"


def build_network(
    model: str | nn.Module | Callable[..., Any],
    shape: tuple[int, ...],
    classes: int,
    seed: int = 0,
    say: Say = lambda line: None,
) -> nn.Module:
    """A user's network for inputs of a shape: of `package.module:function`, `path/file.py:function`, or in memory.

    Weights that a function draws depend on the seed alone; a network in memory is used in place. A network with more
    than logits as its output is put behind an adapter, and its weights keep their names. `say` takes notes.
    """
    with seeded(seed):
        network = made(model, {"shape": shape, "channels": shape[0], "classes": classes})
        return adapt(network, shape, name_of(model), say)


def load_external(
    spec: str, weights: Path | None, device: torch.device, shape: tuple[int, ...], classes: int
) -> nn.Module:
    """The network of a function, built as for a training on such inputs, with these weights, in evaluation mode."""
    model = build_network(checked_name(spec), shape, classes)
    if weights is not None:
        fit(model, read_weights(weights), f"{weights} does not fit the network of {spec}")
    return model.to(device).eval()


def name_of(model: object) -> str:
    """A model for messages."""
    if isinstance(model, str):
        return model
    return f"the network {getattr(model, '__qualname__', type(model).__qualname__)}"


def checked_name(spec: str) -> str:
    """A name of code; refuses any other text."""
    if not names_code(spec):
        raise InputError(f"model {spec!r} names no function: give package.module:function or path/to/file.py:function")
    return spec


def made(model: str | nn.Module | Callable[..., Any], facts: dict[str, Any]) -> nn.Module:
    """The network itself, or the network that a function or class returns for data with these facts."""
    function = resolve(checked_name(model)) if isinstance(model, str) else model
    if isinstance(function, nn.Module) and function is model:
        return function
    name = name_of(model)
    if isinstance(function, nn.Module) or not callable(function):
        raise InputError(f"{name} is a {type(function).__name__}, not a function: {CONTRACT}")
    arguments = arguments_of(function, name, facts)
    with as_input_error(name, CONTRACT):
        network = function(**arguments)
    if not isinstance(network, nn.Module):
        raise InputError(f"{name} returns a {type(network).__name__}, not a network: {CONTRACT}")
    return network


def arguments_of(function: Callable[..., Any], name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a function that the data fill; refuses other parameters without a default.

    A function with free keywords, such as those of torchvision, gets the number of classes.
    """
    values = facts | {new: facts[old] for new, old in ALSO.items() if old in facts}
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of functions in C
        return {}
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {one.name: one for one in parameters if one.kind not in free}
    if missing := [key for key, one in named.items() if one.default is one.empty and key not in values]:
        raise InputError(f"{name} needs {', '.join(missing)}: give a default to each parameter other than {FILLED}")
    found = {key: value for key, value in values.items() if key in named}
    is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    if is_open and "classes" in facts and not found.keys() & {"classes", "num_classes"}:
        found["num_classes"] = facts["classes"]
    return found
