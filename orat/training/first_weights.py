"""Initial weights from a finished run or from a file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from orat.core.errors import InputError
from orat.models.weights import SAFE, fit, read_weights, unwrap
from orat.training.load import finished_run
from orat.training.run import Run

MEAN, STD = "0.mean", "0.std"  # the normalization's names in our networks: it comes first, then the network
NETWORK = "1"


def load_first(model: nn.Module, run: Run, path: str) -> dict[str, Any]:
    """Loads initial weights into the new network of a run, and returns their origin for result.json.

    The last layer of the new network stays where the weights are for another number of classes.
    """
    file = weights_file(Path(path))
    tensors = read_weights(file)
    unwrap(tensors, model)
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise InputError(f"{file} holds a {type(value).__name__} as {name!r}, not a tensor: {SAFE}")
    if run.normalize and MEAN in tensors and STD in tensors:
        check_identity(file, tensors[MEAN], tensors[STD])
        tensors.update({name: model.state_dict()[name] for name in (MEAN, STD)})
    target = model if MEAN in tensors else model.get_submodule(NETWORK)
    classes = keep_own_head(target, tensors)
    fit(target, tensors, f"{file} does not fit {run.model} on this data")
    return {"path": path, "sha256": short_hash(file), "classes": classes}


def weights_file(path: Path) -> Path:
    """The file itself, or that of the last epoch of a finished run."""
    if not path.exists():
        raise InputError(f"there is no {path} to start from: give a finished run's folder or a file of weights")
    if path.is_file():
        return path
    finished_run(path)
    return path / "model.safetensors"


def check_identity(file: Path, mean: Tensor, std: Tensor) -> None:
    """Refuses weights that were trained behind a normalization, where the new run has one of its own."""
    if (mean != 0).any() or (std != 1).any():
        raise InputError(
            f"normalize = True, but the weights of {file} were trained behind a normalization, which comes with them: "
            "leave --normalize out"
        )


def keep_own_head(target: nn.Module, tensors: dict[str, Any]) -> int:
    """Puts the network's own last layer among weights for another number of classes, and returns that number."""
    head = [name for name, layer in target.named_modules() if isinstance(layer, nn.Linear)][-1]
    names = (f"{head}.weight", f"{head}.bias")
    own = {name: target.state_dict()[name] for name in names}
    if not tensors.keys() >= own.keys():
        return 0  # which `fit` refuses
    weight, bias = (tensors[name] for name in names)
    classes = len(bias) if bias.dim() == 1 else 0
    if weight.shape == (classes, own[names[0]].shape[1]) and classes != len(own[names[1]]):
        tensors.update(own)
    return classes


def short_hash(file: Path) -> str:
    """The first 16 digits of what sha256sum says."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]


def origin_words(origin: dict[str, Any], classes: int) -> str:
    """Where the first weights come from, and whether the last layer does too."""
    there = origin["classes"]
    fresh = "" if there == classes else f"; the last layer ({there} classes there, {classes} here) starts afresh"
    return f"starts from {origin['path']} (sha256 {origin['sha256']}){fresh}"
