"""The time of a training step: the textbook's, ours, and the least time of its arithmetic on the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from textbook import Textbook, textbook_network
from timing import Machine, Step, Timing, in_turn
from torch import Tensor

from orat.core.console import Display
from orat.core.device import operations_of
from orat.core.errors import InputError
from orat.core.types import Indices, Scalar
from orat.data.loader import ResidentLoader, shuffled, steps_per_epoch
from orat.data.source import Dataset
from orat.methods import ORAT
from orat.methods.ranked_range import count
from orat.models.catalog import network
from orat.training.engine import Eager, Engine, execution
from orat.training.graph import Graph
from orat.training.learner import RunLearner
from orat.training.loop import arithmetic
from orat.training.run import Run
from orat.training.setup import Parts, build_model, setting_of

# Shape, classes and size of the data sets; random images take their place, and ranks are among this many samples.
SETS = {
    "mnist": ((1, 28, 28), 10, 60_000),
    "cifar10": ((3, 32, 32), 10, 50_000),
    "cifar100": ((3, 32, 32), 100, 50_000),
}
SET_OF = {"lenet": "mnist", "demo_cnn": "mnist", "resnet18": "cifar100"}  # cifar10 for other networks
CUT = 0.2  # share of the samples to remove
RATE = 0.01  # low learning rate: random labels are learned without an exploding loss

SIDE = {"cpu": 2048, "cuda": 8192}  # of the square matrices in the product that measures the device
WARM_UP = {"cpu": 1, "cuda": 5}  # steps: a GPU chooses and compiles kernels, and the step is recorded


@dataclass(frozen=True)
class Comparison:
    """The networks, the settings and the number of timings."""

    models: tuple[str, ...]
    device: torch.device
    engine: str = "auto"
    precision: str = "auto"
    batch_size: int = 128
    attack_steps: int = 10
    rounds: int = 5
    steps: int = 3

    def __post_init__(self) -> None:
        for name in ("batch_size", "attack_steps", "rounds", "steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)}: give 1 or more")
        for model in self.models:
            shape, classes, n = SETS[set_of(model)]
            if self.batch_size > n:
                raise InputError(
                    f"batch_size = {self.batch_size}: {set_of(model)} has {n} samples, give at most as many"
                )
            with torch.device("meta"):
                network(model, shape, classes)
            self.run(model)

    def run(self, model: str) -> Run:
        """The run for the timed steps."""
        data = set_of(model)
        method = ORAT(m=round(CUT * SETS[data][2]), burn_in=0, ramp=0)
        return Run(
            data=data, method=method, model=model, precision=self.precision, batch_size=self.batch_size,  # type: ignore[arg-type]
            attack_steps=self.attack_steps, lr=RATE, augment="none", validation=0.0,
        )  # fmt: skip


def set_of(model: str) -> str:
    """The data set with the size and shape for a network."""
    return SET_OF.get(model, "cifar10")


def random_data(name: str, device: torch.device) -> Dataset:
    """Random images and labels in place of a data set."""
    shape, classes, n = SETS[name]
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (n, *shape), generator=generator, dtype=torch.uint8)
    labels = torch.randint(classes, (n,), generator=generator)
    return Dataset(images.to(device), labels.to(device), tuple(map(str, range(classes))))


def report(textbook: Timing, ours: Timing, product: Timing, flops: int, side: int) -> dict[str, Any]:
    """The numbers of a row; the device's rate comes from the best round of matrix products."""
    rate = 2 * side**3 / min(product.rounds)  # operations a millisecond
    floor = flops / rate
    return {
        "textbook_ms": textbook.typical,
        "ours_ms": ours.typical,
        "ratio": textbook.typical / ours.typical,
        "floor_ms": floor,
        "share": floor / ours.typical,
        "memory_mib": ours.memory,
        "textbook_memory_mib": textbook.memory,
        "textbook_rounds_ms": textbook.rounds,
        "ours_rounds_ms": ours.rounds,
        "flops": flops,
        "rate": rate / 1e9,  # TFLOP/s
    }


def compare(
    plan: Comparison, display: Display, clock: Callable[[], float] = time.perf_counter
) -> Iterator[dict[str, Any]]:
    """One row a network, each as soon as measured."""
    for model in plan.models:
        yield compared(plan, model, Machine(plan.device, clock), display)


