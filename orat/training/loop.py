"""The training loop, for every method and for scout networks, and its stages from the last checkpoint on."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from orat.core.console import Display
from orat.core.device import products, until_done
from orat.core.types import Scalar
from orat.data.loader import Loader
from orat.training.engine import Eager, Engine, Execution, execution, possible
from orat.training.events import EpochDone, Event, StepDone, Waiting
from orat.training.graph import Graph
from orat.training.learner import Learner
from orat.training.observers import Checkpoints, Forecast, History, Lines, Observer, Steps, by_name
from orat.training.plan import Plan
from orat.training.run import Run
from orat.training.run_folder import Folder
from orat.training.scouts import scout_learner, scout_loader
from orat.training.setup import Parts

FORMAT = 12  # of checkpoints; a checkpoint of another format comes from other steps
CROSS_FITTING, TRAINING = "cross-fitting", "training"  # the stages of a run

T = TypeVar("T")


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


class Sitting:
    """The stages of a training in its folder, and its checkpoint."""

    def __init__(
        self, run: Run, folder: Folder, parts: Parts, device: torch.device, display: Display, engine: str
    ) -> None:
        self.run, self.folder, self.parts = run, folder, parts
        self.device, self.display, self.engine = device, display, engine
        self.fingerprint = parts.train.fingerprint()
        self.seconds, self.started = 0.0, time.monotonic()  # of former sittings, and the start of this one
        self.origin: dict[str, Any] | None = None  # of the initial weights

    def cross_fit(
        self, plan: Plan, saved: dict[str, Any] | None, dropouts: int = 0, is_alone: bool = False
    ) -> Generator[Event, None, Tensor]:
        """The cross-fitted predictions: those of the folder, or by training scout networks.

        `dropouts` are those of the run's network, which are numbered first. Alone, without a run, the time is printed.
        """
        if saved is None:
            self.folder.remove_tensors("predictions")
        elif self.folder.has_tensors("predictions"):
            return self.folder.load_tensors("predictions")["log_probs"]
        batches = scout_loader(self.run, self.parts, plan, self.device)
        wanted = execution(self.engine, self.device, batches.steps * plan.epochs, at_most=True)
        how = possible(wanted, batches, self.display)
        learner = scout_learner(self.run, self.parts, plan, how.form, self.device, dropouts)
        lines, history = Lines(self.display, plan.epochs, CROSS_FITTING), History(self.folder, "cross_fit.jsonl")
        observers = [history, lines, *([Forecast(self.display, lines)] if is_alone else ())]
        yield from self.observed(CROSS_FITTING, learner, batches, how, observers, lines, saved)
        predictions = learner.predictions()
        self.folder.save_tensors("predictions", {"log_probs": predictions, "id": self.parts.ids})
        return predictions

    def observed(
        self,
        stage: str,
        learner: Learner,
        batches: Any,
        how: Execution,
        observers: Sequence[Observer],
        lines: Lines,
        saved: dict[str, Any] | None,
    ) -> Generator[Event, None, None]:
        """One stage from its last checkpoint on; every observer sees every event."""
        if saved is not None and saved["stage"] == stage:
            learner.load_state_dict(saved["learner"])
            for name, observer in by_name(observers).items():
                if name in saved["observers"]:
                    observer.load_state_dict(saved["observers"][name])
            at = f", step {learner.step + 1}" if learner.step else ""
            if learner.epoch <= learner.epochs:
                self.display.line(f"{self.folder.path}: resuming at {lines.name(learner.epoch)}{at}")
        for observer in observers:
            observer.begin(learner.epoch)
        engine: Engine = Graph(learner, self.display) if how.recorded else Eager()
        checkpoints = Checkpoints(
            lambda: self.save(stage, learner, observers), lambda: learner.check_finite(learner.loss_sum.item())
        )
        with self.display.bar() as bar:
            watching = [*observers, Steps(bar, lines), checkpoints]
            for event in fit(learner, batches, engine):
                for observer in watching:
                    observer(event)
                yield event

    def save(self, stage: str, learner: Learner, observers: Sequence[Observer]) -> None:
        """Replaces the checkpoint."""
        content = {
            "format": FORMAT,
            "device": self.device.type,
            "fingerprint": self.fingerprint,
            "stage": stage,
            "learner": learner.state_dict(),
            "observers": {name: one.state_dict() for name, one in by_name(observers).items()},
            "origin": self.origin,
            "seconds": self.seconds + time.monotonic() - self.started,
        }
        self.folder.save_resume(content)

    def load(self) -> dict[str, Any] | None:
        """The last checkpoint, or None before the first."""
        saved = self.folder.load_resume(self.device, FORMAT, self.fingerprint)
        if saved is not None:
            self.seconds, self.origin = saved["seconds"], saved["origin"]
        return saved


def result_of(events: Generator[Any, None, T]) -> T:
    """The result of a generator, after all its events."""
    while True:
        try:
            next(events)
        except StopIteration as end:
            result: T = end.value
            return result
