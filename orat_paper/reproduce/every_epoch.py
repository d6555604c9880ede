"""Observers of reproduced trainings: tests after every epoch, as in the authors' code, and a guard that never stops."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orat.core.files import replace_file
from orat.evaluation.accuracy import default_batch
from orat.training.events import EpochDone
from orat.training.learner import RunLearner
from orat.training.observers import Guard, Observer
from orat.training.train import Session

FILE = "tested.jsonl"


class EveryEpoch(Observer):
    """Tests the network after every epoch and writes one line an epoch."""

    def __init__(self, session: Session, learner: RunLearner) -> None:
        self.session, self.learner = session, learner

    def epoch_done(self, event: EpochDone) -> None:
        """Tests; after a resumption, the lines of repeated epochs are replaced."""
        folder = self.session.folder.path
        lines = [line for line in tested(folder) if line["epoch"] < event.epoch]
        lines.append({"epoch": event.epoch, **self.accuracy(event.epoch)})
        replace_file(folder / FILE, "".join(json.dumps(line) + "\n" for line in lines).encode())

    def accuracy(self, epoch: int) -> dict[str, float]:
        """Accuracy under the paper's attacks, which search on the form of the network that training attacks."""
        model, test = self.learner.model, self.session.parts.test
        searcher = None if test is None else self.learner.form.searcher(default_batch(model, test))
        searchers = None if searcher is None else lambda attack: searcher
        return self.session.accuracy(model, f"epoch {epoch}", searchers)


class NoGuard(Guard):
    """Never stops: a network may call all points of a toy set blue for 10,000 steps before it learns."""

    constant = 0

    def __init__(self) -> None:
        """Needs no data."""

    def epoch_done(self, event: EpochDone) -> None:
        """Does nothing."""


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