def compared(plan: Comparison, model: str, machine: Machine, display: Display) -> dict[str, Any]:
    """The row of one network."""
    run, data = plan.run(model), random_data(set_of(model), plan.device)
    order = shuffled(len(data), run.seed, 1).to(plan.device)
    batches = order[: len(order) // run.batch_size * run.batch_size].split(run.batch_size)
    ours, side = Ours(run, data, plan.engine, display), SIDE[machine.kind]
    makers: dict[str, Callable[[], Step]] = {
        "ours": lambda: ours.start(batches),
        "textbook": lambda: textbook_step(run, data, batches),
        "product": lambda: product_step(ours.attack_type, side, plan.device, run.precision),
    }
    rounds = display.track(range(plan.rounds), model, plan.rounds)
    times = in_turn(makers, rounds, plan.steps, WARM_UP[machine.kind], machine)
    return {
        "model": model, "device": plan.device.type, "engine": ours.execution.kind, "precision": run.precision,
        "attack_type": str(ours.attack_type).removeprefix("torch."), "batch_size": run.batch_size,
        "attack_steps": run.attack_steps, "samples": len(data), "rounds": plan.rounds, "steps": plan.steps,
        **report(**times, flops=step_flops(run, data, batches[0]), side=side),
    }  # fmt: skip


def learner_of(run: Run, data: Dataset, form: str = "plain") -> RunLearner:
    """The learner of a run on all of the data, on the device of the data."""
    device = data.labels.device
    setting = setting_of(run, Parts(data, None, None, torch.arange(len(data)), len(data)))
    learner = RunLearner(run, build_model(run, data).to(device), run.method.start(setting).to(device), form)
    learner.modules.train()
    return learner


def train_step(learner: RunLearner, data: Dataset, engine: Engine) -> Callable[[Indices], None]:
    """A training step as in `orat train`."""
    run = learner.run
    batches = ResidentLoader(data, run.batch_size, run.seed, data.labels.device, run.augment)

    def step(*ticket: Tensor) -> Scalar:
        batch = batches.batch(ticket, learner.generator)
        return learner.advance(batch, len(batch.y) / batches.samples)

    return lambda ids: engine(step, (ids,), learner.key)


class Ours:
    """Steps as in `orat train`."""

    learner: RunLearner

    def __init__(self, run: Run, data: Dataset, kind: str, display: Display) -> None:
        self.run, self.data, self.display = run, data, display
        steps = run.epochs * steps_per_epoch(len(data), run.batch_size)
        self.execution = execution(kind, data.labels.device, steps)

    @property
    def attack_type(self) -> torch.dtype:
        """The precision of the training attack."""
        return self.learner.form.attack_type

    def start(self, batches: Sequence[Indices]) -> Step:
        """Steps after the burn-in; the losses of a first step stand for the losses of all samples, so that ranks cut."""
        self.display.line(f"{self.run.model}: steps of the textbook and of engine {self.execution.kind} by turns")
        self.learner = learner_of(self.run, self.data, self.execution.form)
        engine: Engine = Graph(self.learner, self.display) if self.execution.recorded else Eager()
        step = stepper(train_step(self.learner, self.data, engine), batches, self.run.precision)
        step()
        losses = self.learner.state.last_losses
        assert isinstance(losses, Tensor)
        places = torch.arange(len(self.data), device=losses.device) % self.run.batch_size
        losses.copy_(losses[batches[0]][places])
        return step


def textbook_step(run: Run, data: Dataset, batches: Sequence[Indices]) -> Step:
    """Steps of the textbook, with matrix products in TF32 on a GPU."""
    assert isinstance(run.method, ORAT)
    assert run.method.m is not None
    model = textbook_network(run.model, data.shape, len(data.classes), run.seed).to(data.labels.device)
    textbook = Textbook(model, data, run, len(data), count(run.method.m, len(data)))
    return stepper(textbook.step, batches, "tf32")


def stepper(step: Callable[[Indices], None], batches: Sequence[Indices], precision: str) -> Step:
    """One step on the next batch at each call, in endless turns through the batches."""
    upcoming = cycle(batches)

    def one() -> None:
        with arithmetic(precision):
            step(next(upcoming))

    return one


def step_flops(run: Run, data: Dataset, ids: Indices) -> int:
    """Floating-point operations of the matrix products and convolutions in our step."""
    step = train_step(learner_of(run, data), data, Eager())
    return operations_of(lambda: step(ids))


def product_step(dtype: torch.dtype, side: int, device: torch.device, precision: str) -> Step:
    """Large matrix products in one type, which measure the rate of the device."""
    matrix = torch.rand(side, side, device=device).to(dtype)
    result = torch.empty_like(matrix)

    def product() -> None:
        with arithmetic(precision):
            torch.mm(matrix, matrix, out=result)

    return product
