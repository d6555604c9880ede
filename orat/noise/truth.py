"""How right flags, removals and corrections are, where the true labels are known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from orat.data.source import Dataset


def found_corrections(used: Tensor, train: Dataset) -> dict[str, Any]:
    """How many labels were changed, and, where the truth is known, how many of those rightly."""
    used = used.to(train.labels.device)
    changed = used != train.labels
    size = int(changed.sum())
    found: dict[str, Any] = {"changed": size, "of": len(train)}
    if train.truth is not None and train.wrong is not None:
        rightly, wrong = int((changed & (used == train.truth)).sum()), int(train.wrong.sum())
        found |= {"rightly": rightly, "harmed": int((changed & ~train.wrong).sum()), "flipped": wrong}
        found |= {"precision": rightly / size if size else None, "recall": rightly / wrong if wrong else None}
    return found


LOST = 0.02  # share of a class's samples; a class of which no more is left is not learned


def found_outliers(cut: Tensor, train: Dataset) -> dict[str, int | float | None]:
    """How many samples were cut as outliers, and, where the truth is known, how rightly."""
    size = int(cut.sum())
    found: dict[str, int | float | None] = {"cut": size, "of": len(train)}
    if train.wrong is not None:
        hits, wrong = int((cut.cpu() & train.wrong).sum()), int(train.wrong.sum())
        found |= {"flipped": wrong, "flipped_and_cut": hits}
        found |= {"precision": hits / size if size else None, "recall": hits / wrong if wrong else None}
    return found


def lost_classes(cut: Tensor, train: Dataset) -> list[str]:
    """The classes of which nearly every sample is cut, so that the network does not learn them."""
    labels, classes = train.labels, len(train.classes)
    there, left = labels.bincount(minlength=classes), labels[~cut.cpu()].bincount(minlength=classes)
    lost = (there > 0) & (left <= LOST * there)
    return [train.classes[place] for place in lost.nonzero().flatten().tolist()]


def area(score: Tensor, wrong: Tensor) -> float | None:
    """The chance that a wrong label scores above a right one (the area under the ROC curve); ties count half."""
    high, low = score[wrong], score[~wrong].sort().values
    if not len(high) or not len(low):
        return None
    below, up_to = (torch.searchsorted(low, high, right=right).double() for right in (False, True))
    return float((below + up_to).mean() / (2 * len(low)))
