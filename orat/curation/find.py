"""Finished run -> which of its training labels look wrong: a table with one row a sample, and what is in sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.errors import InputError
from orat.core.files import write_table
from orat.data.source import Dataset
from orat.evaluation.accuracy import logits_of
from orat.methods import ORAT
from orat.methods.automatic import cut_in
from orat.methods.ranked_range import RankedRangeLoss
from orat.noise.judge import DOUBTED, RELIABLE, Verdict, judge, score_of
from orat.noise.matrix import MIN_SAMPLES
from orat.noise.truth import area, found_removed
from orat.training.held_out import FOLDS, check_folds, held_out_answers
from orat.training.load import finished_run, load_model
from orat.training.run import Run
from orat.training.run_folder import RunFolder
from orat.training.setup import Parts, prepare, setting_of

DIGITS = 6  # of numbers in tables
CORNER = "given \\ true"  # of the matrix
JUDGES = {
    "scouts": "Scores are cross-fitted: each sample was judged by a network that had not learned it.",
    "scouts and network": "Scores are cross-fitted: each sample was judged by a network that had not learned it; "
    "what the trained network alone takes for wrong was added, if it knows enough.",
    "held-out": "Scores are cross-fitted: each sample was judged by a network that had not learned it.",
    "network": "Scores are in-sample: the network learned these labels, so that wrong ones hide; "
    "--held-out is better, as it asks networks that did not learn them.",
}


@dataclass(frozen=True, eq=False)
class Suspects:
    """What is thought of the label of every sample that a run was trained on, in the order of its training set."""

    train: Dataset  # these samples, with the labels that the run was given
    index: Tensor  # where they lie in the training set as it was read
    total: int  # samples in the training set as it was read
    verdict: Verdict
    other: Tensor  # the best class besides the given one
    mean_loss: Tensor
    cut: Tensor  # which labels are an issue: cut by the method at the end, or rather wrong than right
    times_cut: Tensor | None  # epochs, where they were counted
    judged_by: str  # a key of JUDGES

    @property
    def order(self) -> Tensor:
        """The samples, the most suspicious first."""
        return self.verdict.score.argsort(descending=True, stable=True)

    @property
    def predicted(self) -> Tensor:
        """The class seen; of a label that is thought wrong, another than the given one."""
        doubted = self.cut | (self.verdict.p_wrong > DOUBTED)
        return torch.where(doubted, self.other, self.verdict.predicted)

    def columns(self) -> dict[str, list[Any]]:
        """The table by columns, the most suspicious first."""
        order, names, paths = self.order, self.train.classes, self.train.paths
        n = len(order)
        quality = (1 - self.verdict.p_wrong[order]).clamp(0, 1).tolist()
        return {
            "index": self.index[order].tolist(),
            "path": [""] * n if paths is None else [paths[place] for place in order.tolist()],
            "given_label": [names[label] for label in self.train.labels[order].tolist()],
            "predicted_label": [names[label] for label in self.predicted[order].tolist()],
            "label_quality": [round(value, DIGITS) for value in quality],
            "is_label_issue": self.cut[order].tolist(),
            "mean_loss": [round(value, DIGITS) for value in self.mean_loss[order].tolist()],
            "times_cut": [None] * n if self.times_cut is None else self.times_cut[order].tolist(),
            "rank": list(range(1, n + 1)),
        }

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows of the table, the most suspicious first."""
        columns = self.columns()
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def classes(self) -> list[dict[str, Any]]:
        """One row a class: how many were given it, how many of those seem wrong, and which class most of them are."""
        rows = []
        for label, name in enumerate(self.train.classes):
            own = self.train.labels == label
            given, share = int(own.sum()), 1 - float(self.verdict.noise_matrix[label, label])
            rows.append(
                {
                    "class": name,
                    "given": given,
                    "estimated_wrong": round(share * given),
                    "estimated_share": round(share, DIGITS),
                    "confused_with": self.confused_with(label),
                    "issues": int(self.cut[own].sum()),
                }
            )
        return rows

    def confused_with(self, label: int) -> str:
        """The class that most samples wrongly given this label belong to; nothing where none stands out."""
        others = self.verdict.noise_matrix[label].clone()
        others[label] = -1
        best, second = others.topk(2).values.tolist()
        stands_out = best > max(second, 0) + 1e-9 and best * int((self.train.labels == label).sum()) >= 1
        return self.train.classes[int(others.argmax())] if stands_out else ""

    def matrix(self) -> dict[str, list[Any]]:
        """Of those given a class (row), the share that belongs to each (column), by columns."""
        names = self.train.classes
        shares = {name: self.verdict.noise_matrix[:, label].tolist() for label, name in enumerate(names)}
        rounded = {name: [round(share, DIGITS) for share in column] for name, column in shares.items()}
        return {CORNER: list(names), **rounded}

    def summary(self) -> dict[str, Any]:
        """All of it in a few numbers."""
        return {
            "samples": len(self),
            "not_judged": self.total - len(self),
            "judged_by": self.judged_by,
            "estimated_share": self.verdict.noise_rate,
            "error": self.verdict.error,
            "knowledge": self.verdict.reliability,
            "issues": int(self.cut.sum()),
            "classes": self.classes(),
            "truth": self.truth(),
        }

    def truth(self) -> dict[str, Any] | None:
        """How right the issues and the ranking are, where the true labels are known."""
        wrong = self.train.wrong
        if wrong is None:
            return None
        found = found_removed(self.cut, self.train.flipped)
        return {
            "wrong": found["flipped"],
            "wrong_share": int(wrong.sum()) / len(wrong),
            "precision": found["precision"],
            "recall": found["recall"],
            "auc": area(self.verdict.score, wrong),
        }

    def notes(self) -> list[str]:
        """What one should know before trusting it."""
        lines = [JUDGES[self.judged_by]]
        if self.total > len(self):
            lines.append(
                f"{self.total - len(self):,} of {self.total:,} samples were not trained on and are not judged."
            )
        few = [name for name, count in zip(self.train.classes, counts(self.train), strict=True) if count < MIN_SAMPLES]
        if few:
            lines.append(f"Not judged, as there are fewer than {MIN_SAMPLES} samples: {', '.join(few)}.")
        if self.verdict.reliability < RELIABLE:
            lines.append(
                f"Those asked know too little to be trusted: {self.verdict.reliability:.0%} of what can be known of "
                f"these labels ({RELIABLE:.0%} would do). Right labels of hard samples are among the suspects."
            )
        return lines


