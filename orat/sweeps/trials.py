"""Trials: settings proposed by Optuna from all results so far, in a journal that survives a kill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from orat.core.files import replace_file
from orat.sweeps.space import Axis, Choice, Values

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

DIGITS = 4  # of a proposed fraction, which becomes part of a folder name


@dataclass(frozen=True)
class Trial:
    """A proposed setting; when finished, also the score or the reason of the failure."""

    number: int
    choice: Choice
    finished: bool = False
    score: float | None = None
    error: str | None = None


class Trials:
    """A study of Optuna in a file, with at most one unfinished trial."""

    def __init__(self, file: Path, axes: Sequence[Axis], seed: int) -> None:
        from optuna import create_study
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        # A journal appends one line a change, so a kill damages only the last line; SQLite would need a database
        # library. The lock of a killed process can go, as the folder of the search is locked.
        drop_broken_line(file)
        Path(f"{file}.lock").unlink(missing_ok=True)
        backend = JournalFileBackend(str(file), JournalFileOpenLock(str(file)))
        self.axes, self.seed = axes, seed
        self.study = create_study(
            storage=JournalStorage(backend), study_name="search", direction="maximize", load_if_exists=True
        )

    def all(self) -> list[Trial]:
        """Every trial so far, in order."""
        return [self.trial(frozen) for frozen in self.study.get_trials()]

    def next(self) -> Trial:
        """The unfinished trial of a stopped search, or a new trial, written to the journal first."""
        if unfinished := [trial for trial in self.all() if not trial.finished]:
            return unfinished[0]
        from optuna.trial import TrialState, create_trial

        distributions = {axis.field: distribution(axis) for axis in self.axes}
        proposed = self.propose(distributions)
        params = {axis.field: rounded(axis, proposed[axis.field]) for axis in self.axes}
        self.study.add_trial(create_trial(state=TrialState.RUNNING, params=params, distributions=distributions))
        return self.all()[-1]

    def propose(self, distributions: dict[str, BaseDistribution]) -> dict[str, Any]:
        """The proposal of TPE (Bergstra et al., 2011), a function of the seed and of the trials so far."""
        from optuna import create_study
        from optuna.samplers import TPESampler

        former = self.study.get_trials()
        seed = int(np.random.SeedSequence((self.seed, len(former))).generate_state(1)[0])
        in_memory = create_study(sampler=TPESampler(seed=seed), direction="maximize")
        in_memory.add_trials(former)
        return in_memory.ask(distributions).params

    def tell(self, trial: Trial, score: float | None, error: str | None) -> None:
        """Finishes a trial; a trial without a score ranks below all others."""
        from optuna.trial import TrialState

        if score is None:
            self.study.set_user_attr(error_name(trial.number), error)
            self.study.tell(trial.number, state=TrialState.PRUNED)
        else:
            self.study.tell(trial.number, score)

    def trial(self, frozen: FrozenTrial) -> Trial:
        """A trial of Optuna as a setting and its result."""
        choice = {axis.field: str(frozen.params[axis.field]) for axis in self.axes}
        error = self.study.user_attrs.get(error_name(frozen.number))
        return Trial(frozen.number, choice, frozen.state.is_finished(), frozen.value, error)


def error_name(number: int) -> str:
    """The attribute of the study with the error of a trial."""
    return f"error of trial {number}"


def distribution(axis: Axis) -> BaseDistribution:
    """A field as a distribution of Optuna."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(axis, Values):
        return CategoricalDistribution(axis.corners())
    if isinstance(axis.low, int) and isinstance(axis.high, int):
        return IntDistribution(axis.low, axis.high, axis.log)
    return FloatDistribution(axis.low, axis.high, axis.log)


def rounded(axis: Axis, value: Any) -> Any:
    """A proposed value with few digits, within its range."""
    if isinstance(axis, Values) or not isinstance(value, float):
        return value
    return min(max(float(f"{value:.{DIGITS}g}"), axis.low), axis.high)


def drop_broken_line(file: Path) -> None:
    """Removes an incomplete last line, with which the journal cannot be read."""
    content = file.read_bytes() if file.is_file() else b""
    if not content.endswith(b"\n") and content:
        replace_file(file, content[: content.rfind(b"\n") + 1])


@contextmanager
def silence() -> Iterator[None]:
    """Turns off the log of Optuna."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)
