"""Anybody's network, by RobustBench's contract: inputs in [0, 1], logits out, normalization inside."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isclass, isfunction
from pathlib import Path
from pickle import UnpicklingError
from textwrap import shorten
from types import ModuleType
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from orat.errors import InputError, unknown

HOLDERS = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights in a checkpoint
PARALLEL = "module."  # which DataParallel puts before every name
NAMED = 3  # names in a message; the rest is counted
CONTRACT = "give a function that is called without arguments and returns an nn.Module"
LETTERS = 200  # of another's message
SAME = "give the weights that were saved from this network"
SAFE = 'save it with torch.save(model.state_dict(), "weights.pt") where you trust it, or as .safetensors'


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


def read_weights(file: Path) -> dict[str, Any]:
    """The state dict in a file, read without running code."""
    if not file.is_file():
        raise InputError(f"there is no weights file {file}: give the path of a .safetensors or torch.save file")
    content = read_tensors(file)
    for holder in HOLDERS:
        if isinstance(content, dict) and isinstance(content.get(holder), dict):
            content = content[holder]
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise InputError(f"{file} holds a {type(content).__name__}, no tensors by name: {SAFE}")
    return content


def read_tensors(file: Path) -> Any:
    """What is in a file of tensors; torch and safetensors raise almost anything for one that is damaged."""
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        with warnings.catch_warnings(action="ignore"):  # they announce the error that follows
            return torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        asked = re.search(r"GLOBAL (\S+)", str(error))
        what = f"asks for {asked[1]}" if asked else "is no plain file of tensors"
        raise InputError(f"{file} {what}: refused, since reading it could run code; {SAFE}") from error
    except Exception as error:
        name = type(error).__name__
        raise InputError(f"{file} cannot be read ({name}: {one_line(error)}): damaged or no weights; {SAFE}") from error


def fit(model: nn.Module, tensors: dict[str, Any], misfit: str) -> None:
    """Loads the weights if every name and shape fits."""
    if all(name.startswith(PARALLEL) for name in tensors) and not holds_parallel(model):
        consume_prefix_in_state_dict_if_present(tensors, PARALLEL)
    try:
        missing, unexpected = model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:
        raise InputError(f"{misfit}: {one_line(error)}; {SAME}") from error
    if missing or unexpected:
        raise InputError(f"{misfit}: missing {listed(missing)}; unexpected {listed(unexpected)}; {SAME}")


def holds_parallel(model: nn.Module) -> bool:
    """Whether the network's own names start like those of DataParallel."""
    return all(name.startswith(PARALLEL) for name in model.state_dict())


def listed(names: list[str]) -> str:
    """The first few names, and how many more."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "none"


def one_line(error: BaseException) -> str:
    """The beginning of an error's message, without line breaks."""
    return shorten(str(error), LETTERS, placeholder=" ...")
