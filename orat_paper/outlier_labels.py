"""AT w/o outliers: a label file without the m largest natural losses of a finished AoRR run (paper, section 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.core.files import write_table
from orat.core.losses import cross_entropy
from orat.data.source import Dataset
from orat.evaluation.accuracy import logits_of
from orat.methods.ranked_range import Ranked, count
from orat.noise.truth import found_removed
from orat.training.load import finished_run, load_model
from orat.training.setup import labeled, read

FILE = "labels-without-outliers.csv"  # in the folder of the AoRR run


def labels_without_outliers(folder: Path, data_dir: Path | None = None, device: str = "auto") -> dict[str, Any]:
    """Writes the label file into the folder of a finished run; returns the counts of removed and wrong labels."""
    run = finished_run(folder)
    if not isinstance(run.method, Ranked) or run.method.m is None:
        raise InputError(f"{folder} is a run of {run.method_name} without m: give one of aorr or orat with m")
    train, _ = labeled(run, read(run, data_dir).train)
    removed = largest_losses(load_model(folder, device=device), train, count(run.method.m, len(train)))
    write_labels(folder / FILE, train, removed)
    return found_removed(removed, train.wrong)


def largest_losses(model: nn.Module, data: Dataset, m: int) -> Tensor:
    """The samples with the m largest natural losses, (n,) bool."""
    losses = cross_entropy(logits_of(model, data).cpu(), data.labels)
    hardest = losses.argsort(descending=True, stable=True)[:m]
    return torch.zeros(len(data), dtype=torch.bool).index_fill(0, hardest, True)


def write_labels(file: Path, data: Dataset, removed: Tensor) -> None:
    """Writes every label by index; the label of a removed sample is empty."""
    pairs = zip(data.labels.tolist(), removed.tolist(), strict=True)
    labels = [None if out else data.classes[label] for label, out in pairs]
    write_table(file, {"index": range(len(data)), "label": labels})
