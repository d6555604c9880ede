"""What Optuna proposes to try next, given what came of all that was tried; nothing is lost when it is stopped."""

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

DIGITS = 4  # of a proposed fraction: more would only make names and tables long


@dataclass(frozen=True)
class Trial:
    """One choice, and what is known of it: nothing yet, its score, or why it has none."""

    number: int
    choice: Choice
    finished: bool = False
    score: float | None = None
    error: str | None = None


class Trials:
    """A study of Optuna in a file; at most one of its trials is under way."""

    def __init__(self, file: Path, axes: Sequence[Axis], seed: int) -> None:
        from optuna import create_study
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        # A journal is one line appended for every change, so that a kill spoils no more than the last one; the
        # alternative, SQLite, brings a database library along. Its lock is ours to clear: the folder is locked already.
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
        """The trial that was under way when the search was stopped, or a new one, which is written down first."""
        under_way = [trial for trial in self.all() if not trial.finished]
        if under_way:
            return under_way[0]
        from optuna.trial import TrialState, create_trial

        distributions = {axis.field: distribution(axis) for axis in self.axes}
        proposed = self.propose(distributions)
        params = {axis.field: tidy(axis, proposed[axis.field]) for axis in self.axes}
        self.study.add_trial(create_trial(state=TrialState.RUNNING, params=params, distributions=distributions))
        return self.all()[-1]

    def propose(self, distributions: dict[str, BaseDistribution]) -> dict[str, Any]:
        """What TPE (Bergstra et al., 2011) wants to try: a function of the seed and of the trials so far alone."""
        from optuna import create_study
        from optuna.samplers import TPESampler

        former = self.study.get_trials()
        seed = int(np.random.SeedSequence((self.seed, len(former))).generate_state(1)[0])
        aside = create_study(sampler=TPESampler(seed=seed), direction="maximize")
        aside.add_trials(former)
        return aside.ask(distributions).params

    def tell(self, trial: Trial, score: float | None, error: str | None) -> None:
        """What came of a trial; one without a score counts as worse than any other."""
        from optuna.trial import TrialState

        if score is None:
            self.study.set_user_attr(reason_of(trial.number), error)
            self.study.tell(trial.number, state=TrialState.PRUNED)
        else:
            self.study.tell(trial.number, score)

    def trial(self, frozen: FrozenTrial) -> Trial:
        """A trial of Optuna in our words."""
        choice = {axis.field: str(frozen.params[axis.field]) for axis in self.axes}
        error = self.study.user_attrs.get(reason_of(frozen.number))
        return Trial(frozen.number, choice, frozen.state.is_finished(), frozen.value, error)


def reason_of(number: int) -> str:
    """Where the study keeps why a trial has no score."""
    return f"why trial {number} has no score"


def distribution(axis: Axis) -> BaseDistribution:
    """A field in Optuna's words."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(axis, Values):
        return CategoricalDistribution(axis.corners())
    if isinstance(axis.low, int) and isinstance(axis.high, int):
        return IntDistribution(axis.low, axis.high, axis.log)
    return FloatDistribution(axis.low, axis.high, axis.log)


def tidy(axis: Axis, value: Any) -> Any:
    """A proposed value with few digits, and still in its range."""
    if isinstance(axis, Values) or not isinstance(value, float):
        return value
    return min(max(float(f"{value:.{DIGITS}g}"), axis.low), axis.high)


def drop_broken_line(file: Path) -> None:
    """Cuts off what a kill left of a line, after which the file could not be read."""
    content = file.read_bytes() if file.is_file() else b""
    if not content.endswith(b"\n") and content:
        replace_file(file, content[: content.rfind(b"\n") + 1])


@contextmanager
def silence() -> Iterator[None]:
    """Optuna logs nothing meanwhile."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)
