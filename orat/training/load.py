"""Finished run folder -> network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from orat.core.device import choose_device
from orat.core.errors import InputError, unknown
from orat.core.registry import check_trust, names_code
from orat.models import catalog as models
from orat.models.external import build
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

    `model` names or is the network of a run with a network of its own. `trust` permits the code that the run names.
    """
    if which not in WEIGHTS:
        raise unknown("weights", which, WEIGHTS)
    path = Path(folder)
    run = read_run(path)
    tensors = RunFolder(path).load_tensors(WEIGHTS[which])
    config = json.loads((path / "config.json").read_text())
    check_trust(config["model"] if model is None else None, "model", trust)
    model = config["model"] if model is None else model
    if isinstance(model, str) and names_code(model):
        model = build(model)
    if isinstance(model, str):
        model = models.build(model, tuple(config["shape"]), len(config["classes"]), run.seed)
    model.load_state_dict(tensors)
    place = choose_device(device)
    if place.type == "cuda" and config["shape"][0] == 1:  # a fifth faster there than channels last, which a CPU prefers
        model = model.to(memory_format=torch.contiguous_format)
    found: nn.Module = model.to(place).eval()
    return found
