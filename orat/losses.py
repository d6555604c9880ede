"""Logits and labels in, one number per sample out; nothing is reduced here."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from orat.types import Labels, Logits, PerSample

CW_CONFIDENCE = 50.0  # the paper's CW attack stops caring once a wrong class leads by this much


def cross_entropy(logits: Logits, labels: Labels) -> PerSample:
    """The cross-entropy of each sample."""
    return functional.cross_entropy(logits, labels, reduction="none")


def margin(logits: Logits, labels: Labels) -> PerSample:
    """By how much the best wrong class leads the labeled one; positive where the prediction is wrong."""
    labeled = logits.gather(1, labels[:, None]).squeeze(1)
    return best_other(logits, labels) - labeled


def cw(logits: Logits, labels: Labels) -> PerSample:
    """The margin, capped at a lead of 50, as the paper's CW attack maximizes it."""
    return margin(logits, labels).clamp(max=CW_CONFIDENCE)


def best_other(logits: Logits, labels: Labels) -> Tensor:
    """The largest logit among the classes that are not the labeled one."""
    return logits.scatter(1, labels[:, None], float("-inf")).amax(1)
