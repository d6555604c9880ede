"""Files of weights -> networks: read without running code, loaded only if every name and shape fits."""

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

HOLDERS = ("state_dict", "model_state_dict", "model")  # keys of the weights in checkpoints of training scripts
PARALLEL = "module."  # prefix of every name in weights of DataParallel
MEAN, STD, NETWORK = "0.mean", "0.std", "1"  # normalization and network in networks of the catalog
NAMED = 3  # names in a message; further names are counted
LETTERS = 200  # of a foreign error message
SAME = "give the weights that were saved from this network"
SAFE = 'if you trust it, save it with torch.save(model.state_dict(), "weights.pt") or as .safetensors'


def load_weights(model: nn.Module, file: Path, normalized: bool, misfit: str) -> int:
    """Loads a file of weights into a network of the catalog, and returns the number of classes of the weights.

    For another number of classes, the last layer of the network stays. Weights without normalization are loaded
    behind that of the network; `normalized` says that the network has a normalization other than the identity.
    """
    tensors = read_weights(file)
    unwrap(tensors, model)
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise InputError(f"{file} holds a {type(value).__name__} as {name!r}, not a tensor: {SAFE}")
    if normalized and MEAN in tensors and STD in tensors:
        check_identity(file, tensors[MEAN], tensors[STD])
        tensors.update({name: model.state_dict()[name] for name in (MEAN, STD)})
    target = model if MEAN in tensors else model.get_submodule(NETWORK)
    classes = keep_own_head(target, tensors)
    fit(target, tensors, misfit)
    return classes


def check_identity(file: Path, mean: Tensor, std: Tensor) -> None:
    """Refuses weights with a normalization for a network with another normalization."""
    if (mean != 0).any() or (std != 1).any():
        raise InputError(
            f"normalize = True, but the weights of {file} were trained behind a normalization, which comes with them: "
            "leave --normalize out"
        )


def keep_own_head(target: nn.Module, tensors: dict[str, Any]) -> int:
    """Replaces the last layer in weights for another number of classes, and returns this number."""
    head = [name for name, layer in target.named_modules() if isinstance(layer, nn.Linear)][-1]
    names = (f"{head}.weight", f"{head}.bias")
    own = {name: target.state_dict()[name] for name in names}
    if not tensors.keys() >= own.keys():
        return 0  # refused by `fit`
    weight, bias = (tensors[name] for name in names)
    classes = len(bias) if bias.dim() == 1 else 0
    if weight.shape == (classes, own[names[0]].shape[1]) and classes != len(own[names[1]]):
        tensors.update(own)
    return classes


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
    """The content of a file of tensors; for damaged files, torch and safetensors raise almost any error."""
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        with warnings.catch_warnings(action="ignore"):  # about the error that follows
            return torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        asked = re.search(r"GLOBAL (\S+)", str(error))
        what = f"asks for {asked[1]}" if asked else "is no plain file of tensors"
        raise InputError(f"{file} {what}: refused, since reading it could run code; {SAFE}") from error
    except Exception as error:
        name = type(error).__name__
        raise InputError(f"{file} cannot be read ({name}: {one_line(error)}): damaged or no weights; {SAFE}") from error


def fit(model: nn.Module, tensors: dict[str, Any], misfit: str) -> None:
    """Loads weights if every name and shape fits."""
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
    """The names with other shapes in the network, with both shapes."""
    pairs = ((name, tensors.get(name), here) for name, here in model.state_dict().items())
    return [
        f"{name} ({'x'.join(map(str, there.shape))} there, {'x'.join(map(str, here.shape))} here)"
        for name, there, here in pairs
        if isinstance(there, Tensor) and there.shape != here.shape
    ]


def unwrap(tensors: dict[str, Any], model: nn.Module) -> None:
    """Removes the prefix of DataParallel from all names, unless the network has it too."""
    if all(name.startswith(PARALLEL) for name in tensors) and not holds_parallel(model):
        consume_prefix_in_state_dict_if_present(tensors, PARALLEL)


def holds_parallel(model: nn.Module) -> bool:
    """Whether the names of the network have the prefix of DataParallel."""
    return all(name.startswith(PARALLEL) for name in model.state_dict())


def listed(names: list[str]) -> str:
    """The first names, and the number of further names."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "none"


def one_line(error: BaseException) -> str:
    """The beginning of an error message, without line breaks."""
    return shorten(str(error), LETTERS, placeholder=" ...")
