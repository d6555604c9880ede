"""Finished run folder -> network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from orat.core.device import choose_device
from orat.core.errors import InputError, unknown
from orat.core.registry import IN_MEMORY, check_trust, in_words
from orat.models import catalog as models
from orat.models.weights import fit
from orat.training.run import Run, read_run
from orat.training.run_folder import RunFolder

WEIGHTS = {"last": "model", "chosen": "chosen"}  # which epoch's: the name of the file


def finished_run(folder: Path) -> Run:
    """The run of a folder; refuses an unfinished run."""
    run = read_run(folder)
    if RunFolder(folder).result() is None:
        raise InputError(f"{folder} is not finished: there is no result.json in it; give its train command again")
    return run


def load_model(
    folder: str | Path, which: str = "last", device: str = "cpu", model: Any = None, trust: bool = False
) -> nn.Module:
    """The trained network of a run, [0, 1] in, logits out: of the last epoch, or of the one chosen on validation.

    `model` is the network of a run with a network in memory, and is filled in place; it may also be a function or a
    name. `trust` permits the function that the record of the run names.
    """
    if which not in WEIGHTS:
        raise unknown("weights", which, WEIGHTS)
    path = Path(folder)
    run = read_run(path)
    tensors = RunFolder(path).load_tensors(WEIGHTS[which])
    config = json.loads((path / "config.json").read_text())
    found = build_again(path, run, config, model, trust)
    fit(found, tensors, f"the weights of {path} do not fit {in_words(run.model if model is None else model)}")
    place = choose_device(device)
    if place.type == "cuda" and config["shape"][0] == 1:  # a fifth faster there than channels last, which a CPU prefers
        found = found.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return found.to(place).eval()


def build_again(path: Path, run: Run, config: dict[str, Any], model: Any, trust: bool) -> nn.Module:
    """The network of a run without its weights."""
    if model is None:
        check_trust(run.model, "model", trust, "call")
        if run.model.startswith(IN_MEMORY):
            raise InputError(
                f"{path} was trained with a network {run.model}: hand it in as load_model({str(path)!r}, model=net)"
            )
    shape, of_features = tuple(config["shape"]), isinstance(config["inputs"], list)
    normalizes = run.normalize or of_features
    plain = ([0.0] * shape[0], [1.0] * shape[0]) if normalizes else (None, None)  # in place of the saved numbers
    return models.build(run.model if model is None else model, shape, len(config["classes"]), run.seed, *plain)
