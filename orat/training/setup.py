"""Run -> what a training starts from: its data, relabeled and split, and its network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from orat.core.domain import UNIT
from orat.core.errors import InputError
from orat.data import catalog as data
from orat.data.label_files import LEFT_OUT, from_file
from orat.data.loader import as_input, steps_per_epoch
from orat.data.source import Dataset, Splits, relabel
from orat.methods.base import Scouts, Setting, State
from orat.models import catalog as models
from orat.models.adapted import Say
from orat.models.catalog import CONVOLUTIONAL, forward_operations
from orat.models.external import is_own
from orat.models.layers import Normalize
from orat.models.quick_cnn import QuickCNN
from orat.noise.inject import inject
from orat.training.defaults import LARGEST, Facts
from orat.training.probe import check_network
from orat.training.record import in_words
from orat.training.run import Run

QUICK, WITHOUT_PIXELS = "quick_cnn", "mlp-64"  # scout networks
ATTACKED, LEARNED = 2, 3  # arithmetic of a gradient to the input, and to the weights too, in forward passes
USUAL_STEPS = 10  # of an attack whose steps are unknown
ANOTHER = 1_000_003  # added to the seed for each scout network
FOLDS, MOST_FOLDS = 2, 20
EPOCHS, STEPS = 36, 3500  # of quick networks: enough of either
MOST_EPOCHS = 100  # of few samples, where cost does not count: more are no help
OTHERS = 0.4  # share of these epochs for other networks: LeNet judges MNIST as well after 14 epochs as after 20
SHARE = 0.07  # of the run's arithmetic at most, which on a GPU is twice the share of its time
FEWEST = 8  # epochs at least, if the run has as many
LARGEST_BATCH, FEWEST_STEPS = 512, 100  # samples that a GPU takes at once, and steps that an epoch should have
OWN_BATCH = 128  # the batch size for which the networks' own rates hold
RATE = 0.06  # of networks that are not quick


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
    settings = {name: getattr(run, name) for name in ("image_size", "class_depth", "target", "bounds", "frozen")}
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
    kept = torch.arange(len(train))
    if run.labels is not None:
        labels = from_file(run.labels, len(train), train.classes, train.paths)
        kept = (labels != LEFT_OUT).nonzero().flatten()
        known, train = train.take(kept).truth, relabel(train.take(kept), labels[kept])
        train = train if data.is_published(run.data) else replace(train, truth=known)
    return with_noise(train, run.noise, run.noise_rate, run.noise_seed), kept


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


@dataclass(frozen=True)
class Plan:
    """How scout networks are trained."""

    make: Callable[[int], nn.Module]  # the network of a fold
    cost: float  # of an epoch of two folds, in epochs of the run
    quick: bool  # whether the network learns at a high rate
    epochs: int
    batch_size: int
    scale: float  # the batch size as a multiple of the run's
    folds: int = FOLDS


def plan_for(run: Run, parts: Parts, scouts: Scouts, folds: int = FOLDS, network: nn.Module | None = None) -> Plan:
    """Scout networks with as many epochs as help, regardless of cost; `network` is the run's, if it is built."""
    train, n = parts.train, len(parts.train)
    model = scouts.model or cheaper(run, train)
    steps = USUAL_STEPS if run.attack is not None else run.attack_steps
    theirs = operations(run, train, model)
    own = operations(run, train, run.model) if network is None else forward_operations(network, train.shape)
    cost = theirs * (LEARNED + 1) / (max(own, 1) * (ATTACKED * steps + LEARNED))  # predicting is a forward pass
    batch_size = min(LARGEST_BATCH, max(run.batch_size, n // FEWEST_STEPS))
    epochs = max(EPOCHS, ceil(STEPS * batch_size / n))
    make = partial(another, replace(run, model=model), train)
    return Plan(make, cost, model == QUICK, epochs, batch_size, batch_size / run.batch_size, folds)


def another(run: Run, train: Dataset, number: int) -> nn.Module:
    """A network of the run with initial weights of its own."""
    return build_model(replace(run, seed=run.seed + (number + 1) * ANOTHER), train)


def cheaper(run: Run, train: Dataset) -> str:
    """The network with less arithmetic: the quick network for images, or the run's own; never a user's network.

    The weights of a user's network may have seen the labels.
    """
    if len(train.shape) != 3 or min(train.shape[1:]) < CONVOLUTIONAL[QUICK][1]:
        return WITHOUT_PIXELS if is_own(run.model) else run.model
    return QUICK if is_own(run.model) else min((run.model, QUICK), key=partial(operations, run, train))


def operations(run: Run, train: Dataset, model: str) -> int:
    """The arithmetic of a forward pass of one sample through a network."""
    return forward_operations(build_model(replace(run, model=model), train), train.shape)


def affordable(plan: Plan, run: Run, epochs: int | None) -> Plan:
    """The plan with the given number of epochs, or with as many as cost little beside the run."""
    enough = plan.epochs if plan.quick else int(OTHERS * plan.epochs)
    most = max(int(SHARE * run.epochs / plan.cost), min(FEWEST, run.epochs))
    return replace(plan, epochs=epochs or min(enough, most))


def check_folds(folds: int, epochs: int | None, n: int | None = None) -> None:
    """Refuses numbers of folds and epochs that give no predictions."""
    if not 2 <= folds <= MOST_FOLDS or (n is not None and folds > n):
        raise InputError(f"folds = {folds}: give 2 to {MOST_FOLDS}, and no more than there are samples")
    if epochs is not None and epochs < 1:
        raise InputError(f"epochs = {epochs}: give 1 or more")


def groups_of(networks: nn.ModuleList, plan: Plan, lr: float) -> list[dict[str, Any]]:
    """The networks' parameters with their peak rate: the network's own or the run's, the higher one.

    Their own rate comes with weight decay and Nesterov's momentum; quick networks always take their own.
    """
    of_run = lr * plan.scale
    own = (QuickCNN.rate if plan.quick else RATE) * plan.batch_size / OWN_BATCH
    group: dict[str, Any] = {"lr": lr, "peak": of_run}
    if plan.quick or own > of_run:
        group |= {"peak": own, "weight_decay": QuickCNN.decay, "nesterov": True}
    return [{"params": list(network.parameters()), **group} for network in networks]