def counts(data: Dataset) -> list[int]:
    """How many samples were given each class."""
    return torch.bincount(data.labels.cpu(), minlength=len(data.classes)).tolist()


def suspects(
    run_folder: str | Path,
    data_dir: str | Path | None = None,
    device: str = "auto",
    held_out: bool = False,
    folds: int = FOLDS,
    epochs: int | None = None,
    display: Display = SILENT,
) -> Suspects:
    """Which training labels of a finished run look wrong, the most suspicious first; nothing is changed.

    `held_out` trains quick networks on all but one of `folds` parts each, for `epochs` epochs, to judge that part.
    """
    check_folds(folds, epochs)
    folder = Path(run_folder)
    run = finished_run(folder)
    parts = prepare(run, None if data_dir is None else Path(data_dir), device)
    state = known_state(folder, parts)
    if len(parts.train.classes) < 2:
        raise InputError(f"there is one class, {parts.train.classes[0]}: a label is judged against other classes")
    if held_out:
        answers = held_out_answers(run, parts, folds, epochs, device, display)
        return found_in(parts, answers, judge(answers.double().log_softmax(1), parts.train.labels), "held-out")
    if "answers" in state:
        looks = run.method.looks if isinstance(run.method, ORAT) else ""
        judged_by = {"scout": "scouts", "both": "scouts and network"}.get(looks, "network")
        its_cut, times_cut = cut_in(state), state["times_cut"]
        found = found_in(parts, state["answers"], remembered(state), judged_by)
        return replace(found, cut=its_cut, times_cut=times_cut)
    answers = logits_of(load_model(folder, device=device), parts.train).cpu().log_softmax(1)
    found = found_in(parts, answers, judge(answers.double().log_softmax(1), parts.train.labels), "network")
    cut = own_cut(run, parts, state)
    return found if cut is None else replace(found, cut=cut)


