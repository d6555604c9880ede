"""Finished run -> label issues: the labels of its training set that look wrong, one row a sample, and a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.errors import InputError
from orat.core.registry import IN_MEMORY, check_trust
from orat.core.types import Labels
from orat.curation.issues import LabelIssues
from orat.curation.predictions import issues_in
from orat.evaluation.accuracy import logits_of
from orat.methods.base import Decision
from orat.noise.judge import Verdict, judge
from orat.training.cross_fit import cross_fit
from orat.training.load import finished_run, load_model
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import Parts, check_folds, prepare

VERDICT = "verdict_"  # prefix of its tensors in the state of a run


def find_label_issues(
    run_folder: str | Path | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    held_out: bool = False,
    folds: int = 5,
    epochs: int | None = None,
    display: Display = SILENT,
    *,
    predictions: Any = None,
    labels: Any = None,
    classes: Sequence[str] | None = None,
    data: Any = None,
    model: Any = None,
    trust: bool = False,
) -> LabelIssues:
    """The label issues of a finished run, or of the predictions of any network for labels; nothing is changed.

    `held_out` scores the labels of a run by cross-fitted predictions: `folds` quick networks are trained for `epochs`
    epochs, each on all samples but one part. `data` and `model` are those of a run that had them in memory or in code;
    `trust` runs the code that the record names. `predictions` are files or arrays of probabilities, log-probabilities
    or logits (n, classes) for `labels`, files or arrays too; `classes` names the columns.
    """
    if (run_folder is None) == (predictions is None) or (labels is None) != (predictions is None):
        raise InputError("give either the folder of a run, or predictions with labels")
    if predictions is not None:
        return issues_in(predictions, labels, classes)
    check_folds(folds, epochs)
    folder = Path(run_folder or "")
    run = given_again(finished_run(folder), "data", data, trust)
    parts = prepare(run, None if data_dir is None else Path(data_dir))
    if len(parts.train.classes) < 2:
        raise InputError(f"there is one class, {parts.train.classes[0]}: a label is judged against other classes")
    tensors = saved_tensors(folder, parts)
    if not held_out:
        return issues_by_run(folder, run, parts, tensors, device=device, model=model, trust=trust)
    run = given_again(run, "model", model, trust)
    log_probs = cross_fit(run, parts, folds, epochs, device=device, display=display)
    return issues_of(parts, log_probs, judge(log_probs, parts.train.labels), "held-out networks")


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


def issues_of(parts: Parts, log_probs: Tensor, verdict: Verdict, judged_by: str) -> LabelIssues:
    """The label issues of a training part by the flags of a verdict."""
    train = parts.train
    total = parts.left_out["of"] if parts.left_out else parts.total
    found = LabelIssues(train.classes, parts.ids, total, verdict, log_probs, verdict.flagged(), judged_by)
    return replace(found, true_labels=train.truth, paths=train.paths, samples=train)
