"""The evidence of predictions against given labels: two estimates, and the weight of each.

The model of latent labels (`latent.py`) is exact where wrong labels depend on the classes, even for a majority of wrong
labels. The model fails where a network has learned the mistakes of annotators: calibrated predictions then explain
every given label. The failure shows in the surest predictions, which are right: each disagreement is a wrong label. If
the model finds fewer wrong labels among them, the split of disagreements (`disagreement.py`) counts instead.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from orat.core.types import Labels
from orat.noise.disagreement import TWO_NETWORKS, Order, split
from orat.noise.latent import Latent, fit_latent

MIN_SAMPLES = 20  # samples of a class, below which nothing is estimated
SUREST = 0.1  # share of a predicted class whose predictions are taken as right
# The split of disagreements counts nothing up to the first value, and in full from the second value on.
MISSED = (0.05, 0.1)  # share of the surest disagreements that the model of latent labels misses
BEYOND_CHANCE = (1.0, 3.0)  # the same in standard errors
SEEN = (0.03, 0.07)  # disagreement of the surest predictions
AS_ALL = (0.2, 0.3)  # the same as a share of the disagreement of all predictions: low where networks are mistaken
MISTAKEN = (0.31, 0.28)  # mistaken predictions; with more of them, the surest are not right
CLOSEST = 1e-6  # of a chance to 0 or 1
STEPS = 60  # of bisection


class Evidence(NamedTuple):
    """The judgement of every sample, and both estimates of the noise rate."""

    p_wrong: Tensor  # (n,)
    posterior: Tensor  # (n, classes) chance of each class
    scores: Tensor  # (n, classes) log-probabilities corrected for labels that are usually wrong
    by_latent: float  # noise rate by latent labels
    by_split: float  # noise rate by the split of disagreements


def evidence(log_probs: Tensor, labels: Labels, between: float | None, rate: float | None = None) -> Evidence:
    """The evidence of log-probabilities (n, classes), at a noise rate that is estimated unless given.

    `between` is the share of samples on which independent predictions disagree with each other.
    """
    sizes = torch.bincount(labels, minlength=log_probs.shape[1])
    judged = sizes[labels] >= MIN_SAMPLES
    if int((sizes >= MIN_SAMPLES).sum()) < 2:
        return Evidence(log_probs.new_zeros(len(labels)), log_probs.exp(), log_probs, 0.0, 0.0)
    latent = fit_latent(log_probs[judged], labels[judged])
    order = Order.of(latent.scores, labels[judged])
    wrong = split(order, between)
    weight = weight_of_split(order, latent, between)
    low, high = float(latent.p_wrong.mean()), float(wrong.mean())
    estimate = low + weight * (high - low) if rate is None else rate
    odds = (weight * wrong.logit(CLOSEST) + latent.p_wrong.logit(CLOSEST)) / (1 + weight)
    p_wrong = log_probs.new_zeros(len(labels)).masked_scatter(judged, shifted(odds, estimate).sigmoid())
    posterior = log_probs.exp().masked_scatter(judged[:, None], latent.posterior)
    return Evidence(p_wrong, posterior, log_probs.masked_scatter(judged[:, None], latent.scores), low, high)


def weight_of_split(order: Order, latent: Latent, between: float | None) -> float:
    """The weight of the split of disagreements, from 0 to 1."""
    surest = order.along < SUREST
    disagree = float(order.disagrees[surest].double().mean())
    missed = disagree - float(latent.p_wrong[surest].mean())
    chance = (disagree * (1 - disagree) / max(int(surest.sum()), 1)) ** 0.5
    if between is None:
        low = float(latent.p_wrong.mean())
        mistaken = (float(order.disagrees.double().mean()) - low) / max(1 - low, CLOSEST)
    else:
        mistaken = TWO_NETWORKS * between
    is_missed = ramp(missed / max(disagree, CLOSEST), *MISSED) * ramp(missed / max(chance, CLOSEST), *BEYOND_CHANCE)
    is_seen = ramp(disagree, *SEEN) * ramp(disagree / max(float(order.disagrees.double().mean()), CLOSEST), *AS_ALL)
    return is_missed * is_seen * ramp(mistaken, *MISTAKEN)


def ramp(value: float, zero: float, one: float) -> float:
    """0 up to `zero`, 1 from `one` on, and linear between them."""
    return min(max((value - zero) / (one - zero), 0.0), 1.0)


def shifted(log_odds: Tensor, rate: float) -> Tensor:
    """Log-odds moved by a constant, so that the mean probability is the rate."""
    low, high = -4 * log_odds.abs().max() - 30, 4 * log_odds.abs().max() + 30
    for _ in range(STEPS):
        middle = (low + high) / 2
        too_many = (log_odds + middle).sigmoid().mean() > rate
        low, high = torch.where(too_many, low, middle), torch.where(too_many, middle, high)
    return log_odds + (low + high) / 2
