"""The training loop: one for every method, and for the scout networks of cross-fitting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from orat.core.device import products, until_done
from orat.core.types import Scalar
from orat.data.loader import Loader
from orat.training.engine import Engine
from orat.training.learner import Learner


@dataclass(frozen=True)
class StepDone:
    """A training step is done."""

    epoch: int
    step: int  # from 1
    steps: int  # in the epoch


@dataclass(frozen=True)
class Waiting:
    """The device is still busy with the steps of the epoch; another run may use the time."""


@dataclass(frozen=True)
class EpochDone:
    """An epoch is done; observers add to its record."""

    epoch: int
    record: dict[str, Any]
    epochs: int = 0  # of the training, as far as it is known


Event: TypeAlias = StepDone | Waiting | EpochDone


def fit(learner: Learner, loader: Loader, engine: Engine) -> Iterator[Event]:
    """Trains from the learner's position to its last epoch, and yields after each step and each epoch."""

    def step(*ticket: Tensor) -> Scalar:
        batch = loader.batch(ticket, learner.generator)
        return learner.advance(batch, len(batch.y) / loader.samples)

    while learner.epoch <= learner.epochs:
        learner.modules.train()
        learner.pace(learner.epoch - 1 + learner.step / loader.steps)
        for ticket in loader.epoch(learner.order, skip=learner.step):
            learner.pace(learner.epoch - 1 + (learner.step + 1) / loader.steps)
            with arithmetic(learner.run.precision):
                engine(step, ticket, learner.key)
            learner.step += 1
            yield StepDone(learner.epoch, learner.step, loader.steps)
        for _ in until_done(learner.device):
            yield Waiting()
        record = learner.end_epoch()
        yield EpochDone(record["epoch"], record, learner.epochs)


@contextmanager
def arithmetic(precision: str) -> Iterator[None]:
    """Float32 products in a run's precision, and the quickest convolutions for repeated sizes."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = True
    try:
        with products(exact=precision == "float32"):
            yield
    finally:
        cudnn.benchmark = before
