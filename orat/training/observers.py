"""Observers of a training: each looks at the events of the loop and keeps its own state in the checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from orat.attacks.pgd import PGD
from orat.core.console import Bar, Display
from orat.core.errors import TrainingError
from orat.data.source import Dataset
from orat.evaluation.accuracy import evaluate, predict
from orat.methods.base import State
from orat.models.catalog import is_own
from orat.noise.judge import RELIABLE
from orat.noise.truth import found_corrections, lost_classes
from orat.training.events import EpochDone, Event, StepDone
from orat.training.run import Run
from orat.training.run_folder import Folder, weights

VALIDATION_ATTACK = "pgd10"  # chooses the epoch
VALIDATION = {VALIDATION_ATTACK: PGD(10)}
WATCHED = 1000  # training samples that show a collapse where none are held out
COLLAPSED_EPOCHS, COLLAPSED_STEPS = 3, 300  # with one class for everything
COMMON = 0.8  # share of samples of a class that a sound network may predict for everything
SAVE_EVERY = 300.0  # seconds, within a long epoch
SAVE_AT_MOST_EVERY = 1.0  # seconds between checkpoints, and between lines, of short epochs
SAVED_IN = 0.01  # seconds: slower checkpoints come less often, to take 1 % of the time at most
SOON = 2.0  # seconds, after which the time left is known
SHORT = 0.1  # seconds, below which epochs are printed in milliseconds
MOST_NAMED = 5  # classes in one line


class Observer:
    """Looks at the events of a training."""

    def begin(self, epoch: int) -> None:
        """Prepares for the events from this epoch on, after the state is restored."""

    def __call__(self, event: Event) -> None:
        """Looks at one event."""
        if isinstance(event, EpochDone):
            self.epoch_done(event)

    def epoch_done(self, event: EpochDone) -> None:
        """Looks at the end of an epoch."""

    def state_dict(self) -> dict[str, Any]:
        """The state for the checkpoint: numbers, texts, tensors, and lists and dicts of them."""
        return {}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restores the state."""


def by_name(observers: Iterable[Observer]) -> dict[str, Observer]:
    """Observers by the names of their classes; further ones of a class have a number."""
    found: dict[str, Observer] = {}
    for one in observers:
        name = type(one).__name__
        count = sum(type(other).__name__ == name for other in found.values())
        found[f"{name} {count + 1}" if count else name] = one
    return found


class Corrections(Observer):
    """Records how many labels the method changed."""

    def __init__(self, state: State, train: Dataset) -> None:
        self.state, self.train = state, train

    def epoch_done(self, event: EpochDone) -> None:
        """Adds the changes of the epoch."""
        decision = self.state.decision()
        if decision is not None and decision.labels is not None:
            found = found_corrections(decision.labels, self.train.labels, self.train.truth)
            event.record["corrections"] = found


