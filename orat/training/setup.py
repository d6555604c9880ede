"""Run -> what a training starts from: its data, relabeled and split, and its network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.errors import InputError
from orat.data import catalog as data
from orat.data.label_files import LEFT_OUT, from_file
from orat.data.loader import as_input, steps_per_epoch
from orat.data.source import Dataset, relabel
from orat.methods.base import Setting
from orat.models import catalog as models
from orat.noise.inject import inject
from orat.training.run import Run


def with_noise(dataset: Dataset, kind: str, rate: float, seed: int) -> Dataset:
    """The data set with noisy labels; the labels before the noise become the true labels."""
    inputs = as_input(dataset.images.cpu()) if kind == "instance" else None
    labels = inject(kind, dataset.labels.cpu(), dataset.classes, rate, seed, inputs)
    # Labels of a data set without noise may be wrong, so they do not become the true labels.
    return dataset if kind == "none" else relabel(dataset, labels)


@dataclass(frozen=True, eq=False)
class Parts:
    """What a run trains on, chooses its epoch by, and is tested on."""

    train: Dataset
    validation: Dataset | None
    test: Dataset | None
    ids: Tensor  # positions of the samples of `train` in the training set as read
    total: int  # samples of the training set as read, without those left out
    left_out: dict[str, Any] | None = None  # the file of labels that leaves samples out, and how many


def prepare(run: Run, data_dir: Path | None = None) -> Parts:
    """The data of a run: read, relabeled, and split by the run's seed."""
    splits = data.load(run.data, data_dir, run.image_size)
    full, kept = labeled(run, splits.train)
    left_out: dict[str, Any] | None = None
    if len(full) < len(splits.train):
        left_out = {"run": run.labels, "cut": len(splits.train) - len(full), "of": len(splits.train)}
    order = torch.randperm(len(full), generator=torch.Generator().manual_seed(run.seed))
    held_out = round(run.validation * len(full))
    if held_out >= len(full):
        raise InputError(f"validation = {run.validation:g} holds out all of {len(full)} samples: give a smaller share")
    ids = order[held_out:].sort().values
    validation = full.take(order[:held_out].sort().values) if held_out else None
    return Parts(full.take(ids), validation, splits.test, kept[ids], len(full), left_out)


def labeled(run: Run, train: Dataset) -> tuple[Dataset, Tensor]:
    """A training set as read with the run's labels, and where the samples lie in it that its label file keeps."""
    kept = torch.arange(len(train))
    if run.labels is not None:
        labels = from_file(Path(run.labels), len(train), train.classes)
        kept = (labels != LEFT_OUT).nonzero().flatten()
        train = relabel(train.take(kept), labels[kept])
    return with_noise(train, run.noise, run.noise_rate, run.noise_seed), kept


def setting_of(run: Run, parts: Parts, predictions: Tensor | None = None) -> Setting:
    """What the run's method may know before the first step."""
    train, steps = parts.train, steps_per_epoch(len(parts.train), run.batch_size)
    attack = run.attack_steps, run.attack_start
    labels = train.labels if predictions is None else train.labels.to(predictions.device)
    counts = len(train), parts.total, len(train.classes), steps, run.epochs
    return Setting(*counts, run.milestones, *attack, labels, predictions)


def build_model(run: Run, train: Dataset) -> nn.Module:
    """The run's network with its first weights."""
    mean, std = channel_statistics(train) if run.normalize else (None, None)
    return models.build(run.model, train.shape, len(train.classes), run.seed, mean, std)


def channel_statistics(train: Dataset) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, of values in [0, 1]."""
    values = train.images.double().movedim(1, 0).flatten(1) / (255 if train.images.dtype == torch.uint8 else 1)
    return values.mean(1).tolist(), values.std(1).clamp(min=1e-3).tolist()
