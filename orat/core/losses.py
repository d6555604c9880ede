"""Logits and labels in, one number per sample out, and weights for such numbers; nothing is reduced here."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from orat.core.types import Labels, Logits, PerSample

CW_CONFIDENCE = 50.0  # the paper's CW attack stops caring once a wrong class leads by this much
BOOST_FLOOR = 1.0001 + 1e-12  # MART's 1 in log(1 - p), so that a sure wrong class costs a finite price
TINY = 1e-12  # keeps a ratio of logits finite where all are equal


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


def probability(logits: Logits, labels: Labels) -> PerSample:
    """The probability of the labeled class."""
    return logits.softmax(1).gather(1, labels[:, None]).squeeze(1)


def probability_margin(logits: Logits, labels: Labels) -> PerSample:
    """By how much the labeled class leads the best other one in probability, from -1 to 1; positive where right."""
    return -margin(logits.softmax(1), labels)


def boosted_cross_entropy(logits: Logits, labels: Labels) -> PerSample:
    """Cross-entropy, and the price of the probability of the best wrong class (Wang et al., 2020)."""
    return cross_entropy(logits, labels) - (BOOST_FLOOR - best_other(logits.softmax(1), labels)).log()


def divergence(logits: Logits, others: Logits) -> PerSample:
    """The Kullback-Leibler divergence of the distribution of the other logits from that of the first."""
    log_p, log_q = logits.log_softmax(1), others.log_softmax(1)
    return (log_p.exp() * (log_p - log_q)).sum(1)


def mean_one(log_weights: PerSample) -> PerSample:
    """Weights of these logarithms, scaled so that their mean is 1, however small they all are."""
    return len(log_weights) * log_weights.softmax(0)


def dlr(logits: Logits, labels: Labels) -> PerSample:
    """The difference-of-logits ratio (Croce & Hein, 2020): the margin over the gap of the first to the third logit.

    There is no third logit with two classes: the margin itself is used, which ascends in the same direction.
    """
    if logits.shape[1] < 3:
        return margin(logits, labels)
    top = logits.topk(3, dim=1).values
    return margin(logits, labels) / (top[:, 0] - top[:, 2] + TINY)


def dlr_targeted(logits: Logits, labels: Labels, targets: Labels) -> PerSample:
    """The lead of the target class over the labeled one, over the gap of the first to the mean of third and fourth.

    With three classes the third logit stands for the fourth too; with two there is neither, and no division.
    """
    lead = (logits.gather(1, targets[:, None]) - logits.gather(1, labels[:, None])).squeeze(1)
    if logits.shape[1] < 3:
        return lead
    top = logits.topk(min(4, logits.shape[1]), dim=1).values
    return lead / (top[:, 0] - 0.5 * (top[:, 2] + top[:, -1]) + TINY)
