"""Predictions of any network and labels -> label issues; no run, no training and no images are needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.types import Labels
from orat.curation.issues import GIVEN, LabelIssues
from orat.data.label_files import LEFT_OUT, Row, labels_in, rows_of
from orat.data.prediction_files import GivenPredictions, read
from orat.noise.judge import judge

TOLERANCE = 0.05  # of the sum of the probabilities of a sample, which may be rounded to two digits
MIXED = 0.05  # share of samples that fit a kind by chance, at most
SHOWN = 10  # class names in a line


def issues_in(predictions: Any, labels: Any, classes: Sequence[str] | None = None) -> LabelIssues:
    """The label issues by predictions (n, classes) for labels: files, arrays or tensors; `classes` names the columns.

    Predictions are probabilities, log-probabilities or logits; their values show which.
    """
    given = read(predictions)
    log_probs, kind = told_apart(given)
    names, numbers, named = read_labels(labels, given, classes)
    kept = (numbers != LEFT_OUT).nonzero().flatten()
    if len(numbers[kept].unique()) < 2:
        raise InputError("the labels are all of one class: a label is judged against other classes")
    verdict = judge(log_probs[kept], numbers[kept])
    found = LabelIssues(names, kept, len(numbers), verdict, log_probs[kept], verdict.flagged(), GIVEN)
    paths = None if given.paths is None else tuple(given.paths[i] for i in kept.tolist())
    return replace(found, paths=paths, remarks=(kind, *named))


def told_apart(given: GivenPredictions) -> tuple[Tensor, str]:
    """The log-probabilities (n, classes) in predictions, and a line that names their kind and the reason."""
    name, values = given.name, given.values
    sums, sums_of_exp = values.sum(1), values.clamp(max=1.0).exp().sum(1)
    positive = (values >= -TOLERANCE).all(1) & ((sums - 1).abs() <= TOLERANCE)
    negative = (values <= TOLERANCE).all(1) & ((sums_of_exp - 1).abs() <= TOLERANCE)
    if all_fit(name, values, positive, "probabilities"):
        return values.clamp(min=0).log().log_softmax(1), f"{name}: taken as probabilities, since rows sum to 1."
    if all_fit(name, values, negative, "log-probabilities"):
        return values.log_softmax(1), f"{name}: taken as log-probabilities, since rows sum to 1 after exp."
    check_logits(name, values, sums)
    return values.log_softmax(1), f"{name}: taken as logits, since rows do not sum to 1, neither before nor after exp."


def all_fit(name: str, values: Tensor, fits: Tensor, kind: str) -> bool:
    """Whether all rows are of a kind; refused where more rows than by chance are, but not all."""
    if not fits.all() and fits.double().mean() > MIXED:
        first = int((~fits).nonzero()[0])
        row = values[first]
        raise InputError(
            f"{name}: {int(fits.sum()):,} of {len(fits):,} rows are {kind}, but sample {first} has values from "
            f"{row.min():.4g} to {row.max():.4g} with the sum {row.sum():.4g}: give one kind for all samples"
        )
    return bool(fits.all())


def check_logits(name: str, values: Tensor, sums: Tensor) -> None:
    """Refuses counts, percentages and scores in [0, 1], which are no logits, and rows without any finite value."""
    if values.isneginf().all(1).any():
        raise InputError(f"{name} has rows of minus infinity alone: predict these samples again")
    if (values >= 0).all() and bool((sums - sums[0]).abs().max() <= TOLERANCE * sums[0]) and sums[0] > 0:
        raise InputError(f"{name}: every row sums to {sums[0]:.4g}: divide by it, to give probabilities")
    if (values >= 0).all() and (values <= 1).all():
        raise InputError(
            f"{name}: values lie in [0, 1], but rows sum to {sums.min():.4g} to {sums.max():.4g}, not to 1: give "
            "probabilities of classes that exclude each other, or logits"
        )


def read_labels(
    labels: Any, given: GivenPredictions, classes: Sequence[str] | None
) -> tuple[tuple[str, ...], Labels, list[str]]:
    """The class names, the labels (n,) with LEFT_OUT for samples without a label, and a line about a guessed order."""
    path, rows = (Path(labels), rows_of(Path(labels))) if isinstance(labels, str | Path) else in_memory(labels)
    columns = given.values.shape[1]
    names, lines = given.classes if classes is None else tuple(classes), list[str]()
    if classes is not None and given.classes not in (None, names):
        lines = [
            f"The columns {shown(given.classes or ())} of {given.name} are taken as {shown(names or ())}, as asked."
        ]
    check_columns(path, rows, columns, names or ())
    is_guess = names is None
    if names is None:
        names, lines = guessed_names(path, rows, columns)
    if len(set(names)) != columns:
        raise InputError(f"there are {len(set(names))} names of classes for {columns} columns: name each column once")
    labels = labels_in(path, rows, len(given.values), names, given.paths)
    if is_guess and lines:
        check_guess(given, labels, names)
    return names, labels, lines


def shown(names: Sequence[str]) -> str:
    """The first names of classes."""
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def check_columns(path: Path, rows: list[Row], columns: int, names: Sequence[str]) -> None:
    """Refuses labels of more classes than there are columns."""
    found = sorted({cells[-1] for _, cells in rows} - {""})
    numbers = all(name.isdigit() for name in found)
    classes = max(map(int, found), default=0) + 1 if numbers else len(found)
    if classes > columns and not set(found) <= set(names):
        words = f"labels up to {classes - 1}, from 0 on" if numbers else f"labels of {classes} classes ({shown(found)})"
        raise InputError(
            f"{path} has {words}, but the predictions have {columns} columns: give a column for each class"
        )


def check_guess(given: GivenPredictions, labels: Labels, names: tuple[str, ...]) -> None:
    """Refuses an order of the columns by which predictions agree with the labels no more than by chance."""
    kept = labels != LEFT_OUT
    predicted, labels = given.values[kept].argmax(1), labels[kept]
    shares = [torch.bincount(values, minlength=len(names)).double() / len(labels) for values in (predicted, labels)]
    agreement, chance = float((predicted == labels).double().mean()), float(shares[0] @ shares[1])
    if agreement <= chance:
        raise InputError(
            f"{given.name} does not name its columns: in the order of the alphabet ({shown(names)}), predictions agree "
            f"with {agreement:.0%} of the labels, by chance {chance:.0%}: give the order as --classes, such as "
            f"--classes {','.join(reversed(names[:SHOWN]))}"
        )


def guessed_names(path: Path, rows: list[Row], columns: int) -> tuple[tuple[str, ...], list[str]]:
    """The class names where predictions have none: the sorted names among the labels, or numbers for numbers."""
    found = sorted({cells[-1] for _, cells in rows} - {""})
    if all(name.removeprefix("-").isdigit() for name in found):
        return tuple(map(str, range(columns))), []
    if len(found) != columns:
        raise InputError(
            f"{path} names {len(found)} classes ({shown(found)}) for {columns} columns of predictions: give the class "
            "names in the order of the columns, as in --classes cat,dog"
        )
    return tuple(found), [f"The columns are taken as the classes in the order of the alphabet: {shown(found)}."]


def in_memory(labels: Any) -> tuple[Path, list[Row]]:
    """The labels of an array, a tensor or a list, as the rows of a file."""
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    texts = array.astype(str) if array.dtype.kind == "O" else array
    if texts.ndim != 1 or texts.dtype.kind not in "iuU":
        raise InputError(f"labels are {array.dtype} of shape {array.shape}: give one class index or name per sample")
    numbers = texts.dtype.kind != "U"
    return Path("labels.npy" if numbers else "labels"), [(f"entry {i}", (str(one),)) for i, one in enumerate(texts)]
