"""Trains and tests missing trials: several at once on a GPU, one after the other on a CPU."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from orat.attacks import Attack, Threat
from orat.cli.evaluate import first_test_images
from orat.core.console import SILENT, Bar, Display
from orat.core.device import choose_device, commit, hardware
from orat.core.errors import InputError, unknown
from orat.data import catalog as datasets
from orat.data.source import Dataset
from orat.evaluation.accuracy import default_batch
from orat.evaluation.report import Plan, examine
from orat.models.folded import Folded, OneSize
from orat.sweeps.parallel import AT_ONCE, Named, Turn, finished
from orat.training.engine import KINDS
from orat.training.learner import RunLearner
from orat.training.load import load_model
from orat.training.observers import Observer
from orat.training.run_folder import RunFolder
from orat.training.train import Session, training
from orat_paper.outlier_labels import FILE, labels_without_outliers
from orat_paper.reproduce.artifacts import TOYS
from orat_paper.reproduce.clothing import make_clothing
from orat_paper.reproduce.costs import operations
from orat_paper.reproduce.every_epoch import EveryEpoch, NoGuard
from orat_paper.reproduce.outcomes import AUTOATTACK, LAST, broken, is_done, note_end, report_file, unattacked
from orat_paper.reproduce.settings import PRETRAINED, Places, Trial

DAY = 86_400  # seconds


class CompiledSearchers:
    """Compiled folded copies of a network, one per precision, each made for the first attack that searches in it."""

    def __init__(self, model: nn.Module, size: int) -> None:
        self.model, self.size = model, size
        self.made: dict[torch.dtype, OneSize] = {}

    def __call__(self, attack: Attack) -> nn.Module:
        """The copy for this attack: in half precision where good enough, else in float32."""
        dtype = attack.half or torch.float32
        if dtype not in self.made:
            self.made[dtype] = OneSize(Folded(self.model, dtype, pools=True), self.size)
        return self.made[dtype]


@dataclass(frozen=True)
class Execution:
    """How trials are run; no field changes a trial."""

    places: Places
    data_dir: Path | None = None
    device: str = "auto"
    display: Display = SILENT
    engine: str = "auto"
    at_once: int = AT_ONCE
    commit: str | None = None  # for a machine without git
    finished: Callable[[], None] = lambda: None  # called after each trial and after each AutoAttack

    def __post_init__(self) -> None:
        if self.engine not in KINDS:
            raise unknown("engine", self.engine, KINDS)

    @property
    def where(self) -> torch.device:
        """The device."""
        return choose_device(self.device)

    def searchers(self, model: nn.Module, test: Dataset) -> CompiledSearchers | None:
        """Networks for AutoAttack's search, compiled once for all networks of a kind; None without compilation."""
        compiles = self.where.type == "cuda" and self.engine in ("auto", "compiled")
        return CompiledSearchers(model, default_batch(model, test)) if compiles else None

    def origin(self) -> dict[str, Any]:
        """The record of the commit and the hardware."""
        return {"commit": self.commit or commit(), "at_once": self.at_once, **hardware(self.where)}


def run_trials(trials: Sequence[Trial], columns: Sequence[str], execution: Execution) -> dict[Trial, str]:
    """Trains and tests missing trials; returns the errors of trials without a result."""
    missing = [trial for trial in trials if not is_done(trial, columns)]
    execution.display.line(f"{len(trials) - len(missing)} of {len(trials)} cells are finished")
    untrained = unique(trial for trial in missing if RunFolder(trial.folder).result() is None)
    if untrained:
        check_weights(untrained)
        check_data(untrained, execution)
        if any(trial.cell.data == "clothing1m" for trial in untrained):
            make_clothing(execution.places, execution.display)
    errors: dict[Path, str] = {}
    with execution.display.bar() as bar:
        train_filters(untrained, execution, bar, errors)
        train([trial for trial in untrained if trial.folder not in errors], "cells", execution, bar, errors)
    if AUTOATTACK in columns:
        attack([trial for trial in missing if trial.folder not in errors], execution)
    return {trial: errors[trial.folder] for trial in trials if trial.folder in errors}


def unique(trials: Iterable[Trial]) -> list[Trial]:
    """One trial a folder."""
    return list({trial.folder: trial for trial in trials}.values())


def check_weights(trials: Sequence[Trial]) -> None:
    """Refuses random first weights for a trial that starts from given ones."""
    if any(trial.cell.method == PRETRAINED and trial.run.init_from is None for trial in trials):
        raise InputError(f"{PRETRAINED} starts from weights of a robust ImageNet ResNet-18: give --weights FILE")


def check_data(trials: Sequence[Trial], execution: Execution) -> None:
    """Refuses missing data of any trial before the first starts."""
    needed = dict.fromkeys(trial.cell.data for trial in trials)
    missing = missing_data(needed, execution.places, execution.data_dir)
    present = [f"data={name}" for name in needed if name not in missing]
    for message in missing.values():
        raise InputError(message + (f"; or leave it out: --only {','.join(present)}" if present else ""))


