"""Tests after every epoch, as in the authors' code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

from orat.attacks import suite
from orat.cli.subjects import first_test_images
from orat.core.console import SILENT, Display
from orat.core.files import replace_file
from orat.data.source import Dataset
from orat.evaluation.accuracy import default_batch, evaluate
from orat.sweeps.parallel import Sitting
from orat.training.run import Run
from orat.training.train import Job

FILE = "tested.jsonl"

test_images = cache(first_test_images)  # runs on the same data share them


class EveryEpoch:
    """An observer of a training that tests the network after every epoch and writes one line an epoch."""

    def __init__(
        self, folder: Path, run: Run, data_dir: Path | None = None, attacks: Mapping[str, Any] | None = None,
        display: Display = SILENT,
    ) -> None:  # fmt: skip
        self.folder, self.run, self.display = folder, run, display
        self.test: Dataset = test_images(run.data, data_dir, run.image_size, None)
        self.attacks = suite(run.eps, run.norm) if attacks is None else attacks

    def __call__(self, event: Any) -> None:
        """Tests after an epoch of the network; a resumed training replaces the lines of repeated epochs."""
        if not isinstance(event, EpochDone) or event.epoch < 1:
            return
        searcher = event.searcher(default_batch(event.model, self.test))
        searchers = None if searcher is None else lambda attack: searcher
        self.display.line(f"testing epoch {event.epoch} on {len(self.test)} images")
        accuracy = evaluate(event.model, self.test, self.attacks, self.run.seed, self.display, searchers)
        lines = [line for line in tested(self.folder) if line["epoch"] < event.epoch]
        lines.append({"epoch": event.epoch, **accuracy})
        replace_file(self.folder / FILE, "".join(json.dumps(line) + "\n" for line in lines).encode())

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the file is the state, and it is written before the checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


@dataclass(frozen=True)
class EpochDone:
    """The end of an epoch, until the training itself sends such events."""

    epoch: int
    model: nn.Module
    engine: Any

    def searcher(self, size: int) -> nn.Module | None:
        """A quicker form of the network for the search of attacks."""
        searcher: nn.Module | None = self.engine.searcher(size)
        return searcher


class Observed(Job):
    """A training whose epochs an observer sees, until the training itself takes observers."""

    observer: Any = None
    may_collapse = True  # whether one class for all samples ends the training

    def validate(self, epoch: int) -> dict[str, float]:
        """Validates, then calls the observer."""
        accuracy = super().validate(epoch)
        self.constant_epochs *= self.may_collapse
        if self.observer is not None:
            self.observer(EpochDone(epoch, self.learner.model, self.engine))
        return accuracy


class ObservedSitting(Sitting):
    """A run among others, seen by an observer, and given up after a collapse or not."""

    def observe(self, observer: Any, may_collapse: bool = True) -> ObservedSitting:
        """Adds the observer to a training that is not finished."""
        if isinstance(self.job, Job):
            observed = Observed.__new__(Observed)
            vars(observed).update(vars(self.job) | {"observer": observer, "may_collapse": may_collapse})
            self.job = observed
            self.steps = observed.steps()
        return self


def tested(folder: Path) -> list[dict[str, Any]]:
    """The tests of all epochs so far."""
    file = folder / FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def best(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The authors' "best": the largest accuracy over all epochs, on the test set, in every column apart."""
    columns = [name for name in records[0] if name != "epoch"] if records else []
    return {name: max(record[name] for record in records) for name in columns}


def best_epochs(records: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """The epochs that reach the best of every column."""
    return {name: [one["epoch"] for one in records if one[name] == most] for name, most in best(records).items()}
