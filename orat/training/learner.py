"""The training loop: one, for every method. All that changes in it is a Learner, and a checkpoint holds all of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import cos, pi
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from orat.attacks import PGD, Adversary, Sight, Threat
from orat.core.device import products
from orat.core.errors import TrainingError
from orat.core.types import Batch, Indices
from orat.data.loader import batch_of, divided, shuffled, steps_per_epoch
from orat.data.source import Dataset
from orat.methods.base import State
from orat.models.layers import Dropout, dropouts, seed_dropout
from orat.training.run import Run

DROP = 0.1  # what a milestone does to the learning rate
SCOUT_WARMUP = 0.5  # epochs in which the rate of scouts rises


class Learner:
    """Everything that a training changes: network, method's state, optimizer, randomness, and how far it is."""

    def __init__(self, run: Run, model: nn.Module, state: State) -> None:
        self.run, self.model, self.state = run, model, state
        self.seen_as = model  # the network as the method calls it; an engine may put a quicker form in its place
        self.sight: Sight | None = None  # and as the attack sees it
        device = next(model.parameters()).device
        learned = {"params": list(model.parameters()), "decays": True}
        self.optimizer = torch.optim.SGD(
            [learned, *state.param_groups(run.lr)],
            lr=run.lr,
            momentum=run.momentum,
            weight_decay=run.weight_decay,
            fused=device.type == "cuda",
        )
        if device.type == "cuda":  # rates where the kernels read them, so that a change needs no new record of a step
            for group in self.optimizer.param_groups:
                group["lr"] = torch.tensor(run.lr, device=device)
        self.rates: list[float] = []  # as they are set, one a group
        self.generator = torch.Generator(device).manual_seed(run.seed)
        seed_dropout(nn.ModuleList([model, state]), run.seed)
        self.pace = 1.0  # share of the radius that the attack of this step has
        self.epoch = 1 - state.ahead  # the epoch under way; from 1 on the network learns, and before that scouts do
        self.step = 0  # steps done in it
        self.loss_sum = torch.zeros((), device=device)

    @property
    def augment(self) -> str:
        """Random changes of images in the epoch under way: scouts see them moved, a little at least."""
        own = self.run.augment
        return own if self.epoch > 0 or "crop" in own else f"{own}-nudge"

    @property
    def batch_size(self) -> int:
        """The samples of a step in the epoch under way."""
        return self.run.batch_size if self.epoch > 0 else self.state.batch_size

    @property
    def attack(self) -> Adversary:
        """The training attack at the radius of this step."""
        run, size = self.run, self.run.attack_step_size * self.pace
        pgd = PGD(run.attack_steps, step_size=size, start=run.attack_start, mode=run.attack_mode)
        return Adversary(pgd, Threat(run.eps * self.pace, run.norm), self.seen_as, self.generator, self.sight)

    @property
    def dropouts(self) -> list[Dropout]:
        """Every dropout, which each count how often they were asked."""
        return dropouts(self.model) + dropouts(self.state)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed training needs to go on as if it had never stopped."""
        return {
            "model": self.model.state_dict(),
            "state": self.state.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "dropout": [module.asked for module in self.dropouts],
            "epoch": self.epoch,
            "step": self.step,
            "loss_sum": self.loss_sum,
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Takes everything back."""
        self.model.load_state_dict(saved["model"])
        self.state.load_state_dict(saved["state"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.rates = []
        self.generator.set_state(saved["generator"].cpu())
        for module, asked in zip(self.dropouts, saved["dropout"], strict=True):
            module.asked.copy_(asked)
        self.epoch, self.step = saved["epoch"], saved["step"]
        self.loss_sum = saved["loss_sum"].to(self.loss_sum.device)


class Engine(Protocol):
    """How a step is executed."""

    name: str
    attack_type: torch.dtype  # that attacks compute in

    def step(self, index: Indices) -> None:
        """Trains on these samples and adds their share of the epoch's mean loss to the learner's sum."""

    def searcher(self, size: int) -> nn.Module | None:
        """The network as it is now in a quicker form to search for attacks with, in batches of this size, if any."""


def train_epoch(learner: Learner, data: Dataset, engine: Engine | None = None) -> Iterator[int]:
    """The rest of the epoch under way, a step at a time; what is yielded is the number of steps done."""
    run = learner.run
    engine = engine or Plain(learner, data)
    steps = steps_per_epoch(len(data), learner.batch_size)
    learner.model.train()
    order = shuffled(len(data), run.seed, learner.epoch).to(data.labels.device)
    set_pace(learner, learner.epoch - 1 + learner.step / steps)
    for index in divided(order, learner.batch_size)[learner.step :]:
        set_pace(learner, learner.epoch - 1 + (learner.step + 1) / steps)
        with arithmetic(run.precision):
            engine.step(index)
        learner.step += 1
        yield learner.step


class Plain:
    """Every operation as Python comes to it."""

    name = "plain"
    attack_type = torch.float32

    def __init__(self, learner: Learner, data: Dataset) -> None:
        self.learner, self.data = learner, data

    def step(self, index: Indices) -> None:
        """One step on these samples."""
        learner = self.learner
        batch = batch_of(self.data, index, learner.augment, learner.generator)
        learner.loss_sum += train_step(learner, batch) * (len(index) / len(self.data))

    def searcher(self, size: int) -> nn.Module | None:
        """There is none: attacks are on the network itself."""
        return None


@contextmanager
def arithmetic(precision: str) -> Iterator[None]:
    """Products of float32 on a GPU as this precision has them, by the quickest convolutions for sizes that repeat."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = True
    try:
        with products(exact=precision == "float32"):
            yield
    finally:
        cudnn.benchmark = before


def train_step(learner: Learner, batch: Batch) -> Tensor:
    """One batch: the method's loss, its gradient, one step of the optimizer."""
    loss = learner.run.method.loss(learner.seen_as, batch, learner.attack, learner.state, learner.epoch)
    learner.optimizer.zero_grad()
    loss.backward()
    learner.optimizer.step()
    return loss.detach()


def end_epoch(learner: Learner) -> dict[str, Any]:
    """Closes the epoch and returns its line of the history."""
    loss = learner.loss_sum.item()
    record: dict[str, Any] = {"epoch": learner.epoch, "lr": learner.rates[0 if learner.epoch > 0 else 1], "loss": loss}
    check_finite(learner, loss)
    record["state"] = learner.state.end_epoch()
    learner.epoch, learner.step = learner.epoch + 1, 0
    learner.loss_sum.zero_()
    if learner.epoch == 1:  # the network begins: with the randomness that it would have had without scouts
        learner.generator.manual_seed(learner.run.seed)
    return record


def set_pace(learner: Learner, progress: float) -> None:
    """Rates and radius after `progress` epochs: linear warm-ups, and a tenth of the rate from each milestone on."""
    run = learner.run
    factor = warm(progress, run.warmup) * DROP ** sum(learner.epoch >= milestone for milestone in run.milestones)
    set_rates(learner, [rate_of(group, run.lr, factor, progress) for group in learner.optimizer.param_groups])
    learner.pace = warm(progress, run.attack_warmup) if learner.epoch > 0 else 1.0


def rate_of(group: dict[str, Any], lr: float, factor: float, progress: float) -> float:
    """The rate of a group of parameters: the run's, with or without its drops, or half a cosine before its start."""
    if "begins" not in group:
        return lr * (factor if group["decays"] else 1.0)
    done = progress - group["begins"]
    fallen = (1 + cos(pi * min(1.0, done / -group["begins"]))) / 2
    return float(group["peak"] * warm(done, SCOUT_WARMUP) * fallen)


def set_rates(learner: Learner, rates: list[float]) -> None:
    """Gives each group of parameters its rate, where the optimizer reads it."""
    if rates == learner.rates:
        return
    learner.rates = rates
    for group, rate in zip(learner.optimizer.param_groups, rates, strict=True):
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def warm(progress: float, epochs: float) -> float:
    """The share of the full value after `progress` epochs of a linear rise that takes `epochs`."""
    return min(1.0, max(0.0, progress) / epochs) if epochs else 1.0


def check_finite(learner: Learner, loss: float) -> None:
    """Stops a training whose loss is no number any more."""
    if loss - loss != 0:  # NaN and infinity
        raise TrainingError(
            f"the loss became {loss} in epoch {learner.epoch}: lower --lr (now {learner.run.lr:g}) "
            f"or lengthen --warmup (now {learner.run.warmup:g} epochs), and start in a new folder"
        )
