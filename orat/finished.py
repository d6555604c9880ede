"""Finished run folder -> network, data, accuracy."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from orat import models
from orat.attacks import suite
from orat.attacks.suite import PAPER
from orat.errors import InputError, unknown
from orat.evaluation import evaluate
from orat.prepare import choose_device, prepare
from orat.progress import SILENT, Display
from orat.run import read_run
from orat.run_folder import RunFolder

WEIGHTS = {"last": "model", "chosen": "chosen"}  # which epoch's: the name of the file


def load_model(folder: str | Path, which: str = "last", device: str = "cpu") -> nn.Module:
    """The trained network of a run, [0, 1] in, logits out: of the last epoch, or of the one chosen on validation."""
    if which not in WEIGHTS:
        raise unknown("weights", which, WEIGHTS)
    path = Path(folder)
    run = read_run(path)
    tensors = RunFolder(path).load_tensors(WEIGHTS[which])
    config = json.loads((path / "config.json").read_text())
    model = models.build(config["model"], tuple(config["shape"]), len(config["classes"]), run.seed)
    model.load_state_dict(tensors)
    return model.to(choose_device(device)).eval()


def evaluate_run(
    folder: str | Path,
    attacks: Sequence[str] = PAPER,
    eps: float | None = None,
    examples: int | None = None,
    which: str = "last",
    data_dir: str | Path | None = None,
    device: str = "auto",
    display: Display = SILENT,
) -> dict[str, Any]:
    """Accuracy of a finished run on the first test images, with the radius, the norm and their number beside it."""
    run = read_run(Path(folder))
    eps = run.eps if eps is None else eps
    chosen = suite(eps, run.norm, attacks)
    model = load_model(folder, which, device)
    test = prepare(run, None if data_dir is None else Path(data_dir)).test
    if test is None:
        raise InputError(f"the data set {run.data} has no test part: add a folder test/ beside train/")
    if examples is not None:
        if examples < 1:
            raise InputError(f"examples = {examples}: give 1 or more")
        test = test.take(torch.arange(min(examples, len(test))))
    accuracy = evaluate(model, test, chosen, run.seed, display)
    return {"accuracy": accuracy, "eps": eps, "norm": run.norm, "examples": len(test), "warnings": []}