def missing_data(names: Iterable[str], places: Places, data_dir: Path | None) -> dict[str, str]:
    """The unusable data sets among these names, each with what to do; public ones are checked by reading them."""
    missing = {one.name: one.message for one in datasets.found(data_dir) if one.status != "found"}
    if not all(places.clothing(kind).is_file() for kind in ("clean", "noisy")):
        missing["clothing1m"] = "Clothing1M comes from its owners only: give its folder as --data clothing1m=FOLDER"
    for name, path in places.data.items():
        missing.pop(name, None)
        if path not in datasets.NAMES and not Path(path).expanduser().exists():
            missing[name] = f"there is no {path}: give the right place as --data {name}=PATH"
    return {name: missing[name] for name in names if name in missing}


def train_filters(trials: Sequence[Trial], execution: Execution, bar: Bar, errors: dict[Path, str]) -> None:
    """Trains the AoRR runs of AT w/o and writes the labels without their outliers; an error passes to AT w/o."""
    filters = unique(trial.before for trial in trials if trial.before)
    untrained = [trial for trial in filters if RunFolder(trial.folder).result() is None]
    train(untrained, "AoRR runs for AT w/o", execution, bar, errors)
    for trial in filters:
        if trial.folder not in errors and not (trial.folder / FILE).is_file():
            labels_without_outliers(trial.folder, execution.data_dir, execution.device)
    for trial in trials:
        if trial.before and trial.before.folder in errors:
            errors[trial.folder] = errors[trial.before.folder]


def train(trials: Sequence[Trial], what: str, execution: Execution, bar: Bar, errors: dict[Path, str]) -> None:
    """Trains trials, with a line after each on the number of finished ones and the time left."""
    before = {trial.folder: reason for trial in trials if (reason := broken(trial))}
    errors |= {folder: f"{reason} (remove {folder / 'broken.json'} to try again)" for folder, reason in before.items()}
    waiting = {trial.folder: trial for trial in trials if trial.folder not in before}
    work = {folder: operations(trial) for folder, trial in waiting.items()}
    started, done, total = time.monotonic(), 0.0, sum(work.values())
    for number, turn in enumerate(turns(waiting.values(), execution), start=1):
        folder = Path(turn.folder)
        trial, label, error = waiting[folder], f"{number} of {len(waiting)} {what}", turn.result.get("error")
        if error is not None:
            errors[folder] = error
        note_end(trial, error, execution.origin())
        execution.finished()
        done += work[folder]
        left = time_words((time.monotonic() - started) * (total - done) / done)
        bar.set(label, done, total)
        execution.display.line(f"{label}: {trial.cell.words()}, {trial.protocol}, seed {trial.seed}; {left} left")


def turns(trials: Iterable[Trial], execution: Execution) -> Iterator[Turn]:
    """The trials, each as soon as finished."""
    at_once = execution.at_once if execution.where.type == "cuda" else 1
    yield from finished((turn_of(trial, execution, at_once) for trial in trials), at_once)


def turn_of(trial: Trial, execution: Execution, at_once: int) -> Turn:
    """A trial ready for its steps; several at once print no lines of epochs."""
    display = Named(SILENT if at_once > 1 else execution.display, trial.folder.name)
    display.console = execution.display.console  # lines go above a bar
    places = trial.folder, execution.data_dir, str(execution.where)
    return Turn(trial.folder, training(trial.run, *places, display, execution.engine, partial(observers, trial)))


def observers(trial: Trial, session: Session, learner: RunLearner) -> list[Observer]:
    """The observers of a trial besides those of every training."""
    if trial.cell.data in TOYS:
        return [NoGuard()]
    return [EveryEpoch(session, learner)] if trial.every_epoch else []


def attack(trials: Sequence[Trial], execution: Execution) -> None:
    """Runs AutoAttack on trained networks, all last epochs first; a stopped attack resumes."""
    trained = [(trial, result) for trial in trials if (result := RunFolder(trial.folder).result())]
    waiting = [(trial, weights) for trial, result in trained for weights in unattacked(trial, result)]
    waiting.sort(key=lambda one: one[1] != LAST)
    compiled_for = None
    for number, (trial, weights) in enumerate(waiting, start=1):
        run = trial.run
        execution.display.line(f"AutoAttack, {number} of {len(waiting)}: {trial.cell.words()}, {weights} epoch")
        model = load_model(trial.folder, weights, str(execution.where))
        test = first_test_images(run.data, execution.data_dir, run.image_size, None)
        plan = Plan(Threat(run.eps, run.norm), (AUTOATTACK,), run.seed)
        folder, searchers = report_file(trial.folder, weights).parent, execution.searchers(model, test)
        if searchers and compiled_for != run.model:  # torch keeps eight forms of a function, too few for two networks
            torch.compiler.reset()
            compiled_for = run.model
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")  # a hint to give up digits
            examine(model, test, plan, folder, execution.display, searchers=searchers)
        execution.finished()


def time_words(seconds: float) -> str:
    """A time in words."""
    return f"{seconds / DAY:,.0f} days" if seconds > 2 * DAY else str(timedelta(seconds=round(seconds)))
