"""Runs what is missing: several trials at once on a GPU, one after the other on a CPU; what is done is skipped."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import nn

from orat.cli.subjects import first_test_images
from orat.core.console import SILENT, Bar, Display
from orat.core.device import choose_device
from orat.core.errors import InputError, unknown
from orat.core.provenance import commit, hardware
from orat.data import catalog as datasets
from orat.data.source import Dataset
from orat.attacks.threat import Threat
from orat.evaluation.accuracy import default_batch
from orat.evaluation.report import Plan, examine
from orat.evaluation.searchers import CompiledSearchers
from orat.sweeps.parallel import AT_ONCE, Named, Sitting, finished
from orat.training.engine import KINDS
from orat.training.load import load_model
from orat.training.run_folder import RunFolder
from orat_paper.reproduce.artifacts import TOYS
from orat_paper.reproduce.clothing import make_clothing
from orat_paper.reproduce.costs import operations
from orat_paper.reproduce.every_epoch import EveryEpochSitting, PatientSitting
from orat_paper.reproduce.outcomes import AUTOATTACK, LAST, broken, is_done, note_end, report_file, unattacked
from orat_paper.reproduce.settings import PRETRAINED, Places, Trial

DAY = 86_400  # seconds


@dataclass(frozen=True)
class Means:
    """With what trials are trained; it decides nothing about them."""

    places: Places
    data_dir: Path | None = None
    device: str = "auto"
    display: Display = SILENT
    engine: str = "auto"
    at_once: int = AT_ONCE
    commit: str | None = None  # where git does not know it

    def __post_init__(self) -> None:
        if self.engine not in KINDS:
            raise unknown("engine", self.engine, KINDS)

    @property
    def where(self) -> torch.device:
        """The device itself."""
        return choose_device(self.device)

    def searchers(self, model: nn.Module, test: Dataset) -> CompiledSearchers | None:
        """What AutoAttack searches with: compiled once for all networks of a kind on a GPU, if that is wanted."""
        compiles = self.where.type == "cuda" and self.engine in ("auto", "compiled")
        return CompiledSearchers(model, default_batch(model, test)) if compiles else None

    def origin(self) -> dict[str, Any]:
        """What is noted of where a trial was trained."""
        return {"commit": self.commit or commit(), "at_once": self.at_once, **hardware(self.where)}


def carry_out(trials: Sequence[Trial], columns: Sequence[str], means: Means) -> dict[Trial, str]:
    """Trains and tests what is missing; returns why trials have no result, where they have none."""
    missing = [trial for trial in trials if not is_done(trial, columns)]
    means.display.line(f"{len(trials) - len(missing)} of {len(trials)} cells are done already")
    untrained = unique(trial for trial in missing if RunFolder(trial.folder).result() is None)
    first = unique(trial.before for trial in untrained if trial.before)
    first = [trial for trial in first if RunFolder(trial.folder).result() is None]
    if untrained:
        check_weights(untrained)
        check_data(untrained, means)
        if any(trial.cell.data == "clothing1m" for trial in untrained):
            make_clothing(means.places, means.display)
    errors: dict[Path, str] = {}
    with means.display.bar() as bar:
        train(first, "first runs of AT w/o", means, bar, errors)
        for trial in untrained:
            if trial.before and trial.before.folder in errors:
                errors[trial.folder] = errors[trial.before.folder]
        train([trial for trial in untrained if trial.folder not in errors], "cells", means, bar, errors)
    if AUTOATTACK in columns:
        attack([trial for trial in missing if trial.folder not in errors], means)
    return {trial: errors[trial.folder] for trial in trials if trial.folder in errors}


def unique(trials: Iterable[Trial]) -> list[Trial]:
    """One trial a folder."""
    return list({trial.folder: trial for trial in trials}.values())


def check_weights(trials: Sequence[Trial]) -> None:
    """Refuses to begin from random weights where others are meant."""
    if any(trial.cell.method == PRETRAINED and trial.run.init_from is None for trial in trials):
        raise InputError(f"{PRETRAINED} starts from weights of a robust ImageNet ResNet-18: give --weights FILE")


def check_data(trials: Sequence[Trial], means: Means) -> None:
    """Refuses to begin where the data of any trial is not there: a later one would stop all."""
    needed = dict.fromkeys(trial.cell.data for trial in trials)
    missing = missing_data(needed, means.places, means.data_dir)
    there = [f"data={name}" for name in needed if name not in missing]
    for message in missing.values():
        raise InputError(message + (f"; or do without it: --only {','.join(there)}" if there else ""))


def missing_data(names: Iterable[str], places: Places, data_dir: Path | None) -> dict[str, str]:
    """Which of these data sets cannot be used, and why; a public one is found by reading it."""
    missing = {one.name: one.message for one in datasets.found(data_dir) if one.status != "found"}
    if not all(places.clothing(kind).is_file() for kind in ("clean", "noisy")):
        missing["clothing1m"] = "Clothing1M is given out by its owners: give its folder as --data clothing1m=FOLDER"
    for name, path in places.data.items():
        missing.pop(name, None)
        if path not in datasets.NAMES and not Path(path).expanduser().exists():
            missing[name] = f"there is no {path}: give the right place as --data {name}=PATH"
    return {name: missing[name] for name in names if name in missing}


def train(trials: Sequence[Trial], what: str, means: Means, bar: Bar, errors: dict[Path, str]) -> None:
    """Trains trials, and tells after each how many are done and how long the others will take."""
    before = {trial.folder: reason for trial in trials if (reason := broken(trial))}
    errors |= {folder: f"{reason} (remove {folder / 'broken.json'} to try again)" for folder, reason in before.items()}
    waiting = {trial.folder: trial for trial in trials if trial.folder not in before}
    work = {folder: operations(trial) for folder, trial in waiting.items()}
    started, done, total = time.monotonic(), 0.0, sum(work.values())
    for number, sitting in enumerate(sittings(waiting.values(), means), start=1):
        folder = Path(sitting.folder)
        trial, label = waiting[folder], f"{number} of {len(waiting)} {what}"
        if sitting.error is not None:
            errors[folder] = sitting.error
        note_end(trial, sitting.error, means.origin())
        done += work[folder]
        left = time_words((time.monotonic() - started) * (total - done) / done)
        bar.set(label, done, total)
        means.display.line(f"{label}: {trial.cell.words()}, {trial.protocol}, seed {trial.seed}; {left} left")


def sittings(trials: Iterable[Trial], means: Means) -> Iterator[Sitting]:
    """Trials as they end."""
    at_once = means.at_once if means.where.type == "cuda" else 1
    yield from finished((sitting_of(trial, means, at_once) for trial in trials), at_once)


def sitting_of(trial: Trial, means: Means, at_once: int) -> Sitting:
    """A trial, ready to go on; of several at once, no lines of epochs."""
    display = Named(SILENT if at_once > 1 else means.display, trial.folder.name)
    display.console = means.display.console  # so that lines stand above a bar
    kind = PatientSitting if trial.cell.data in TOYS else EveryEpochSitting if trial.every_epoch else Sitting
    return kind(trial.folder, trial.run, means.data_dir, means.where, display, means.engine)


def attack(trials: Sequence[Trial], means: Means) -> None:
    """Runs AutoAttack on trained networks, those of all last epochs first; a stopped one goes on from its journal."""
    trained = [(trial, result) for trial in trials if (result := RunFolder(trial.folder).result())]
    waiting = [(trial, weights) for trial, result in trained for weights in unattacked(trial, result)]
    waiting.sort(key=lambda one: one[1] != LAST)
    compiled_for = None
    for number, (trial, weights) in enumerate(waiting, start=1):
        run = trial.run
        means.display.line(f"AutoAttack, {number} of {len(waiting)}: {trial.cell.words()}, {weights} epoch")
        model = load_model(trial.folder, weights, str(means.where))
        test = first_test_images(run.data, means.data_dir, run.image_size, None)
        plan = Plan(Threat(run.eps, run.norm), (AUTOATTACK,), run.seed)
        folder, searchers = report_file(trial.folder, weights).parent, means.searchers(model, test)
        if searchers and compiled_for != run.model:  # torch keeps eight forms of a function: too few for two networks
            torch.compiler.reset()
            compiled_for = run.model
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")  # a hint to give up digits
            examine(model, test, plan, folder, means.display, searchers=searchers)


def time_words(seconds: float) -> str:
    """A time for people."""
    return f"{seconds / DAY:,.0f} days" if seconds > 2 * DAY else str(timedelta(seconds=round(seconds)))
