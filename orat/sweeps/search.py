"""Search: trains a run with several settings and ranks the settings by validation accuracy, without the test set."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from orat.core.console import Display
from orat.core.device import choose_device
from orat.core.errors import InputError, TrainingError, unknown
from orat.core.files import csv_bytes, replace_file, require
from orat.core.registry import in_words
from orat.sweeps.folder import SearchFolder, columns, name_of
from orat.sweeps.parallel import AT_ONCE, train_many
from orat.sweeps.space import DECIDE_DATA, Axis, Choice, Range, axes_of, choices_of, doubts, first_run, run_of
from orat.sweeps.trials import Trials, silence
from orat.training.defaults import Facts
from orat.training.engine import KINDS
from orat.training.first_weights import load_first
from orat.training.plan import plan_for
from orat.training.rehearsal import rehearse
from orat.training.run import Run
from orat.training.setup import Parts, build_model, facts_of, prepare, read_data, state_of
from orat.training.text import Texts, texts_of
from orat.training.train import train

FORMAT = 1  # of search.json
BY = ("pgd10", "natural")  # validation accuracies in the history of every run

Outcomes = list[tuple[Choice, str | None]]  # settings, each with the reason of its failure


@dataclass(frozen=True)
class SearchPlan:
    """What a search tries: all combinations of values, or with `trials` as many settings proposed by Optuna."""

    texts: Texts
    axes: list[Axis]
    by: str = "pgd10"
    trials: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.by not in BY:
            raise unknown("accuracy to rank by:", self.by, BY)
        if self.trials is not None and self.trials < 1:
            raise InputError(f"trials = {self.trials}: give 1 or more")
        if self.seed < 0:
            raise InputError(f"seed of the search = {self.seed}: give 0 or more")
        for axis in self.axes:
            if isinstance(axis, Range) and self.trials is None:
                raise InputError(
                    f"--over {axis.field}={axis.record()} is a range, which needs Optuna: add --trials 20, "
                    f"or list values, such as {axis.field}={axis.low},{axis.high}"
                )
        if self.trials is not None:
            require("optuna", "search", "a search with trials")

    def record(self) -> dict[str, Any]:
        """The search as plain JSON, with the fields of the run that all settings share."""
        base = first_run(self.texts, self.axes).record()
        for axis in self.axes:
            (base if axis.field in base else base.get("method", {})).pop(axis.field, None)
        over = {axis.field: axis.record() for axis in self.axes}
        return {"format": FORMAT, "over": over, "by": self.by, "trials": self.trials, "seed": self.seed, "run": base}


@dataclass(frozen=True)
class Execution:
    """Where and how runs are trained, which changes no result."""

    data_dir: str | Path | None
    device: str
    display: Display
    engine: str
    at_once: int


def search(
    run: Run,
    over: Mapping[str, Any],
    out: str | Path = "runs/search",
    by: str = "pgd10",
    trials: int | None = None,
    seed: int = 0,
    data_dir: str | Path | None = None,
    device: str = "auto",
    display: Display | None = None,
    engine: str = "auto",
    at_once: int = AT_ONCE,
    show_test: bool = False,
    model: Any = None,
) -> list[dict[str, Any]]:
    """Trains the run with other values of some fields, in folders under `out`; returns a row a setting, best first.

    `over` maps fields to lists of values, of which all combinations are trained. With `trials`, Optuna proposes as many
    settings, also from ranges such as "0.05..0.5" or "log:0.001..0.1". A row has the validation accuracy at the chosen
    epoch. Validation labels can be wrong, so the accuracy ranks settings and is no estimate. `model` takes the place of
    the run's network: a function that returns a network, or a name.
    """
    run = run if model is None else replace(run, model=model)
    if isinstance(run.model, nn.Module):
        words = in_words(run.model)
        raise InputError(f"a search builds its networks anew, not {words}: give a function that returns one as model")
    texts = texts_of(run) | {"method": type(run.method)}  # the class itself: a name may lead nowhere
    plan = SearchPlan(texts, axes_of(over, texts), by, trials, seed)
    return carry_out(plan, Path(out), Execution(data_dir, device, display or Display(), engine, at_once), show_test)


def carry_out(plan: SearchPlan, out: Path, execution: Execution, show_test: bool = False) -> list[dict[str, Any]]:
    """Continues a search to its end, writes search.csv and returns the rows."""
    folder, record = SearchFolder(out), plan.record()
    folder.check(record)
    choose_device(execution.device)
    if execution.engine not in KINDS:
        raise unknown("engine", execution.engine, KINDS)
    for doubt in doubts(plan.axes):
        execution.display.line(f"warning: {doubt}")
    outcomes = (try_all if plan.trials is None else propose)(plan, folder, execution, record)
    rows = [folder.row(plan.axes, choice, error, show_test) for choice, error in outcomes]
    other = next(name for name in BY if name != plan.by)
    rows.sort(key=lambda row: (-row["validation"].get(plan.by, -1), -row["validation"].get(other, -1)))
    replace_file(out / "search.csv", csv_bytes(columns(rows)))
    return rows


def try_all(plan: SearchPlan, folder: SearchFolder, execution: Execution, record: dict[str, Any]) -> Outcomes:
    """Trains every combination, several at once on a GPU; invalid combinations are left out before the first run."""
    check, choices = Check(plan, execution, folder), choices_of(plan.axes)
    errors = {name_of(choice): reason for choice in choices if (reason := check.refusal(choice))}
    if len(errors) == len(choices):
        raise InputError(errors[name_of(choices[0])])
    errors |= folder.failed()
    for name, reason in errors.items():
        execution.display.line(f"{name} is left out: {reason}")
    valid = [choice for choice in choices if name_of(choice) not in errors]
    runs: dict[str | Path, Run] = {folder.run(choice): run_of(plan.texts, choice) for choice in valid}
    with folder.claimed(record):
        results = train_many(runs, **vars(execution))
        errors |= {Path(path).name: result["error"] for path, result in results.items() if "error" in result}
        folder.keep_failed(errors)
    return [(choice, errors.get(name_of(choice))) for choice in choices]


def propose(plan: SearchPlan, folder: SearchFolder, execution: Execution, record: dict[str, Any]) -> Outcomes:
    """Trains the settings proposed by Optuna one after the other, as a proposal depends on all results before."""
    wanted, check = plan.trials or 0, Check(plan, execution, folder)
    if not folder.record.is_file():
        check.any_valid()
    with folder.claimed(record), silence():
        trials = Trials(folder.path / "optuna.journal", plan.axes, plan.seed)
        while sum(trial.finished for trial in trials.all()) < wanted:
            check.any_valid()
            trial = trials.next()
            label = f"trial {trial.number + 1} of {wanted}"
            setting = ", ".join(f"{field} = {text}" for field, text in trial.choice.items())
            execution.display.line(f"{label}: {setting}")
            error = check.refusal(trial.choice) or failure(plan, trial.choice, folder, execution)
            score = folder.row(plan.axes, trial.choice, error)["validation"].get(plan.by)
            trials.tell(trial, score, error)
            best = max((done.score for done in trials.all() if done.score is not None), default=0.0)
            figures = f"{plan.by} {100 * (score or 0):.2f} on validation, best so far {100 * best:.2f}"
            execution.display.line(f"{label}: {error or figures}")
        outcomes = {name_of(trial.choice): (trial.choice, trial.error) for trial in trials.all()}
    return list(outcomes.values())  # without repeated proposals


def failure(plan: SearchPlan, choice: Choice, folder: SearchFolder, execution: Execution) -> str | None:
    """Trains one setting, unless it is finished; returns the reason if the training fails."""
    how = execution.data_dir, execution.device, execution.display, execution.engine
    try:
        train(run_of(plan.texts, choice), folder.run(choice), *how)
    except TrainingError as error:
        return str(error)
    return None


class Check:
    """Finds settings with runs that cannot begin; reads each data set once."""

    def __init__(self, plan: SearchPlan, execution: Execution, folder: SearchFolder) -> None:
        self.plan, self.execution, self.folder = plan, execution, folder
        self.device = choose_device(execution.device)
        self.known: dict[str, tuple[Facts, Parts]] = {}
        self.found_valid = False

    def any_valid(self) -> None:
        """Refuses a search in which no combination of values and ends of ranges can begin."""
        if self.found_valid:
            return
        reasons = []
        for choice in choices_of(self.plan.axes):
            if (reason := self.refusal(choice)) is None:
                self.found_valid = True
                return
            reasons.append(reason)
        raise InputError(reasons[0])

    def refusal(self, choice: Choice) -> str | None:
        """The reason why a setting cannot begin; None if it can or has begun."""
        try:
            run = run_of(self.plan.texts, choice)
        except InputError as error:
            return str(error)
        if self.folder.has_begun(choice):
            return None
        if not any(axis.field in DECIDE_DATA for axis in self.plan.axes):
            self.complete(run)  # missing data stops the whole search
        try:
            self.check(run)
        except InputError as error:
            return str(error)
        return None

    def check(self, run: Run) -> None:
        """Refuses a run that cannot begin."""
        run, parts = self.complete(run)
        if parts.validation is None:
            raise InputError(f"validation = {run.validation:g} holds out none of {parts.total}: give a larger share")
        plain = replace(run, normalize=False)  # its statistics would be those of the first image
        model = build_model(plain, parts.train)
        if run.init_from is not None:
            load_first(model, run, run.init_from, len(parts.train.classes))
        scouts = run.method.scouts()
        state = state_of(plain, parts) if scouts is None else None
        if plain.runs_code:
            rehearse(plain, parts.train, model, state)
        if scouts is not None:
            plan_for(plain, parts, scouts, network=model).make(0)

    def complete(self, run: Run) -> tuple[Run, Parts]:
        """The complete run, and its data with the first image in place of all: only number and shape matter here."""
        record = run.record()
        key = json.dumps([record.get(name) for name in DECIDE_DATA])
        if key not in self.known:
            data_dir = None if self.execution.data_dir is None else Path(self.execution.data_dir)
            whole, splits = read_data(run, data_dir, self.device)
            parts = prepare(whole, splits=splits)
            images = parts.train.images[:1].clone().expand_as(parts.train.images)
            parts = replace(parts, train=replace(parts.train, images=images), test=None)
            self.known[key] = facts_of(splits.train, self.device), parts
        facts, parts = self.known[key]
        return run.fitted(facts), parts
