"""Run -> what a training starts from: its data, relabeled and split, its network and its device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.errors import InputError, unknown
from orat.data import catalog as data
from orat.data.label_files import LEFT_OUT, from_file
from orat.data.loader import steps_per_epoch
from orat.data.source import Dataset, relabel
from orat.methods import Scouts, Setting
from orat.models import catalog as models
from orat.models.catalog import CONVOLUTIONAL
from orat.models.operations import forward_operations
from orat.noise.inject import (
    NOISES,
    check_rate,
)
from orat.noise.truth import found_removed
from orat.training.filtering import filter_of
from orat.training.run import Run


def with_noise(dataset: Dataset, kind: str, rate: float, seed: int) -> Dataset:
    """The data set with noisy labels, which remembers the true ones."""
    if kind not in NOISES:
        raise unknown("noise", kind, NOISES)
    check_rate(rate)
    if kind == "none" and rate > 0:
        raise InputError(f"noise 'none' with rate {rate}: give rate 0, or a kind of noise")
    if kind == "none":
        # Nobody vouches for the labels here, so they do not become the truth.
        return dataset
    return relabel(dataset, NOISES[kind](dataset, rate, seed))


QUICK = "quick_cnn"  # a network for scouts
ATTACKED, LEARNED = 2, 3  # times the arithmetic of an answer: of the gradient to an image, and to the weights too
ANOTHER = 1_000_003  # added to the seed for each other network


@dataclass(frozen=True, eq=False)
class Parts:
    """What a run trains on, chooses its epoch by, and is tested on."""

    train: Dataset
    validation: Dataset | None
    test: Dataset | None
    index: Tensor  # where the samples of `train` lie in the training set as it was read
    total: int  # samples in the training set as it was read, less those left out
    left_out: dict[str, Any] | None = None  # by which run or file of labels, how many, and how rightly


def prepare(run: Run, data_dir: Path | None = None, device: str = "cpu") -> Parts:
    """The data of a run: read, relabeled, without the outliers of another run, and split by the run's seed."""
    source = filter_of(run)
    splits = data.load(run.data, data_dir, run.image_size)
    full, kept = labeled(run, splits.train)
    left_out: dict[str, Any] | None = None
    if len(full) < len(splits.train):
        left_out = {"run": run.labels, "cut": len(splits.train) - len(full), "of": len(splits.train)}
    if source is not None:
        if left_out is not None:
            raise InputError(f"{run.labels} leaves samples out, as without_outliers_of does: give one of them")
        cut = source.outliers(full, device)
        kept = (~cut).nonzero().flatten()
        left_out = {"run": run.without_outliers_of, **found_removed(cut, full.wrong)}
        full = full.take(kept)
    order = torch.randperm(len(full), generator=torch.Generator().manual_seed(run.seed))
    held_out = round(run.validation * len(full))
    if held_out >= len(full):
        raise InputError(f"validation = {run.validation:g} holds out all of {len(full)} samples: give a smaller share")
    index = order[held_out:].sort().values
    validation = full.take(order[:held_out].sort().values) if held_out else None
    return Parts(full.take(index), validation, splits.test, kept[index], len(full), left_out)


def labeled(run: Run, train: Dataset) -> tuple[Dataset, Tensor]:
    """A training set as read with the run's labels, and where the samples lie in it that its label file keeps."""
    kept = torch.arange(len(train))
    if run.labels is not None:
        labels = from_file(Path(run.labels), len(train), train.classes)
        kept = (labels != LEFT_OUT).nonzero().flatten()
        train = relabel(train.take(kept), labels[kept])
    return with_noise(train, run.noise, run.noise_rate, run.noise_seed), kept


def setting_of(run: Run, parts: Parts) -> Setting:
    """What the run's method may want to know before it starts."""
    n = len(parts.train)
    steps = steps_per_epoch(n, run.batch_size)
    classes = len(parts.train.classes)
    attack = run.attack_steps, run.attack_start
    batch_size, making = run.batch_size, partial(scouts, run, parts)
    return Setting(n, parts.total, classes, steps, run.epochs, run.milestones, *attack, batch_size, making)


def another(run: Run, parts: Parts, number: int) -> nn.Module:
    """A network like the run's with first weights of its own."""
    return build_model(replace(run, seed=run.seed + (number + 1) * ANOTHER), parts.train)


def scouts(run: Run, parts: Parts, name: str | None = None) -> Scouts:
    """Networks of this name to learn before the run's; if none is said, a quick one, or its own if cheaper."""
    name = name or cheaper(run, parts.train)
    theirs, own = operations(run, parts.train, name), operations(run, parts.train, run.model)
    cost = theirs * (LEARNED + 1) / (own * (ATTACKED * run.attack_steps + LEARNED))  # an answer goes forth only
    return Scouts(partial(another, replace(run, model=name), parts), cost, name == QUICK)


def cheaper(run: Run, train: Dataset) -> str:
    """The network that takes less arithmetic: one that learns images quickly, or the run's own."""
    if len(train.shape) != 3 or min(train.shape[1:]) < CONVOLUTIONAL[QUICK][1]:
        return run.model
    return min((run.model, QUICK), key=partial(operations, run, train))


def operations(run: Run, train: Dataset, name: str) -> int:
    """How much arithmetic a network of this name takes to say something of one sample."""
    return forward_operations(build_model(replace(run, model=name), train), train.shape)


def build_model(run: Run, train: Dataset) -> nn.Module:
    """The run's network with its first weights."""
    mean, std = channel_statistics(train) if run.normalize else (None, None)
    return models.build(run.model, train.shape, len(train.classes), run.seed, mean, std)


def channel_statistics(train: Dataset) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, of values in [0, 1]."""
    values = train.images.double().movedim(1, 0).flatten(1) / (255 if train.images.dtype == torch.uint8 else 1)
    return values.mean(1).tolist(), values.std(1).clamp(min=1e-3).tolist()
