"""Data, a finished run, or predictions -> label issues: one row a sample, and a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.device import choose_device
from orat.core.errors import InputError
from orat.core.registry import IN_MEMORY, check_trust
from orat.core.types import Labels
from orat.curation.issues import LabelIssues, issues_of
from orat.curation.of_data import Judging, is_run, issues_in_data
from orat.curation.predictions import issues_in
from orat.evaluation.accuracy import logits_of
from orat.methods.base import Decision
from orat.noise.judge import Verdict, judge
from orat.training.cross_fit import cross_fit
from orat.training.load import finished_run, load_model
from orat.training.plan import FOLDS, check_folds
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import Parts, prepare

VERDICT = "verdict_"  # prefix of its tensors in the state of a run


def find_label_issues(
    subject: Any = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    held_out: bool = False,
    folds: int = FOLDS,
    epochs: int | None = None,
    display: Display = SILENT,
    *,
    predictions: Any = None,
    labels: Any = None,
    classes: Sequence[str] | None = None,
    data: Any = None,
    model: Any = None,
    trust: bool = False,
    features: Any = None,
    weights: str | Path | None = None,
    out: str | Path | None = None,
) -> LabelIssues:
    """The label issues of data, of a finished run, or of the predictions of any network; nothing is changed.

    `subject` is data as `Run(data=...)` takes them, a `Run` that is not trained, or the folder of a run. Data are
    judged by `folds` scout networks, or by a network of `features` with its `weights`; a search goes on in `out`.
    `held_out` trains scout networks for a run. `data` are data that look like a run; or, with `model`, the objects or
    the code of a run, whose record `trust` permits to run code. `predictions` (n, classes) are files or arrays of
    probabilities, log-probabilities or logits for `labels`; `classes` names the columns.
    """
    check_subject(subject, data, predictions, labels, features)
    if predictions is not None:
        return issues_in(predictions, labels, classes)
    check_folds(folds, epochs)
    place = None if data_dir is None else Path(data_dir)
    if subject is None or not is_run(subject):
        file, folder = (None if path is None else Path(path) for path in (weights, out))
        judging = Judging(choose_device(device), display, folds, epochs, features, file)
        return issues_in_data(data if subject is None else subject, place, judging, labels, folder)
    again = {"data": data, "model": model, "trust": trust}
    if held_out:
        return issues_held_out(Path(subject), place, folds, epochs, device, display, **again)
    return issues_in_run(Path(subject), place, device, **again)


def check_subject(subject: Any, data: Any, predictions: Any, labels: Any, features: Any) -> None:
    """Refuses a call without anything to judge, and predictions beside data or without labels."""
    if predictions is not None and (subject is not None or labels is None):
        raise InputError("give predictions with labels, and neither data nor a run")
    if predictions is None and subject is None and data is None:
        raise InputError("give data, the folder of a run, or predictions with labels")
    if predictions is None and (features is not None or labels is not None) and is_run(subject):
        raise InputError(f"{subject} is a run: leave out features and labels, or give the data of the run")


def issues_in_run(folder: Path, data_dir: Path | None, device: str, data: Any, model: Any, trust: bool) -> LabelIssues:
    """The label issues by what a finished run left."""
    run, parts = run_of(folder, data_dir, data, trust)
    return issues_by_run(folder, run, parts, saved_tensors(folder, parts), device=device, model=model, trust=trust)


def issues_held_out(
    folder: Path,
    data_dir: Path | None,
    folds: int,
    epochs: int | None,
    device: str,
    display: Display,
    data: Any,
    model: Any,
    trust: bool,
) -> LabelIssues:
    """The label issues of a finished run by scout networks of their own."""
    run, parts = run_of(folder, data_dir, data, trust)
    saved_tensors(folder, parts)  # refuses other data
    run = given_again(run, "model", model, trust)
    log_probs = cross_fit(run, parts, folds, epochs, device=device, display=display)
    return issues_of(parts, log_probs, judge(log_probs, parts.train.labels), "held-out networks")


def run_of(folder: Path, data_dir: Path | None, data: Any, trust: bool) -> tuple[Run, Parts]:
    """A finished run and its data."""
    run = given_again(finished_run(folder), "data", data, trust)
    parts = prepare(run, data_dir)
    if len(parts.train.classes) < 2:
        raise InputError(f"there is one class, {parts.train.classes[0]}: a label is judged against other classes")
    return run, parts


def issues_by_run(folder: Path, run: Run, parts: Parts, tensors: Mapping[str, Tensor], **loading: Any) -> LabelIssues:
    """The label issues by the verdict that a run saved, or by its network; flagged is what its method decided."""
    labels = parts.train.labels
    if (verdict := saved_verdict(tensors, labels)) is not None:
        found = issues_of(parts, tensors["log_probs"], verdict, "scout networks and network")
    else:
        given_again(run, "model", loading["model"], loading["trust"])
        log_probs = logits_of(load_model(folder, **loading), parts.train).cpu().log_softmax(1)
        found = issues_of(parts, log_probs, judge(log_probs.double().log_softmax(1), labels), "network")
    flags = decision_of(tensors, labels)
    return replace(found, flags=found.flags if flags is None else flags, times_cut=tensors.get("memory.times_cut"))


def given_again(run: Run, name: str, value: Any, trust: bool) -> Run:
    """The run with the data or model of this call; refuses objects and code that only the record names."""
    if value is not None:
        return replace(run, **{name: value})
    recorded = getattr(run, name)
    if isinstance(recorded, str) and recorded.startswith(IN_MEMORY):
        raise InputError(f"the {name} of the run was {recorded}: give it again, as {name}=..., or --{name} as code")
    check_trust(recorded, name, trust, "either")
    return run


def saved_tensors(folder: Path, parts: Parts) -> dict[str, Tensor]:
    """The state and the cross-fitted predictions of a run; refuses data other than its training data."""
    files = RunFolder(folder)
    result, tensors = files.result() or {}, files.load_tensors("state")
    if files.has_tensors("predictions"):
        tensors |= files.load_tensors("predictions")
    if "id" not in tensors:
        raise InputError(f"{folder} is from an incompatible version of orat: train it again")
    if not torch.equal(tensors["id"], parts.ids) or parts.train.fingerprint() != result["fingerprint"]:
        raise InputError(f"{folder} was trained on other images or labels than are there now: train it again")
    return tensors


def decision_of(tensors: Mapping[str, Tensor], labels: Labels) -> Tensor | None:
    """The labels that the method of a run removed or relabeled at the end; None for a method that does neither."""
    return Decision(tensors["keep"], tensors["labels"]).flagged(labels) if "keep" in tensors else None


def saved_verdict(tensors: Mapping[str, Tensor], labels: Labels) -> Verdict | None:
    """The last verdict of a run of ORAT (automatic); None for any other run."""
    saved = {name: values for name, values in tensors.items() if name.startswith(VERDICT)}
    return Verdict.of(labels, {name.removeprefix(VERDICT): values for name, values in saved.items()}) if saved else None
