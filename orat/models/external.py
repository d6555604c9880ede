"""A user's network: inputs in [0, 1], logits out, normalization inside, as in RobustBench."""

from __future__ import annotations

import importlib.util
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isclass, isfunction
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from orat.core.errors import InputError, unknown
from orat.models.weights import fit, one_line, read_weights

CONTRACT = "give a function without arguments that returns an nn.Module"


def load_external(spec: str, weights: Path | None, device: torch.device) -> nn.Module:
    """The network of `package.module:function` or `path/file.py:function`, with these weights, in its own mode."""
    model = build(spec)
    if weights is not None:
        fit(model, read_weights(weights), f"{weights} does not fit the network of {spec}")
    return model.to(device)


def build(spec: str) -> nn.Module:
    """Calls the function of a name, and returns its network."""
    where, _, name = spec.rpartition(":")
    if not where or not name:
        raise InputError(f"model {spec!r} names no function: give package.module:function or path/to/file.py:function")
    with as_input_error(f"importing {where}", "check that Python can import it"):
        function = from_file(Path(where), name) if where.endswith(".py") else from_package(where, name)
    if isinstance(function, nn.Module) or not callable(function):
        raise InputError(f"{spec} is a {type(function).__name__}, not a function: {CONTRACT}")
    with as_input_error(spec, CONTRACT):
        model = function()
    if not isinstance(model, nn.Module):
        raise InputError(f"{spec} returns a {type(model).__name__}, not a network: {CONTRACT}")
    return model


@contextmanager
def as_input_error(what: str, advice: str) -> Iterator[None]:
    """Turns any error of a user's code, and a script that exits when imported, into one line."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{what} fails with {type(error).__name__}: {one_line(error)}; {advice}") from error


def from_file(file: Path, name: str) -> Any:
    """The attribute of a file, which may import its neighbors, as when run as a script."""
    if not file.is_file():
        raise InputError(f"there is no file {file}: give path/to/file.py:function")
    make_importable(file.parent)
    module_name = f"orat_external_{file.stem}"  # with a prefix, since a script may have the name of a module in use
    found = importlib.util.spec_from_file_location(module_name, file)
    assert found is not None  # since the name ends in .py
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module  # where dataclasses look up their module
    found.loader.exec_module(module)
    try:
        return attrgetter(name)(module)
    except AttributeError:
        raise no_function(str(file), name, module) from None


def from_package(where: str, name: str) -> Any:
    """The attribute of a module, installed or in the current directory."""
    make_importable(Path.cwd())
    try:
        return pkgutil.resolve_name(f"{where}:{name}")
    except ModuleNotFoundError as error:
        if not f"{where}.".startswith(f"{error.name}."):
            raise  # an import inside of the module fails
        raise InputError(
            f"there is no module {where!r}, installed or in {Path.cwd()}: "
            f"install it, go to its folder, or give path/to/file.py:function"
        ) from None
    except AttributeError:
        if where not in sys.modules:
            raise  # by the module itself
        raise no_function(where, name, sys.modules[where]) from None


def make_importable(folder: Path) -> None:
    """Puts a folder first on Python's path, for good: a network may import modules when it runs."""
    path = str(folder.resolve())
    if path not in sys.path:
        sys.path.insert(0, path)


def no_function(where: str, name: str, module: ModuleType) -> InputError:
    """The error for an unknown attribute, with the most similar function of the module."""
    own = {key: value for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    names = [key for key, value in own.items() if isfunction(value) or isclass(value)]
    if not names:
        return InputError(f"{where} has no {name!r} and defines no other function: {CONTRACT}")
    return unknown(f"function in {where}:", name, names, listed=False)
