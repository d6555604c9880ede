"""Run -> what a training starts from: its data, relabeled and split, and its network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.domain import UNIT
from orat.core.errors import InputError
from orat.core.registry import in_words
from orat.data import catalog as data
from orat.data.label_files import LEFT_OUT, from_file
from orat.data.loader import as_input, steps_per_epoch
from orat.data.repeats import in_memory, warning
from orat.data.source import Dataset, Splits, relabel
from orat.methods.base import Setting, State
from orat.models import catalog as models
from orat.models.adapted import Say
from orat.models.catalog import is_own
from orat.models.layers import Normalize
from orat.noise.inject import inject
from orat.training.defaults import LARGEST, Facts
from orat.training.probe import check_network
from orat.training.run import Run


def with_noise(dataset: Dataset, kind: str, rate: float, seed: int) -> Dataset:
    """The data set with noisy labels; the labels before the noise become the true labels."""
    inputs = standardized(dataset) if kind == "instance" else None
    labels = inject(kind, dataset.labels.cpu(), dataset.classes, rate, seed, inputs)
    # Labels of a data set without noise may be wrong, so they do not become the true labels.
    return dataset if kind == "none" else relabel(dataset, labels)


def standardized(dataset: Dataset) -> Tensor:
    """The samples as a network takes them; features without their means and units, whatever those are."""
    x = as_input(dataset.images.cpu())
    return x if dataset.domain == UNIT else Normalize(*channel_statistics(dataset))(x)


@dataclass(frozen=True, eq=False)
class Parts:
    """What a run trains on, chooses its epoch by, and is tested on."""

    train: Dataset
    validation: Dataset | None
    test: Dataset | None
    ids: Tensor  # positions of the samples of `train` in the training set as read
    total: int  # samples of the training set as read, without those left out
    left_out: dict[str, Any] | None = None  # the file of labels that leaves samples out, and how many


def read(run: Run, data_dir: Path | None, largest: int | None = None) -> Splits:
    """The data of a run, with its settings of reading; images without a given size have at most `largest` pixels."""
    names = ("image_size", "class_depth", "target", "bounds", "frozen")
    settings = {name: getattr(run, name) for name in names if getattr(run, name) != getattr(Run, name)}
    return data.load(run.data, data_dir, **settings, largest=largest)


def read_data(run: Run, data_dir: Path | None, device: torch.device) -> tuple[Run, Splits]:
    """The data of a run as read, and the run with a value for every field that waited for the data."""
    splits = read(run, data_dir, LARGEST["cpu" if device.type == "cpu" else "cuda"])
    train = splits.train
    if len(train.classes) < 2:
        raise InputError(f"{in_words(run.data)} has one class, {train.classes[0]!r}: give two or more")
    if splits.image_size is not None:
        run = replace(run, image_size=splits.image_size)
    run = run.fitted(facts_of(train, device))
    if run.augment != "none" and len(train.shape) != 3:
        raise InputError(f"augment = {run.augment!r} is for images: leave it out for samples of shape {train.shape}")
    return run, splits


def facts_of(train: Dataset, device: torch.device) -> Facts:
    """What the defaults of a run depend on, of a training set as read."""
    return Facts(len(train), train.shape, len(train.classes), device.type)


def prepare(run: Run, data_dir: Path | None = None, splits: Splits | None = None) -> Parts:
    """The data of a complete run: read unless given, relabeled, and split by the run's seed."""
    splits = read(run, data_dir) if splits is None else splits
    full, kept = labeled(run, splits.train)
    left_out: dict[str, Any] | None = None
    if len(full) < len(splits.train):
        left_out = {"run": run.labels, "cut": len(splits.train) - len(full), "of": len(splits.train)}
    order = torch.randperm(len(full), generator=torch.Generator().manual_seed(run.seed))
    held_out = 0 if splits.validation else round(run.validation * len(full))
    if held_out >= len(full):
        raise InputError(f"validation = {run.validation:g} holds out all of {len(full)} samples: give a smaller share")
    chosen = spared(order, full.labels, held_out)
    ids = order[~chosen].sort().values
    validation = full.take(order[chosen].sort().values) if chosen.any() else splits.validation
    return Parts(full.take(ids), validation, splits.test, kept[ids], len(full), left_out)


def spared(order: Tensor, labels: Tensor, held_out: int) -> Tensor:
    """The mask of the first samples in an order, as many as held out; the last sample of a class stays for training."""
    left, chosen = labels.bincount().tolist(), torch.zeros(len(order), dtype=torch.bool)
    for place, label in enumerate(labels[order].tolist()):
        if not held_out:
            break
        if left[label] > 1:
            chosen[place] = True
            left[label] -= 1
            held_out -= 1
    return chosen


def labeled(run: Run, train: Dataset) -> tuple[Dataset, Tensor]:
    """A training set as read with the run's labels, and where the samples lie in it that its label file keeps."""
    train, kept = by_label_file(run, train)
    return with_noise(train, run.noise, run.noise_rate, run.noise_seed), kept


def by_label_file(run: Run, train: Dataset) -> tuple[Dataset, Tensor]:
    """A training set with the labels of the run's label file, without added noise, and the places of its samples."""
    if run.labels is None:
        return train, torch.arange(len(train))
    labels = from_file(run.labels, len(train), train.classes, train.paths)
    kept = (labels != LEFT_OUT).nonzero().flatten()
    known, train = train.take(kept).truth, relabel(train.take(kept), labels[kept])
    return train if data.is_published(run.data) else replace(train, truth=known), kept


def notes_of(run: Run, splits: Splits) -> list[str]:
    """How the data were read, and a line if images of files stand under two labels or in two parts without noise."""
    if splits.train.paths is None or not isinstance(run.data, str):
        return [*splits.notes]
    found = in_memory(replace(splits, train=by_label_file(run, splits.train)[0]))
    return [*splits.notes, *warning(run.data, found, run.class_depth)]


def setting_of(run: Run, parts: Parts, predictions: Tensor | None = None) -> Setting:
    """What the run's method may know before the first step."""
    train, steps = parts.train, steps_per_epoch(len(parts.train), run.batch_size)
    attack = run.attack_steps, run.attack_start
    labels = train.labels if predictions is None else train.labels.to(predictions.device)
    counts = len(train), parts.total, len(train.classes), steps, run.epochs
    return Setting(*counts, run.milestones, *attack, labels, predictions)


def state_of(run: Run, parts: Parts, predictions: Tensor | None = None) -> State:
    """The state of the run's method at the beginning."""
    state = run.method.start(setting_of(run, parts, predictions))
    if not isinstance(state, State):
        raise InputError(f"start of {run.method_name} gives {type(state).__name__}: return an orat.State")
    return state


def build_model(run: Run, train: Dataset, say: Say = lambda line: None) -> nn.Module:
    """The run's network with its first weights; features are always normalized.

    A user's network is tried on the data, and `say` takes notes.
    """
    mean, std = channel_statistics(train) if run.normalize or train.domain != UNIT else (None, None)
    model = models.build(run.model, train.shape, len(train.classes), run.seed, mean, std, say)
    if is_own(run.model):
        check_network(model, train)
    return model


def channel_statistics(train: Dataset) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, of values in [0, 1], or of each feature in its own unit."""
    values = train.images.double().movedim(1, 0).flatten(1) / (255 if train.images.dtype == torch.uint8 else 1)
    if train.domain != UNIT:
        constant = values.amin(1) == values.amax(1)
        return values.mean(1).tolist(), values.std(1).masked_fill(constant, 1).tolist()
    return values.mean(1).tolist(), values.std(1).clamp(min=1e-3).tolist()
