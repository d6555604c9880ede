"""Files of weights -> networks: read without running code, loaded only where every name and shape fits."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from pickle import UnpicklingError
from textwrap import shorten
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from orat.core.errors import InputError

HOLDERS = ("state_dict", "model_state_dict", "model")  # where training scripts put the weights in a checkpoint
PARALLEL = "module."  # which DataParallel puts before every name
NAMED = 3  # names in a message; the rest is counted
LETTERS = 200  # of another's message
SAME = "give the weights that were saved from this network"
SAFE = 'save it with torch.save(model.state_dict(), "weights.pt") where you trust it, or as .safetensors'


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
    unwrap(tensors, model)
    try:
        missing, unexpected = model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:
        other = of_other_size(model, tensors)
        reason = f"size mismatch for {listed(other)}" if other else one_line(error)
        raise InputError(f"{misfit}: {reason}; {SAME}") from error
    if missing or unexpected:
        raise InputError(f"{misfit}: missing {listed(missing)}; unexpected {listed(unexpected)}; {SAME}")


def of_other_size(model: nn.Module, tensors: dict[str, Any]) -> list[str]:
    """The names whose tensors have another shape in the network, with both."""
    pairs = ((name, tensors.get(name), here) for name, here in model.state_dict().items())
    return [
        f"{name} ({'x'.join(map(str, there.shape))} there, {'x'.join(map(str, here.shape))} here)"
        for name, there, here in pairs
        if isinstance(there, Tensor) and there.shape != here.shape
    ]


def unwrap(tensors: dict[str, Any], model: nn.Module) -> None:
    """Takes off what DataParallel puts before every name, unless the network's own names start like that."""
    if all(name.startswith(PARALLEL) for name in tensors) and not holds_parallel(model):
        consume_prefix_in_state_dict_if_present(tensors, PARALLEL)


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
