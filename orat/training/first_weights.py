"""Initial weights from a finished run or from a file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from torch import nn

from orat.core.errors import InputError
from orat.core.registry import in_words
from orat.models.catalog import is_own
from orat.models.weights import load_weights
from orat.training.load import finished_run
from orat.training.run import Run


def load_first(model: nn.Module, run: Run, path: str, classes: int) -> dict[str, Any]:
    """Loads initial weights into the new network of a run, and returns their origin for result.json.

    The last layer of the new network stays where the weights are for another number of classes.
    """
    file = weights_file(Path(path))
    misfit = f"{file} does not fit {in_words(run.model)} on this data"
    there = load_weights(model, file, classes, run.normalize, is_own(run.model), misfit)
    return {"path": path, "sha256": short_hash(file), "classes": there}


def weights_file(path: Path) -> Path:
    """The file itself, or that of the last epoch of a finished run."""
    if not path.exists():
        raise InputError(f"there is no {path} to start from: give a finished run's folder or a file of weights")
    if path.is_file():
        return path
    finished_run(path)
    return path / "model.safetensors"


def short_hash(file: Path) -> str:
    """The first 16 digits of what sha256sum says."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]


def origin_words(origin: dict[str, Any], classes: int) -> str:
    """Where the first weights come from, and whether the last layer does too."""
    there = origin["classes"]
    fresh = "" if there == classes else f"; the last layer ({there} classes there, {classes} here) starts afresh"
    return f"starts from {origin['path']} (sha256 {origin['sha256']}){fresh}"
