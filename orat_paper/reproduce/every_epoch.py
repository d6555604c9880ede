"""Runs that go otherwise than alone: tested after every epoch, as the authors' code does, or never given up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orat.core.files import replace_file
from orat.evaluation.accuracy import Searchers, default_batch
from orat.sweeps.parallel import Sitting
from orat.training.train import Job

FILE = "tested.jsonl"


class TakenOver(Job):
    """A training whose steps are those of the job that it takes over."""

    def __init__(self, job: Job) -> None:
        vars(self).update(vars(job))


class EveryEpoch(TakenOver):
    """One that is tested after every epoch, by attacks on what its engine attacks in training."""

    def validate(self, epoch: int) -> dict[str, float]:
        """Validates as ever, then tests; the line is on disk before the checkpoint that counts on it."""
        accuracy = super().validate(epoch)
        record = {"epoch": epoch, **self.accuracy(f"epoch {epoch}", self.searchers())}
        lines = [line for line in tested(self.folder.path) if line["epoch"] < epoch] + [record]
        replace_file(self.folder.path / FILE, "".join(json.dumps(line) + "\n" for line in lines).encode())
        return accuracy

    def searchers(self) -> Searchers | None:
        """What the engine attacks, for batches as tests have them."""
        test = self.parts.test
        searcher = None if test is None else self.engine.searcher(default_batch(self.learner.model, test))
        return None if searcher is None else lambda attack: searcher


class Patient(TakenOver):
    """One that is not given up as collapsed: networks may call all points of a toy set blue for 10,000 steps."""

    def validate(self, epoch: int) -> dict[str, float]:
        """Validates as ever, and forgets for how long there was one class for everything."""
        accuracy = super().validate(epoch)
        self.constant_epochs = 0
        return accuracy


class EveryEpochSitting(Sitting):
    """A run among others that is tested after every epoch."""

    kind: type[TakenOver] = EveryEpoch

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if isinstance(self.job, Job):
            self.job = self.kind(self.job)
            self.steps = self.job.steps()


class PatientSitting(EveryEpochSitting):
    """A run among others that is not given up."""

    kind = Patient


def tested(folder: Path) -> list[dict[str, Any]]:
    """What the tests of all epochs so far found."""
    file = folder / FILE
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


def best(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The authors' "best": of each column the largest over all epochs, on the test set and apart from the others."""
    columns = [name for name in records[0] if name != "epoch"] if records else []
    return {name: max(record[name] for record in records) for name in columns}


def best_epochs(records: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Of each column the epochs that reach its best."""
    return {name: [one["epoch"] for one in records if one[name] == most] for name, most in best(records).items()}
