"""Scout networks: which network, in how many folds, for how many epochs, in which batches and at which rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import nn

from orat.core.errors import InputError
from orat.data.source import Dataset
from orat.methods.base import Scouts
from orat.models.catalog import CONVOLUTIONAL, QuickCNN, forward_operations, is_own
from orat.training.run import Run
from orat.training.setup import Parts, build_model

SETS = 2  # independent predictions of a sample
QUICK, WITHOUT_PIXELS = "quick_cnn", "mlp-64"  # scout networks
ATTACKED, LEARNED = 2, 3  # arithmetic of a gradient to the input, and to the weights too, in forward passes
USUAL_STEPS = 10  # of an attack whose steps are unknown
ANOTHER = 1_000_003  # added to the seed for each scout network
FOLDS, MOST_FOLDS = 4, 20
EPOCHS, STEPS = 36, 3500  # of quick networks: enough of either
MOST_EPOCHS = 100  # of few samples, where cost does not count: more are no help
OTHERS = 0.4  # share of these epochs for other networks: LeNet judges MNIST as well after 14 epochs as after 20
SHARE = 0.12  # of the run's arithmetic at most, which on a GPU is twice the share of its time
FEWEST = 8  # epochs at least, if the run has as many
LARGEST_BATCH, FEWEST_STEPS = 512, 100  # samples that a GPU takes at once, and steps that an epoch should have
MINUTES = {"cpu": 40e12}  # operations that two cores of a CPU do in a few minutes
OWN_BATCH = 128  # the batch size for which the networks' own rates hold
RATE = 0.06  # of networks that are not quick


@dataclass(frozen=True)
class Plan:
    """How scout networks are trained."""

    make: Callable[[int], nn.Module]  # the network of a fold
    cost: float  # of an epoch, in epochs of the run
    quick: bool  # whether the network learns at a high rate
    epochs: int
    batch_size: int
    scale: float  # the batch size as a multiple of the run's
    folds: int = FOLDS
    sets: int = SETS
    work: float = 0.0  # operations of an epoch, for each sample


def plan_for(run: Run, parts: Parts, scouts: Scouts, folds: int = FOLDS, network: nn.Module | None = None) -> Plan:
    """Scout networks with as many epochs as help, regardless of cost; `network` is the run's, if it is built."""
    train, n = parts.train, len(parts.train)
    model = scouts.model or cheaper(run, train)
    steps = USUAL_STEPS if run.attack is not None else run.attack_steps
    theirs = operations(run, train, model)
    own = operations(run, train, run.model) if network is None else forward_operations(network, train.shape)
    passes = LEARNED * (folds - SETS) + SETS  # of each sample
    cost = theirs * passes / (max(own, 1) * (ATTACKED * steps + LEARNED))
    batch_size = min(LARGEST_BATCH, max(run.batch_size, n // FEWEST_STEPS))
    epochs = max(EPOCHS, ceil(STEPS * batch_size / n))
    make = partial(another, replace(run, model=model), train)
    scale = batch_size / run.batch_size
    return Plan(make, cost, model == QUICK, epochs, batch_size, scale, folds, work=theirs * passes)


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


def plan_alone(run: Run, parts: Parts, folds: int, epochs: int | None = None, model: str | None = None) -> Plan:
    """Scout networks without a run beside them, never a user's network: for the given epochs, or as many as help."""
    name = model or cheaper(run, parts.train)
    plan = plan_for(replace(run, model=name), parts, Scouts(name), folds)
    return replace(plan, epochs=epochs or min(plan.epochs, MOST_EPOCHS))


def in_minutes(run: Run, parts: Parts, folds: int, device: torch.device) -> tuple[str, int]:
    """The scout network and its epochs that take minutes on a device: the quick network, or the cheaper one.

    0 epochs stand for a network that learns too little in this time.
    """
    shape, least = parts.train.shape, cheaper(run, parts.train)
    takes_quick = len(shape) == 3 and min(shape[1:]) >= CONVOLUTIONAL[QUICK][1]
    for name in dict.fromkeys((QUICK, least) if takes_quick else (least,)):
        plan = plan_alone(run, parts, folds, model=name)
        work = plan.work * len(parts.train)
        epochs = min(plan.epochs, int(MINUTES[device.type] / work) if device.type in MINUTES else plan.epochs)
        if epochs >= min(FEWEST, plan.epochs):
            return name, epochs
    return least, 0


def check_folds(folds: int, epochs: int | None, n: int | None = None) -> None:
    """Refuses numbers of folds and epochs that give no predictions."""
    if not SETS < folds <= MOST_FOLDS or (n is not None and folds > n):
        raise InputError(f"folds = {folds}: give {SETS + 1} to {MOST_FOLDS}, and no more than there are samples")
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