class Validate(Observer):
    """Measures accuracy on the validation part, and keeps the weights of the best epoch."""

    def __init__(self, run: Run, model: nn.Module, held_out: Dataset | None) -> None:
        self.run, self.model, self.held_out = run, model, held_out
        self.epoch, self.score = 0, -1.0
        self.weights: dict[str, Tensor] = {}

    def epoch_done(self, event: EpochDone) -> None:
        """Adds the accuracies of the epoch."""
        event.record["validation"] = {}
        if self.held_out is None:
            return
        threat, built_in = self.run.threat_in(self.held_out.domain), not is_own(self.run.model)
        accuracy = evaluate(self.model, self.held_out, VALIDATION, threat, self.run.seed, is_ready=built_in)
        event.record["validation"] = accuracy
        if accuracy[VALIDATION_ATTACK] >= self.score:
            self.epoch, self.score, self.weights = event.epoch, accuracy[VALIDATION_ATTACK], weights(self.model)

    def state_dict(self) -> dict[str, Any]:
        """The best epoch so far."""
        return {"epoch": self.epoch, "score": self.score, "weights": self.weights}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restores the best epoch."""
        self.epoch, self.score, self.weights = saved["epoch"], saved["score"], saved["weights"]


class Guard(Observer):
    """Stops a training whose network predicts one class for everything."""

    def __init__(self, run: Run, model: nn.Module, held_out: Dataset | None, train: Dataset, steps: int) -> None:
        self.run, self.model = run, model
        self.watched = held_out or train.take(torch.arange(min(WATCHED, len(train))))
        self.limit = max(COLLAPSED_EPOCHS, COLLAPSED_STEPS / steps, run.epochs / 20)
        self.constant = 0  # epochs in a row

    def epoch_done(self, event: EpochDone) -> None:
        """Counts epochs with one predicted class."""
        predicted, labels = predict(self.model, self.watched), self.watched.labels
        right = (predicted == labels).double().mean()
        one_class = len(predicted.unique()) == 1 and len(labels.unique()) > 1 and right < COMMON
        self.constant = self.constant + 1 if one_class and event.epoch > self.run.warmup else 0
        if self.constant >= self.limit:
            run = self.run
            raise TrainingError(
                f"the network has collapsed: it predicts the same class for every sample since {self.constant} epochs; "
                f"lower --lr (now {run.lr:g}), lengthen --warmup (now {run.warmup:g} epochs) or --attack-warmup "
                f"(now {run.attack_warmup:g}), and give --out a new folder"
            )

    def state_dict(self) -> dict[str, Any]:
        """The count."""
        return {"constant": self.constant}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Restores the count."""
        self.constant = saved["constant"]


class History(Observer):
    """Appends the record of each epoch to a file of the run folder."""

    def __init__(self, folder: Folder, name: str = "history.jsonl") -> None:
        self.folder, self.name, self.started = folder, name, time.monotonic()

    def epoch_done(self, event: EpochDone) -> None:
        """Writes the record, with the seconds since the last one."""
        now = time.monotonic()
        event.record["seconds"] = round(now - self.started, 3)
        self.started = now
        self.folder.append(self.name, event.record)

    def begin(self, epoch: int) -> None:
        """Drops the records from this epoch on, which the checkpoint does not know."""
        self.started = time.monotonic()
        self.folder.truncate(self.name, epoch)


class Warnings(Observer):
    """Prints each kind of warning once."""

    def __init__(self, display: Display, state: State, train: Dataset, name: Callable[[int], str]) -> None:
        self.display, self.state, self.train, self.name = display, state, train, name
        self.printed: set[str] = set()

    def epoch_done(self, event: EpochDone) -> None:
        """Prints warnings of the method, and of classes that are lost."""
        decision = self.state.decision()
        lost = None
        if decision is not None and decision.keep is not None and event.record["state"].get("cut"):
            lost_ones = lost_classes(decision.flagged(self.train.labels), self.train.labels)
            lost = lost_words([self.train.classes[label] for label in lost_ones])
        for kind, warning in (("method", self.state.warning()), ("class", lost)):
            if warning and kind not in self.printed:
                self.display.line(f"warning: {self.name(event.epoch)}: {warning}")
                self.printed.add(kind)


class Lines(Observer):
    """Prints a line an epoch, at most one a second, with the time left."""

    def __init__(self, display: Display, epochs: int, label: str = "epoch") -> None:
        self.display, self.epochs, self.label = display, epochs, label
        self.printed = self.ended = time.monotonic()
        self.seconds: list[float] = []  # of the epochs since the last line

    def name(self, epoch: int) -> str:
        """An epoch for people."""
        return f"{self.label} {epoch:>{len(str(self.epochs))}}/{self.epochs}"

    def epoch_done(self, event: EpochDone) -> None:
        """Prints the epoch."""
        now = time.monotonic()
        self.epochs = event.epochs or self.epochs
        self.seconds.append(now - self.ended)
        self.ended = now
        if now - self.printed < SAVE_AT_MOST_EVERY and event.epoch != self.epochs:
            return
        self.printed, pace = now, mean(self.seconds)
        self.seconds.clear()
        self.display.line(f"{self.name(event.epoch)}  {words_of(event.record)}  {self.time(pace, event.epoch)}")

    def time(self, pace: float, epoch: int) -> str:
        """Seconds an epoch, and the time left."""
        each = f"{pace:.1f} s" if pace >= SHORT else f"{1000 * pace:.0f} ms"
        return f"{each}, {timedelta(seconds=round(pace * (self.epochs - epoch)))} to go"


