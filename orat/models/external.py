"""Anybody's network, by RobustBench's contract: inputs in [0, 1], logits out, normalization inside."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isclass, isfunction
from pathlib import Path
from types import ModuleType

import torch
from torch import nn

from orat.core.errors import InputError, unknown
from orat.models.weights import fit, one_line, read_weights

CONTRACT = "give a function that is called without arguments and returns an nn.Module"


def load_foreign(spec: str, weights: Path | None, device: torch.device) -> nn.Module:
    """The network that `package.module:function` or `file.py:function` builds, with these weights, in its own mode."""
    model = build(spec)
    if weights is not None:
        fit(model, read_weights(weights), f"{weights} does not fit the network of {spec}")
    return model.to(device)


def build(spec: str) -> nn.Module:
    """What the function returns, if it is a network."""
    where, _, name = spec.rpartition(":")
    if not where or not name:
        raise InputError(f"model {spec!r} names no function: give package.module:function or path/to/file.py:function")
    with told(f"importing {where}", "it must be possible to import it alone"):
        module = from_file(Path(where)) if where.endswith(".py") else from_package(where)
    function = getattr(module, name, None)
    if function is None:
        raise no_function(where, name, module)
    if isinstance(function, nn.Module) or not callable(function):
        raise InputError(f"{spec} is a {type(function).__name__}, not a function: {CONTRACT}")
    with told(spec, CONTRACT):
        model = function()
    if not isinstance(model, nn.Module):
        raise InputError(f"{spec} returns a {type(model).__name__}, not a network: {CONTRACT}")
    return model


@contextmanager
def told(what: str, advice: str) -> Iterator[None]:
    """Turns what anybody's code may raise, and a script that exits when imported, into one line."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what} fails with {type(error).__name__}: {one_line(error)}; {advice}") from error


def from_file(file: Path) -> ModuleType:
    """The module in this file, which may import its neighbors, as when run as a script."""
    if not file.is_file():
        raise InputError(f"there is no file {file}: give path/to/file.py:function")
    make_importable(file.parent)
    name = f"orat_foreign_{file.stem}"  # not the bare stem: a script may be called like a module in use
    found = importlib.util.spec_from_file_location(name, file)
    assert found is not None  # since it ends in .py
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # where dataclasses look up their module
    found.loader.exec_module(module)
    return module


def from_package(where: str) -> ModuleType:
    """The module of this name, installed or in the current directory."""
    make_importable(Path.cwd())
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if not f"{where}.".startswith(f"{error.name}."):
            raise  # found, but it imports another that is not
        raise InputError(
            f"there is no module {where!r}, installed or in {Path.cwd()}: "
            f"install it, go to its folder, or give path/to/file.py:function"
        ) from None


def make_importable(folder: Path) -> None:
    """Puts a folder first where Python looks, for good: a network may import when it runs."""
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.insert(0, path)


def no_function(where: str, name: str, module: ModuleType) -> InputError:
    """The error for a name that is not in a module, with the nearest that it defines."""
    own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    names = [key for key, value in own.items() if isfunction(value) or isclass(value)]
    if not names:
        return InputError(f"{where} has no {name!r} and defines no other function: {CONTRACT}")
    return unknown(f"function in {where}:", name, names, listed=False)
