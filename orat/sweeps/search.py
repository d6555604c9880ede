"""Settings tried, each as an ordinary run, and ranked by accuracy on validation; the test set takes no part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orat.core.console import Display
from orat.core.device import choose_device
from orat.core.errors import InputError, TrainingError, unknown
from orat.core.files import csv_bytes, replace_file, require
from orat.sweeps.folder import broken_before, check_folder, claimed, columns, keep_broken, name_of, row_of, words
from orat.sweeps.parallel import AT_ONCE, train_many
from orat.sweeps.plots import write_picture
from orat.sweeps.space import DECIDE_DATA, Axis, Choice, Range, axes_of, choices_of, doubts, first_run, run_of
from orat.sweeps.trials import Trials, silence
from orat.training.engine import KINDS
from orat.training.first_weights import load_first
from orat.training.run import Run
from orat.training.setup import Parts, build_model, prepare, setting_of
from orat.training.text import Texts, texts_of
from orat.training.train import train

FORMAT = 1  # of search.json
BY = ("pgd10", "natural")  # accuracy on validation, of which every run keeps both


@dataclass(frozen=True)
class SearchPlan:
    """All that decides a search; `trials` is how many Optuna proposes, or None for all combinations."""

    texts: Texts
    axes: list[Axis]
    by: str = "pgd10"
    trials: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.by not in BY:
            raise unknown("figure to choose by:", self.by, BY)
        if self.trials is not None and self.trials < 1:
            raise InputError(f"trials = {self.trials}: give 1 or more")
        if self.seed < 0:
            raise InputError(f"seed of the search = {self.seed}: give 0 or more")
        for axis in self.axes:
            if isinstance(axis, Range) and self.trials is None:
                raise InputError(
                    f"--over {axis.field}={axis.record()} is a range, of which Optuna tries as many values as you say: "
                    f"add --trials 20, or list values as {axis.field}={axis.low},{axis.high}"
                )
        if self.trials is not None:
            require("optuna", "search", "a search with trials")

    def record(self) -> dict[str, Any]:
        """The search as plain JSON: what is searched, and the run that all else comes from."""
        base = first_run(self.texts, self.axes).record()
        for axis in self.axes:
            (base if axis.field in base else base.get("method", {})).pop(axis.field, None)
        over = {axis.field: axis.record() for axis in self.axes}
        return {"format": FORMAT, "over": over, "by": self.by, "trials": self.trials, "seed": self.seed, "run": base}


@dataclass(frozen=True)
class Means:
    """With what runs are trained; it decides nothing about them."""

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
) -> list[dict[str, Any]]:
    """Trains the run with other values of some fields, in folders under `out`, and returns a row for each, best first.

    `over` has the fields: lists of values, all combinations of which are tried; or, with a number of `trials`, also
    ranges as text, such as "0.05..0.5" or "log:0.001..0.1", from which Optuna proposes. A row has the accuracy on
    validation at the epoch that the run chose, whose labels may be wrong too: it ranks, and is no estimate.
    """
    plan = SearchPlan(texts_of(run), axes_of(over), by, trials, seed)
    means = Means(data_dir, device, display or Display(), engine, at_once)
    rows = carry_out(plan, Path(out), means, show_test)
    if (missing := draw(rows, plan, Path(out))) is not None:
        means.display.line(missing)
    return rows


def carry_out(plan: SearchPlan, out: Path, means: Means, show_test: bool = False) -> list[dict[str, Any]]:
    """Goes on with a search until all is tried, and writes search.csv."""
    record = plan.record()
    check_folder(out, record)
    choose_device(means.device)
    if means.engine not in KINDS:
        raise unknown("engine", means.engine, KINDS)
    for doubt in doubts(plan.axes):
        means.display.line(f"warning: {doubt}")
    outcomes = try_all(plan, out, means, record) if plan.trials is None else propose(plan, out, means, record)
    rows = [row_of(plan.axes, choice, out, error, show_test) for choice, error in outcomes]
    other = next(name for name in BY if name != plan.by)
    rows.sort(key=lambda row: (-row["validation"].get(plan.by, -1), -row["validation"].get(other, -1)))
    replace_file(out / "search.csv", csv_bytes(columns(rows)))
    return rows


def draw(rows: list[dict[str, Any]], plan: SearchPlan, out: Path) -> str | None:
    """Writes search.png, or says why it cannot: the table does not wait for the picture."""
    if not rows[0]["validation"]:
        return "there is nothing to draw: no run was finished"
    try:
        write_picture(rows, plan.axes, plan.by, out / "search.png")
    except InputError as error:
        return str(error)
    return None


Outcomes = list[tuple[Choice, str | None]]  # choices, and why one has no figures


def try_all(plan: SearchPlan, out: Path, means: Means, record: dict[str, Any]) -> Outcomes:
    """Every combination, several at once on a GPU; one that makes no run is left out before anything is trained."""
    fits = Fits(plan, means, out)
    choices = choices_of(plan.axes)
    errors = {name_of(choice): reason for choice in choices if (reason := fits.misfit(choice))}
    if len(errors) == len(choices):
        raise InputError(errors[name_of(choices[0])])
    errors |= broken_before(out)
    for name, reason in errors.items():
        means.display.line(f"{name} is left out: {reason}")
    runs: dict[str | Path, Run] = {
        out / name_of(choice): run_of(plan.texts, choice) for choice in choices if name_of(choice) not in errors
    }
    with claimed(out, record):
        results = train_many(runs, means.data_dir, means.device, means.display, means.engine, means.at_once)
        errors |= {Path(folder).name: result["error"] for folder, result in results.items() if "error" in result}
        keep_broken(out, errors)
    return [(choice, errors.get(name_of(choice))) for choice in choices]


def propose(plan: SearchPlan, out: Path, means: Means, record: dict[str, Any]) -> Outcomes:
    """What Optuna proposes, one after the other, because each proposal depends on what came of those before."""
    wanted, fits = plan.trials or 0, Fits(plan, means, out)
    if not (out / "search.json").is_file():
        fits.check_any()
    with claimed(out, record), silence():
        trials = Trials(out / "optuna.journal", plan.axes, plan.seed)
        while sum(trial.finished for trial in trials.all()) < wanted:
            fits.check_any()
            trial = trials.next()
            label = f"trial {trial.number + 1} of {wanted}"
            means.display.line(f"{label}: {words(trial.choice)}")
            error = fits.misfit(trial.choice) or broken(plan, trial.choice, out, means)
            score = row_of(plan.axes, trial.choice, out, error)["validation"].get(plan.by)
            trials.tell(trial, score, error)
            best = max((done.score for done in trials.all() if done.score is not None), default=0.0)
            figures = f"{plan.by} {100 * (score or 0):.2f} on validation, best so far {100 * best:.2f}"
            means.display.line(f"{label}: {error or figures}")
        outcomes = {name_of(trial.choice): (trial.choice, trial.error) for trial in trials.all()}
    return list(outcomes.values())  # a choice that was proposed twice is one


def broken(plan: SearchPlan, choice: Choice, out: Path, means: Means) -> str | None:
    """Trains one choice, or finds it trained; returns why there is no result, if there is none."""
    run = run_of(plan.texts, choice)
    try:
        train(run, out / name_of(choice), means.data_dir, means.device, means.display, means.engine)
    except TrainingError as error:
        return str(error)
    return None


class Fits:
    """Whether choices make runs that can begin; data is read once for all that share it."""

    def __init__(self, plan: SearchPlan, means: Means, out: Path) -> None:
        self.plan, self.means, self.out = plan, means, out
        self.known: dict[str, Parts] = {}
        self.checked = False

    def check_any(self) -> None:
        """Refuses to begin where no combination of values and ends of ranges could."""
        if self.checked:
            return
        reasons = []
        for choice in choices_of(self.plan.axes):
            if (reason := self.misfit(choice)) is None:
                self.checked = True
                return
            reasons.append(reason)
        raise InputError(reasons[0])

    def misfit(self, choice: Choice) -> str | None:
        """Why a choice cannot be trained, if so; what has begun is not looked at again."""
        try:
            run = run_of(self.plan.texts, choice)
        except InputError as error:
            return str(error)
        if (self.out / name_of(choice) / "run.json").is_file():
            return None
        if not any(axis.field in DECIDE_DATA for axis in self.plan.axes):
            self.parts(run)  # data that is not there is no fault of the choice
        try:
            self.check(run)
        except InputError as error:
            return str(error)
        return None

    def check(self, run: Run) -> None:
        """Refuses a run that could not begin."""
        parts = self.parts(run)
        if parts.validation is None:
            raise InputError(f"validation = {run.validation:g} holds out none of {parts.total}: give a larger share")
        plain = replace(run, normalize=False)  # whose statistics would be of one image
        load_first(build_model(plain, parts.train), run)
        run.method.start(setting_of(plain, parts))

    def parts(self, run: Run) -> Parts:
        """The data of a run, with the first image in the place of all: only their number and shape count."""
        record = run.record()
        key = json.dumps([record[name] for name in DECIDE_DATA])
        if key not in self.known:
            data_dir = None if self.means.data_dir is None else Path(self.means.data_dir)
            parts = prepare(run, data_dir, str(choose_device(self.means.device)))
            images = parts.train.images[:1].clone().expand_as(parts.train.images)
            self.known[key] = replace(parts, train=replace(parts.train, images=images), test=None)
        return self.known[key]
