"""Finished run -> label issues: the labels of its training set that look wrong, one row a sample, and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.errors import InputError
from orat.core.types import Labels
from orat.data.source import Dataset
from orat.evaluation.accuracy import logits_of
from orat.methods.base import Decision
from orat.noise.judge import DOUBTED, RELIABLE, Verdict, area, found_removed, judge
from orat.noise.matrix import MIN_SAMPLES
from orat.training.cross_fit import cross_fit
from orat.training.load import finished_run, load_model
from orat.training.run_folder import RunFolder
from orat.training.setup import Parts, check_folds, prepare

DIGITS = 6  # of numbers in tables
VERDICT = "verdict_"  # prefix of its tensors in the state of a run
CORNER = "given \\ true"  # of the noise matrix
CROSS_FITTED = "Scores are cross-fitted: the network that scored a sample was not trained on it"
SOURCES = {
    "scout networks and network": f"{CROSS_FITTED}; the trained network adds its score where it is reliable.",
    "held-out networks": f"{CROSS_FITTED}.",
    "network": "Scores are in-sample: the network was trained on these labels and has learned some wrong labels; "
    "--held-out is better, with networks that were not trained on the samples they score.",
}


@dataclass(frozen=True, eq=False)
class LabelIssues:
    """The score of every training label of a run, in the order of its training set."""

    train: Dataset  # the samples with the labels that the run was given
    id: Tensor  # (n,) places in the training set as read
    total: int  # samples in the training set as read
    verdict: Verdict
    log_probs: Tensor  # (n, classes) predictions
    flags: Tensor  # (n,) bool: labels called wrong
    judged_by: str  # a key of SOURCES
    times_cut: Tensor | None = None  # (n,) epochs in which the method removed or relabeled a sample

    def __len__(self) -> int:
        return len(self.id)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of the table, most likely wrong first."""
        columns = self.columns()
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    @property
    def order(self) -> Tensor:
        """The samples by score, most likely wrong first."""
        return self.verdict.score.argsort(descending=True, stable=True)

    @property
    def other(self) -> Labels:
        """The most likely class besides the given label."""
        return self.log_probs.scatter(1, self.train.labels[:, None], -torch.inf).argmax(1)

    @property
    def predicted(self) -> Labels:
        """The predicted class; for flagged and doubted labels, the most likely other class."""
        return torch.where(self.flags | (self.verdict.p_wrong > DOUBTED), self.other, self.verdict.predicted)

    @property
    def mean_loss(self) -> Tensor:
        """The cross-entropy of the prediction, which is averaged over epochs where networks were cross-fitted."""
        return -self.log_probs.gather(1, self.train.labels[:, None]).squeeze(1)

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns, most likely wrong first."""
        order, names, paths = self.order, self.train.classes, self.train.paths
        n = len(order)
        quality = (1 - self.verdict.p_wrong[order]).clamp(0, 1).tolist()
        return {
            "index": self.id[order].tolist(),
            "path": [""] * n if paths is None else [paths[place] for place in order.tolist()],
            "given_label": [names[label] for label in self.train.labels[order].tolist()],
            "predicted_label": [names[label] for label in self.predicted[order].tolist()],
            "label_quality": [round(value, DIGITS) for value in quality],
            "is_label_issue": self.flags[order].tolist(),
            "mean_loss": [round(value, DIGITS) for value in self.mean_loss[order].tolist()],
            "times_cut": [None] * n if self.times_cut is None else self.times_cut[order].tolist(),
            "rank": list(range(1, n + 1)),
        }

    def classes(self) -> list[dict[str, Any]]:
        """One row a class: given labels, estimated wrong labels, the class most confused with, and flagged labels."""
        rows = []
        for label, name in enumerate(self.train.classes):
            group = self.train.labels == label
            given, share = int(group.sum()), 1 - float(self.verdict.noise_matrix[label, label])
            estimate = {"estimated_wrong": round(share * given), "estimated_share": round(share, DIGITS)}
            issues = {"confused_with": self.confused_with(label), "issues": int(self.flags[group].sum())}
            rows.append({"class": name, "given": given} | estimate | issues)
        return rows

    def confused_with(self, label: int) -> str:
        """The true class of most wrong labels of a class; empty where no class stands out."""
        others = self.verdict.noise_matrix[label].clone()
        others[label] = -1
        best, second = others.topk(2).values.tolist()
        stands_out = best > max(second, 0) + 1e-9 and best * int((self.train.labels == label).sum()) >= 1
        return self.train.classes[int(others.argmax())] if stands_out else ""

    def matrix(self) -> dict[str, list[Any]]:
        """The noise matrix by columns: for each given label (row), the share of each true class (column)."""
        names = self.train.classes
        shares = self.verdict.noise_matrix.T.tolist()
        rounded = {name: [round(share, DIGITS) for share in column] for name, column in zip(names, shares, strict=True)}
        return {CORNER: list(names), **rounded}

    def summary(self) -> dict[str, Any]:
        """The numbers of samples and flags, the estimated noise, and the classes."""
        return {
            "samples": len(self),
            "not_judged": self.total - len(self),
            "judged_by": self.judged_by,
            "noise_rate": self.verdict.noise_rate,
            "error": self.verdict.error,
            "reliability": self.verdict.reliability,
            "issues": int(self.flags.sum()),
            "classes": self.classes(),
            "truth": self.truth(),
        }

    def truth(self) -> dict[str, Any] | None:
        """Precision and recall of the flags and AUC of the score, where the true labels are known."""
        wrong = self.train.wrong
        if wrong is None:
            return None
        found = found_removed(self.flags, wrong)
        share, auc = int(wrong.sum()) / len(wrong), area(self.verdict.score, wrong)
        rates = {"precision": found["precision"], "recall": found["recall"], "auc": auc}
        return {"wrong": found["flipped"], "wrong_share": share} | rates

    def notes(self) -> list[str]:
        """The source of the scores, and their limits."""
        lines = [SOURCES[self.judged_by]]
        if self.total > len(self):
            lines.append(f"{self.total - len(self):,} of {self.total:,} samples were not trained on and have no score.")
        counts = torch.bincount(self.train.labels, minlength=len(self.train.classes)).tolist()
        few = [name for name, count in zip(self.train.classes, counts, strict=True) if count < MIN_SAMPLES]
        if few:
            lines.append(f"Classes with fewer than {MIN_SAMPLES} samples have no score: {', '.join(few)}.")
        if self.verdict.reliability < RELIABLE:
            lines.append(
                f"The predictions are unreliable: their reliability is {self.verdict.reliability:.0%}, and flags need "
                f"{RELIABLE:.0%}. Right labels of hard samples have high scores, too."
            )
        return lines


def find_label_issues(
    run_folder: str | Path,
    data_dir: str | Path | None = None,
    device: str = "auto",
    held_out: bool = False,
    folds: int = 5,
    epochs: int | None = None,
    display: Display = SILENT,
) -> LabelIssues:
    """The label issues of a finished run; nothing is changed.

    `held_out` scores the labels by cross-fitted predictions: `folds` quick networks are trained for `epochs` epochs,
    each on all samples but one part.
    """
    check_folds(folds, epochs)
    folder = Path(run_folder)
    run = finished_run(folder)
    parts = prepare(run, None if data_dir is None else Path(data_dir))
    if len(parts.train.classes) < 2:
        raise InputError(f"there is one class, {parts.train.classes[0]}: a label is judged against other classes")
    tensors, labels = saved_tensors(folder, parts), parts.train.labels
    if held_out:
        log_probs = cross_fit(run, parts, folds, epochs, device=device, display=display)
        return issues_of(parts, log_probs, judge(log_probs, labels), "held-out networks")
    if (verdict := saved_verdict(tensors, labels)) is not None:
        found = issues_of(parts, tensors["log_probs"], verdict, "scout networks and network")
    else:
        log_probs = logits_of(load_model(folder, device=device), parts.train).cpu().log_softmax(1)
        found = issues_of(parts, log_probs, judge(log_probs.double().log_softmax(1), labels), "network")
    flags = decision_of(tensors, labels)
    return replace(found, flags=found.flags if flags is None else flags, times_cut=tensors.get("memory.times_cut"))


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
    total = parts.left_out["of"] if parts.left_out else parts.total
    return LabelIssues(parts.train, parts.ids, total, verdict, log_probs, verdict.flagged(), judged_by)
