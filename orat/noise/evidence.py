"""The evidence of predictions against given labels: two estimates, and the weight of each.

The model of latent labels is exact where wrong labels depend on the classes, and finds them even if they are the
majority. It fails where a network has learned the mistakes of annotators: calibrated predictions then explain every
given label. The failure shows in the surest predictions, which are right, so that every disagreement is a wrong label.
Where the model finds fewer there, the split of disagreements counts instead.
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
MISSED = (0.05, 0.1)  # share of the disagreements there that the model misses: as sampling makes, as failure makes
FEW = (0.03, 0.07)  # disagreement there: of networks that err at times, of wrong labels
WEAK = (0.31, 0.27)  # mistaken predictions: too many to take the surest as right, few enough
SURE = 1e-6  # chances closer to 0 or 1 count as this close
STEPS = 60  # of bisection


class Evidence(NamedTuple):
    """The judgement of every sample, and the bounds of the noise rate."""

    p_wrong: Tensor  # (n,)
    posterior: Tensor  # (n, classes) chance of each class
    scores: Tensor  # (n, classes) log-probabilities corrected for labels that are usually wrong
    lowest: float
    highest: float


def evidence(log_probs: Tensor, labels: Labels, between: float | None, rate: float | None = None) -> Evidence:
    """The evidence of log-probabilities (n, classes), at a noise rate that is estimated unless given.

    `between` is the share of samples on which independent predictions disagree with each other.
    """
    sizes = torch.bincount(labels, minlength=log_probs.shape[1])
    judged = sizes[labels] >= MIN_SAMPLES
    if int((sizes >= MIN_SAMPLES).sum()) < 2:
        return Evidence(log_probs.new_zeros(len(labels)), log_probs.exp(), log_probs, 0.0, 0.0)
    latent = fit_latent(log_probs[judged], labels[judged])
    order = Order(latent.scores, labels[judged])
    wrong = split(order, between)
    weight = weight_of_split(order, latent, between)
    low, high = float(latent.p_wrong.mean()), float(wrong.mean())
    estimate = low + weight * (high - low) if rate is None else rate
    odds = (weight * wrong.logit(SURE) + latent.p_wrong.logit(SURE)) / (1 + weight)
    p_wrong = log_probs.new_zeros(len(labels)).masked_scatter(judged, shifted(odds, estimate).sigmoid())
    posterior = log_probs.exp().masked_scatter(judged[:, None], latent.posterior)
    return Evidence(p_wrong, posterior, log_probs.masked_scatter(judged[:, None], latent.scores), low, high)


def weight_of_split(order: Order, latent: Latent, between: float | None) -> float:
    """The weight of the split of disagreements, from 0 to 1."""
    surest = order.along < SUREST
    disagree = float(order.disagrees[surest].double().mean())
    missed = (disagree - float(latent.p_wrong[surest].mean())) / max(disagree, SURE)
    if between is None:
        low = float(latent.p_wrong.mean())
        mistaken = (float(order.disagrees.double().mean()) - low) / max(1 - low, SURE)
    else:
        mistaken = TWO_NETWORKS * between
    return between_0_and_1(missed, *MISSED) * between_0_and_1(disagree, *FEW) * between_0_and_1(mistaken, *WEAK)


def between_0_and_1(value: float, zero: float, one: float) -> float:
    """The place of a value on the way from `zero` to `one`, 0 before and 1 behind."""
    return min(max((value - zero) / (one - zero), 0.0), 1.0)


def shifted(log_odds: Tensor, rate: float) -> Tensor:
    """Log-odds moved by a constant, so that the mean probability is the rate."""
    low, high = -4 * log_odds.abs().max() - 30, 4 * log_odds.abs().max() + 30
    for _ in range(STEPS):
        middle = (low + high) / 2
        too_many = (log_odds + middle).sigmoid().mean() > rate
        low, high = torch.where(too_many, low, middle), torch.where(too_many, middle, high)
    return log_odds + (low + high) / 2