def known_state(folder: Path, parts: Parts) -> dict[str, Tensor]:
    """What the run's method remembered; refuses data that are not those it was trained on."""
    files = RunFolder(folder)
    result, state = files.result() or {}, files.load_tensors("state")
    if not torch.equal(state["index"], parts.index) or parts.train.fingerprint() != result["fingerprint"]:
        raise InputError(f"{folder} was trained on other images or labels than are there now: train it again")
    return state


def own_cut(run: Run, parts: Parts, tensors: dict[str, Tensor]) -> Tensor | None:
    """What the run's method had cut at the end, if it cuts."""
    state = run.method.start(setting_of(run, parts))
    if not isinstance(state, RankedRangeLoss):
        return None
    state.load_state_dict(tensors, strict=False)
    state.set_extra_state({"epochs": run.epochs})
    return state.cut()


def remembered(state: dict[str, Tensor]) -> Verdict:
    """The verdict that automatic ORAT came to."""
    seen, wrong = state["answers"].double().log_softmax(1), state["wrong"].double()
    matrix, rate, error = (state[name].double() for name in ("matrix", "rate", "error"))
    numbers = float(rate), float(error), float(state["known"])
    ranks = score_of(wrong, seen, state["given"])
    return Verdict(state["given"], wrong, ranks, state["looks_like"], state["sure"].double(), matrix, *numbers)


def found_in(parts: Parts, answers: Tensor, verdict: Verdict, judged_by: str) -> Suspects:
    """The verdict on the labels of a training part, by these logarithms of probabilities."""
    given = parts.train.labels
    return Suspects(
        train=parts.train,
        index=parts.index,
        total=parts.left_out["of"] if parts.left_out else parts.total,
        verdict=verdict,
        other=answers.scatter(1, given[:, None], -torch.inf).argmax(1),
        mean_loss=-answers.gather(1, given[:, None]).squeeze(1),
        cut=verdict.p_wrong > DOUBTED,
        times_cut=None,
        judged_by=judged_by,
    )


def headlines(found: Suspects) -> list[str]:
    """The estimate and the count in words, and how right they are where the truth is known."""
    summary = found.summary()
    lines = [
        f"{summary['estimated_share']:.1%} (± {summary['error']:.1%}) of the {len(found):,} labels are estimated "
        f"to be wrong; {summary['issues']:,} samples are taken for it (is_label_issue)."
    ]
    truth = summary["truth"]
    if truth is not None:
        shown = {name: "-" if truth[name] is None else f"{truth[name]:.1%}" for name in ("precision", "recall")}
        auc = "-" if truth["auc"] is None else f"{truth['auc']:.4f}"
        lines.append(
            f"The truth is known: {truth['wrong']:,} labels ({truth['wrong_share']:.1%}) are wrong; of those taken "
            f"for it, {shown['precision']} are (precision), of the wrong ones {shown['recall']} (recall); AUC {auc}."
        )
    return lines


def write_tables(found: Suspects, folder: Path, ending: str = "csv") -> list[Path]:
    """Writes the table of samples (.csv or .parquet), that of classes and the matrix; returns where they are."""
    classes = found.classes()
    tables = {
        folder / f"outliers.{ending}": found.columns(),
        folder / "classes.csv": {name: [row[name] for row in classes] for name in classes[0]},
        folder / "matrix.csv": found.matrix(),
    }
    for path, columns in tables.items():
        write_table(path, columns)
    return list(tables)
