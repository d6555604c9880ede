"""Label issues: the labels that look wrong, one row a sample, and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from orat.core.types import Labels
from orat.data.source import Dataset, Source
from orat.methods.automatic import average
from orat.noise.evidence import MIN_SAMPLES
from orat.noise.judge import DOUBTED, Verdict
from orat.noise.truth import area, found_removed
from orat.training.setup import Parts

DIGITS = 6  # of numbers in tables
CORNER = "given \\ true"  # of the noise matrix
CROSS_FITTED = "Scores are cross-fitted: the network that scored a sample was not trained on it"
GIVEN = "given predictions"
SOURCES = {
    "scout networks and network": f"{CROSS_FITTED}; the trained network adds its score where it is reliable.",
    "held-out networks": f"{CROSS_FITTED}.",
    "patches": f"{CROSS_FITTED}; a linear head on patches of the images.",
    "features": f"{CROSS_FITTED}; a linear head and neighbors on the given features. They are right only if the "
    "network of the features was not trained on these labels.",
    "network": "Scores are in-sample: the network was trained on these labels and has learned some wrong labels; "
    "--held-out is better, with networks that were not trained on the samples they score.",
    GIVEN: "Scores come from the given predictions. They are right only if no network was trained on the samples that "
    "it predicted: a network agrees with wrong labels that it has learned.",
}

MORE = "Give more samples or more epochs."
REMEDIES = {
    "scout networks and network": "Give more samples, or more epochs (--scout-epochs in a training), or --held-out.",
    "network": "Try --held-out, or train by --method orat.",
    GIVEN: "Give predictions of a better network, or check that their columns and rows belong to these labels.",
}


@dataclass(frozen=True, eq=False)
class LabelIssues:
    """The score of every label, in the order of the samples."""

    names: tuple[str, ...]  # of the classes
    id: Tensor  # (n,) places in the data set as read
    total: int  # samples in the training part as read
    verdict: Verdict
    log_probs: Tensor  # (n, classes) predictions
    flags: Tensor  # (n,) bool: labels called wrong
    judged_by: str  # a key of SOURCES
    true_labels: Labels | None = None  # (n,) if known
    paths: tuple[str, ...] | None = None  # of the samples
    samples: Source | None = None  # for pictures, if there are any
    times_cut: Tensor | None = None  # (n,) epochs in which the method removed or relabeled a sample
    remarks: tuple[str, ...] = ()  # about the predictions as read
    tested: int = 0  # samples of the test part, which no run judges

    def __len__(self) -> int:
        return len(self.id)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of the table, most likely wrong first."""
        columns = self.columns()
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    @property
    def lines(self) -> tuple[int, ...] | None:
        """The lines of the samples in the file of a table."""
        return self.samples.lines if isinstance(self.samples, Dataset) else None

    @property
    def labels(self) -> Labels:
        """The labels as given."""
        return self.verdict.labels

    @property
    def order(self) -> Tensor:
        """The samples by score, most likely wrong first."""
        return self.verdict.score.argsort(descending=True, stable=True)

    @property
    def other(self) -> Labels:
        """The most likely class besides the given label."""
        return self.log_probs.scatter(1, self.labels[:, None], -torch.inf).argmax(1)

    @property
    def predicted(self) -> Labels:
        """The predicted class; for flagged and doubted labels, the most likely other class."""
        return torch.where(self.flags | (self.verdict.p_wrong > DOUBTED), self.other, self.verdict.predicted)

    @property
    def mean_loss(self) -> Tensor:
        """The cross-entropy of the prediction, which is averaged over epochs where networks were cross-fitted."""
        return -self.log_probs.gather(1, self.labels[:, None]).squeeze(1)

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns, most likely wrong first."""
        order, names, paths, lines = self.order, self.names, self.paths, self.lines
        n = len(order)
        quality = (1 - self.verdict.p_wrong[order]).clamp(0, 1).tolist()
        return {
            "index": self.id[order].tolist(),
            "line": [None] * n if lines is None else [lines[place] for place in order.tolist()],
            "path": [""] * n if paths is None else [paths[place] for place in order.tolist()],
            "given_label": [names[label] for label in self.labels[order].tolist()],
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
        for label, name in enumerate(self.names):
            group = self.labels == label
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
        stands_out = best > max(second, 0) + 1e-9 and best * int((self.labels == label).sum()) >= 1
        return self.names[int(others.argmax())] if stands_out else ""

    def matrix(self) -> dict[str, list[Any]]:
        """The noise matrix by columns: for each given label (row), the share of each true class (column)."""
        names = self.names
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
            "unreliable": self.verdict.reason,
            "issues": int(self.flags.sum()),
            "classes": self.classes(),
            "truth": self.truth(),
        }

    def truth(self) -> dict[str, Any] | None:
        """Precision and recall of the flags and AUC of the score, where the true labels are known."""
        if self.true_labels is None:
            return None
        wrong = self.labels != self.true_labels
        found = found_removed(self.flags, wrong)
        share, auc = int(wrong.sum()) / len(wrong), area(self.verdict.score, wrong)
        rates = {"precision": found["precision"], "recall": found["recall"], "auc": auc}
        return {"wrong": found["flipped"], "wrong_share": share} | rates

    @property
    def refusal(self) -> str | None:
        """The reason and the remedy where predictions are too unreliable to call labels wrong."""
        reason = self.verdict.reason
        return reason and f"These predictions cannot judge the labels: {reason}. {REMEDIES.get(self.judged_by, MORE)}"

    def unjudged(self) -> list[str]:
        """The numbers of samples without a score, and how they get one."""
        lines, left = [], self.total - len(self)
        if left and self.judged_by == GIVEN:
            lines.append(f"Not judged: {left:,} of {self.total:,} samples, which have no label.")
        elif left:
            lines.append(
                f"Not judged: {left:,} of {self.total:,} samples of the training part, which the run held out for "
                "validation or left out. A run with --validation 0 judges the former."
            )
        if self.tested:
            how = ": give all rows train in a column `split`." if self.lines else "."
            lines.append(f"Not judged: {self.tested:,} samples of the test part. A run that trains on them does{how}")
        return lines

    def notes(self) -> list[str]:
        """The source of the scores, and their limits."""
        lines = [*self.remarks, SOURCES[self.judged_by]]
        lines += self.unjudged()
        counts = torch.bincount(self.labels, minlength=len(self.names)).tolist()
        few = [name for name, count in zip(self.names, counts, strict=True) if count < MIN_SAMPLES]
        if few:
            lines.append(f"Classes with fewer than {MIN_SAMPLES} samples have no score: {', '.join(few)}.")
        return lines


def issues_of(parts: Parts, log_probs: Tensor, verdict: Verdict, judged_by: str) -> LabelIssues:
    """The label issues of a training part by the flags of a verdict."""
    train = parts.train
    total = parts.left_out["of"] if parts.left_out else parts.total
    found = LabelIssues(train.classes, parts.ids, total, verdict, average(log_probs), verdict.flagged(), judged_by)
    return replace(found, true_labels=train.truth, paths=train.paths, samples=train, tested=len(parts.test or ()))
