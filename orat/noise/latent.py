"""A model of wrong labels: every sample has a latent label, and the given label is a noisy copy.

The chance of each latent label follows from the prediction. The chance of each wrong label has two parts: a rate for
each pair of classes, and a part that grows near the border of both classes. The score of a class rises with the
agreement of the prediction and the usual labels of the class, so that a majority of wrong labels is recognized. All
parts are fitted to the given labels by maximum likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log
from typing import NamedTuple

import torch
from torch import Tensor

from orat.core.types import Labels

MOST_FITTED = 25_000  # samples that the parameters are fitted to
MOST_TRIED = 6_000  # samples that decide which start is worth fitting
RARE = -3.0  # log-rate of wrong labels, to start from
SURE = 0.2  # share of the samples predicted as a class, the surest, whose labels count as usual for the class
PSEUDO = 0.5  # samples added to each count
FAINTEST, STRONGEST = 0.001, 0.9  # odds to start from
SHARP = 2.0  # sharpness to start from where labels are usually wrong
LIKELY_SHARP = 3.0  # sharpness before the data speak: a network is surer of the right class than of a noisy label
BORDER = 0.4  # sharpness of mistakes near a border, relative to that of the latent label
NEIGHBORS = 0.1  # scale of the free part of the class scores
STEEPEST = 30.0  # exponent at most
ROUNDS, TRIAL_ROUNDS = 80, 30  # of L-BFGS
RIDGE_RATES, RIDGE_NEIGHBORS, RIDGE_PRIOR, RIDGE_USUAL, RIDGE_SHARPNESS, RIDGE_BORDER = 0.5, 5.0, 2.0, 1.0, 1.0, 0.05
POOR = 0.25  # mistaken predictions from which many mistakes near borders are no explanation: every border is near
LOST = 0.2  # latent labels of a class, relative to its given labels, below which the class counts as lost
KEEPING = 0.03  # weight of the squared log-frequencies of latent labels, relative to given ones, once a class is lost
RARE_BORDER, USUAL_BORDER, MOST_BORDER = -3.0, 1.5, 2.0  # log-weight of mistakes near a border: of scripts, of people


class Latent(NamedTuple):
    """The fitted model, for every sample."""

    posterior: Tensor  # (n, classes) chance of each latent label, by prediction and given label
    scores: Tensor  # (n, classes) log-probabilities corrected for labels that are usually wrong
    p_wrong: Tensor  # (n,)


class Rates(NamedTuple):
    """The parameters."""

    level: Tensor  # () of wrong labels, a logit
    pairs: Tensor  # (classes, classes) of each wrong label (column) of a latent label (row), beyond the level
    prior: Tensor  # (classes,)
    neighbors: Tensor  # (classes, classes) free part of the class scores
    sharpness: Tensor  # () logarithm
    usual: Tensor  # () weight of the labels that samples of a class usually get
    border: Tensor  # () log-weight of mistakes near a border, not yet bounded


def fit_latent(log_probs: Tensor, labels: Labels) -> Latent:
    """The model of these log-probabilities (n, classes) and given labels; the temperature of predictions is fitted."""
    z = tempered(log_probs, labels)
    part = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[:MOST_FITTED].to(labels.device)
    rates = fitted(z[part], labels[part])
    joint = joint_chances(rates, z, labels)
    posterior = joint / joint.sum(1, keepdim=True).clamp(min=1e-300)
    scores = corrected(rates, z).log_softmax(1)
    return Latent(posterior, scores, 1 - posterior.gather(1, labels[:, None]).squeeze(1))


def tempered(log_probs: Tensor, labels: Labels) -> Tensor:
    """Log-probabilities at the temperature that explains the given labels best."""
    sharpness = log_probs.new_zeros(())
    (sharpness,) = minimized([sharpness], lambda s: torch.nn.functional.cross_entropy(s.exp() * log_probs, labels))
    return (sharpness.exp() * log_probs).log_softmax(1)


def fitted(z: Tensor, labels: Labels) -> Rates:
    """The parameters of the highest likelihood; where a class gets lost, those that also keep all classes."""
    rates = likeliest(z, labels, 0.0)
    kept = frequencies(joint_chances(rates, z, labels), labels)
    return likeliest(z, labels, KEEPING) if bool((kept < LOST).any()) else rates


def likeliest(z: Tensor, labels: Labels, keeping: float) -> Rates:
    """The parameters of the highest likelihood: the best start with few and with many mistakes near borders."""
    few, found = slice(MOST_TRIED), []
    for border in (RARE_BORDER, USUAL_BORDER):
        begun = [start._replace(border=start.border + border) for start in starts(z, labels)]
        tried = [fit_from(start, z[few], labels[few], TRIAL_ROUNDS, keeping) for start in begun]
        best = min(tried, key=lambda rates: float(surprise(rates, z[few], labels[few], keeping)))
        found.append(fit_from(best, z, labels, ROUNDS, keeping))
    if mistaken(found[0], z, labels) > POOR:
        return found[0]
    return min(found, key=lambda rates: float(surprise(rates, z, labels, keeping)))


def mistaken(rates: Rates, z: Tensor, labels: Labels) -> float:
    """The share of right labels that the predictions miss."""
    joint = joint_chances(rates, z, labels)
    right = joint.gather(1, labels[:, None]).squeeze(1) / joint.sum(1).clamp(min=1e-300)
    return 1 - float((right * (z.argmax(1) == labels)).sum() / right.sum())


def frequencies(joint: Tensor, labels: Labels) -> Tensor:
    """The latent labels of each class with labels, relative to its given labels, by joint chances (n, classes)."""
    counts = torch.bincount(labels, minlength=joint.shape[1])
    latent = (joint / joint.sum(1, keepdim=True).clamp(min=1e-300)).sum(0)
    return latent[counts > 0].clamp(min=1e-9) / counts[counts > 0]


def fit_from(start: Rates, z: Tensor, labels: Labels, rounds: int, keeping: float) -> Rates:
    """The parameters of the highest likelihood near a start."""
    return Rates(*minimized(start, lambda *values: surprise(Rates(*values), z, labels, keeping), rounds))


def surprise(rates: Rates, z: Tensor, labels: Labels, keeping: float) -> Tensor:
    """The mean negative log-likelihood of the given labels, with penalties; `keeping` weighs that of lost classes."""
    joint = joint_chances(rates, z, labels)
    value = -joint.sum(1).clamp(min=1e-300).log().mean() + ridge(rates) / len(z)
    return value + keeping * frequencies(joint, labels).log().square().mean() if keeping else value


def starts(z: Tensor, labels: Labels) -> list[Rates]:
    """Rare wrong labels of any class; wrong labels as counted; and only the direction that is more frequent."""
    classes, zero = z.shape[1], z.new_zeros(())
    square = z.new_zeros(classes, classes)
    rare = Rates(zero + RARE, square, z.new_zeros(classes), square, zero, zero, zero)
    predicted, sure = z.argmax(1), ranks(z) < SURE
    found = [rare]
    for part, one_way in ((slice(None), False), (sure, False), (sure, True)):
        cells = predicted[part] * classes + labels[part]
        counts = torch.bincount(cells, minlength=classes**2).view(classes, classes).to(z) + PSEUDO
        wrong = (counts - counts.T).clamp(min=PSEUDO) if one_way else counts
        odds = (wrong / counts.diagonal()[:, None]).clamp(FAINTEST, STRONGEST)
        logs = odds.logit() * off_diagonal(counts)
        level = logs.sum() / (classes * (classes - 1))
        pairs = (logs - level) * off_diagonal(counts)
        found.append(rare._replace(level=level, pairs=pairs, sharpness=zero + log(SHARP), usual=zero + 1))
    return found


def ranks(z: Tensor) -> Tensor:
    """The place of each sample among those of its predicted class, from the surest (0) to the least sure (1)."""
    confidence, predicted = z.max(1)
    order = confidence.argsort(descending=True, stable=True)
    order = order[predicted[order].argsort(stable=True)]
    sizes = torch.bincount(predicted, minlength=z.shape[1])
    begins = (sizes.cumsum(0) - sizes)[predicted[order]]
    places = (torch.arange(len(z), device=z.device) - begins + 0.5) / sizes[predicted[order]]
    return torch.empty_like(confidence).index_copy(0, order, places.to(confidence))


def ridge(rates: Rates) -> Tensor:
    """The penalty of parameters far from their usual values."""
    return (
        RIDGE_RATES * (rates.pairs * off_diagonal(rates.pairs)).square().sum()
        + RIDGE_NEIGHBORS * rates.neighbors.square().sum()
        + RIDGE_PRIOR * rates.prior.square().sum()
        + RIDGE_USUAL * rates.usual.square()
        + RIDGE_SHARPNESS * (rates.sharpness - log(LIKELY_SHARP)).square()
        + RIDGE_BORDER * (bounded(rates.border) - RARE_BORDER).square()
    )


def corrected(rates: Rates, z: Tensor) -> Tensor:
    """The score of each class (n, classes): its log-probability, and the agreement with its usual labels."""
    centered = z - z.mean(1, keepdim=True)
    usual = rates.usual * centered @ odds_of(rates).T + NEIGHBORS * centered @ rates.neighbors.T
    return z + usual + rates.prior / rates.sharpness.exp()


def odds_of(rates: Rates) -> Tensor:
    """The odds of each wrong label (column) against the right one, for each latent label (row): at most 1."""
    return (rates.level + rates.pairs).sigmoid() * off_diagonal(rates.pairs)


def joint_chances(rates: Rates, z: Tensor, labels: Labels) -> Tensor:
    """The chance of each latent label together with the given label (n, classes)."""
    odds, sharpness = odds_of(rates), rates.sharpness.exp()
    chances = (sharpness * corrected(rates, z)).softmax(1)
    steep = (BORDER * sharpness * (z - z.mean(1, keepdim=True))).clamp(-STEEPEST, STEEPEST).exp()
    near = bounded(rates.border).exp() / steep  # by latent label
    total = 1 + odds.sum(1) + near * (steep @ odds.T)
    given = odds.T[labels] * (1 + near * steep.gather(1, labels[:, None]))
    return chances * given.scatter(1, labels[:, None], 1.0) / total


def bounded(border: Tensor) -> Tensor:
    """The log-weight of mistakes near a border: nearly unchanged far below its bound, and never above."""
    return MOST_BORDER - torch.nn.functional.softplus(MOST_BORDER - border)


def off_diagonal(square: Tensor) -> Tensor:
    """Ones but for the diagonal."""
    return 1 - torch.eye(len(square), dtype=square.dtype, device=square.device)


def minimized(start: Iterable[Tensor], loss: Callable[..., Tensor], rounds: int = ROUNDS) -> list[Tensor]:
    """The values that minimize a smooth loss, by L-BFGS."""
    values = [value.clone().requires_grad_() for value in start]
    optimizer = torch.optim.LBFGS(
        values,
        max_iter=rounds,
        history_size=20,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(*values)
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(closure)
    return [value.detach() for value in values]
