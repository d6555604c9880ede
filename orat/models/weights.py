"""Files of weights -> networks: read without running code, loaded only if every name and shape fits."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from pickle import UnpicklingError
from textwrap import shorten
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from orat.core.errors import InputError
from orat.models.layers import Normalize

HOLDERS = ("state_dict", "model_state_dict", "model")  # keys of the weights in checkpoints of training scripts
PREFIXES = ("_orig_mod.", "module.")  # of every name in weights of torch.compile and of DataParallel
MEAN, STD = "0.mean", "0.std"  # of a network behind a normalization
NAMED = 3  # names in a message; further names are counted
LETTERS = 200  # of a foreign error message
SAME = "give the weights that were saved from this network"
SAFE = 'if you trust it, save it with torch.save(model.state_dict(), "weights.pt") or as .safetensors'


def load_weights(model: nn.Module, file: Path, classes: int, normalized: bool, own: bool, misfit: str) -> int:
    """Loads a file of weights into a new network, and returns the number of classes of the weights.

    For another number of classes, the last layer of the network stays. Weights without normalization are loaded
    behind that of the network; `normalized` says that the network has a normalization other than the identity. A
    user's network takes the normalization of the weights.
    """
    tensors = read_weights(file)
    unwrap(tensors, model)
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise InputError(f"{file} holds a {type(value).__name__} as {name!r}, not a tensor: {SAFE}")
    brought = {MEAN, STD} <= tensors.keys()
    if brought and own and MEAN not in model.state_dict():
        raise InputError(f"{misfit}: the weights lie behind a normalization: add --normalize, which then takes theirs")
    if brought and normalized and not own:
        check_identity(file, tensors[MEAN], tensors[STD])
        tensors.update({name: model.state_dict()[name] for name in (MEAN, STD)})
    behind = isinstance(model, nn.Sequential) and isinstance(next(iter(model), None), Normalize)
    target = model.get_submodule("1") if behind and MEAN not in tensors else model
    there = keep_own_head(target, tensors, classes)
    fit(target, tensors, misfit)
    return there


def check_identity(file: Path, mean: Tensor, std: Tensor) -> None:
    """Refuses weights with a normalization for a network with another normalization."""
    if (mean != 0).any() or (std != 1).any():
        raise InputError(
            f"normalize = True, but the weights of {file} were trained behind a normalization, which comes with them: "
            "leave --normalize out"
        )


def keep_own_head(target: nn.Module, tensors: dict[str, Any], classes: int) -> int:
    """Replaces the last layer in weights for another number of classes, and returns this number.

    The last layer is the one whose weights differ from those of the network, and in the number of outputs alone.
    """
    own = target.state_dict()
    other = {
        name: tensors[name] for name, value in own.items() if name in tensors and tensors[name].shape != value.shape
    }
    layers, rows = (
        {name.rpartition(".")[0] for name in other},
        {len(value) if value.dim() else 0 for value in other.values()},
    )
    wider = any(value.dim() > 1 for value in other.values())  # a layer's weights, not its bias alone
    fits = all(own[name].shape == (classes, *value.shape[1:]) for name, value in other.items())
    if len(layers) != 1 or len(rows) != 1 or not (wider and fits):
        return classes
    tensors.update({name: own[name] for name in other})
    return rows.pop()


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
    """Removes the prefixes of torch.compile and DataParallel from all names, unless the network has them too."""
    for prefix in PREFIXES:
        if all_start(tensors, prefix) and not all_start(model.state_dict(), prefix):
            consume_prefix_in_state_dict_if_present(tensors, prefix)


def all_start(names: Iterable[str], prefix: str) -> bool:
    """Whether all names have a prefix."""
    return all(name.startswith(prefix) for name in names)


def listed(names: list[str]) -> str:
    """The first names, and the number of further names."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more or "none"


def one_line(error: BaseException) -> str:
    """The beginning of an error message, without line breaks."""
    return shorten(str(error), LETTERS, placeholder=" ...")
