"""Decisions on labels compared with the true labels, where these are known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from orat.core.types import Labels

LOST = 0.02  # share of a class, at or below which the samples left are too few to learn the class


def found_removed(removed: Tensor, wrong: Tensor | None) -> dict[str, int | float | None]:
    """The number of removed samples; with the mask of wrong labels also precision and recall."""
    size = int(removed.sum())
    found: dict[str, int | float | None] = {"cut": size, "of": len(removed)}
    if wrong is None:
        return found
    hits, flipped = int((removed.to(wrong.device) & wrong).sum()), int(wrong.sum())
    return found | {"flipped": flipped, "flipped_and_cut": hits} | rates(hits, size, flipped)


def found_corrections(learned: Labels, given: Labels, truth: Labels | None) -> dict[str, Any]:
    """The number of changed labels; with the true labels also precision, recall and the right labels made wrong."""
    learned = learned.to(given.device)
    changed = learned != given
    size = int(changed.sum())
    found: dict[str, Any] = {"changed": size, "of": len(given)}
    if truth is None:
        return found
    wrong, rightly = given != truth, int((changed & (learned == truth)).sum())
    flipped, harmed = int(wrong.sum()), int((changed & ~wrong).sum())
    return found | {"rightly": rightly, "harmed": harmed, "flipped": flipped} | rates(rightly, size, flipped)


def rates(hits: int, found: int, wrong: int) -> dict[str, float | None]:
    """Precision and recall; None where nothing is found, or nothing is wrong."""
    return {"precision": hits / found if found else None, "recall": hits / wrong if wrong else None}


def lost_classes(removed: Tensor, labels: Labels) -> list[int]:
    """The classes of which nearly every sample is removed."""
    kept = labels[~removed.to(labels.device)]
    before, left = (part.bincount(minlength=int(labels.max()) + 1) for part in (labels, kept))
    return ((before > 0) & (left <= LOST * before)).nonzero().flatten().tolist()


def area(score: Tensor, wrong: Tensor) -> float | None:
    """The area under the ROC curve: the probability that a wrong label scores above a right one, ties counting half."""
    high, low = score[wrong], score[~wrong].sort().values
    if not len(high) or not len(low):
        return None
    below, up_to = (torch.searchsorted(low, high, right=right).double() for right in (False, True))
    return float((below + up_to).mean() / (2 * len(low)))