class Steps(Observer):
    """Moves a bar over the steps of all epochs."""

    def __init__(self, bar: Bar, lines: Lines) -> None:
        self.bar, self.lines = bar, lines

    def __call__(self, event: Event) -> None:
        """Shows the step."""
        if isinstance(event, StepDone):
            done = (event.epoch - 1) * event.steps + event.step
            self.bar.set(self.lines.name(event.epoch), done, event.steps * self.lines.epochs)


class Forecast(Observer):
    """Prints the time left after the first seconds, where no bar shows it."""

    def __init__(self, display: Display, lines: Lines) -> None:
        self.display, self.lines = display, lines
        self.first: tuple[float, int] | None = None  # time and number of the first step
        self.is_said = display.has_bars

    def __call__(self, event: Event) -> None:
        """Prints the line when due."""
        if self.is_said or not isinstance(event, StepDone):
            return
        now, done = time.monotonic(), (event.epoch - 1) * event.steps + event.step
        self.first = self.first or (now, done)
        seconds, steps = now - self.first[0], done - self.first[1]
        if seconds > SOON and steps:
            left = seconds / steps * (event.steps * self.lines.epochs - done)
            self.display.line(f"{self.lines.name(event.epoch)}  {timedelta(seconds=round(left))} to go at most")
            self.is_said = True


class Checkpoints(Observer):
    """Saves checkpoints: in long epochs every few minutes, and after epochs, at most 1 % of the time."""

    def __init__(self, save: Callable[[], None], check: Callable[[], None]) -> None:
        self.save, self.check = save, check
        self.saved_at, self.took = time.monotonic(), 0.0

    def __call__(self, event: Event) -> None:
        """Saves when due."""
        since = time.monotonic() - self.saved_at
        if isinstance(event, StepDone) and event.step < event.steps and since > SAVE_EVERY:
            self.check()
            self.timed_save()
        elif isinstance(event, EpochDone):
            due = since > SAVE_AT_MOST_EVERY * max(1.0, self.took / SAVED_IN)
            if due or event.epoch == event.epochs:
                self.timed_save()

    def timed_save(self) -> None:
        """Saves and takes the time."""
        started = time.monotonic()
        self.save()
        self.saved_at = time.monotonic()
        self.took = self.saved_at - started


def words_of(record: dict[str, Any]) -> str:
    """The numbers of an epoch for people."""
    state, parts = record["state"], [f"loss {record['loss']:.4f}"]
    if "validation" in record:
        accuracies = "  ".join(f"{name} {100 * share:5.2f}" for name, share in record["validation"].items())
        parts.append(f"validation {accuracies or '-'}")
    if "noise_rate" in state and state["reliability"] >= RELIABLE:
        parts.append(f"noise rate {100 * state['noise_rate']:.1f} ± {100 * state['error']:.1f} %")
    if state.get("cut"):
        parts.append(f"flagged {state['cut']}" if "noise_rate" in state else f"removed {state['cut']}")
    if record.get("corrections"):
        found = record["corrections"]
        rightly = f" ({found['rightly']} rightly)" if "rightly" in found else ""
        parts.append(f"relabeled {found['changed']}{rightly}")
    return "  ".join(parts)


def lost_words(classes: list[str]) -> str | None:
    """The warning about classes that are removed as outliers."""
    if not classes:
        return None
    more = f" and {len(classes) - MOST_NAMED} more" if len(classes) > MOST_NAMED else ""
    return (
        f"nearly every sample of class {', '.join(classes[:MOST_NAMED]) + more} is removed as an outlier, so that the "
        "network does not learn the class; if most of its labels are right, lengthen --burn-in or lower --m"
    )
