"""Theorem 1: the ranked range as a min-max over two scalars (Hu et al., 2023, Eq. 4 and appendices B and C.1).

All values include the factor 1 / (k - m) of the theorem, so the optimum is the ranked range.

Errata of the theorem:
- The optimum is lambda = l_[k] and lambda-hat = l_[m] - l_[k]. So "lambda-hat > lambda" fails if l_[m] <= 2 l_[k].
  The proof has l_[m] beside l_[k] in mind, which is the optimum of the difference form (appendix C.4).
- The min and the max do not commute: at a fixed lambda-hat the value falls without end as lambda falls. The optimum is
  no saddle point, and Algorithm 1 (descent and ascent at once) has none to reach. Algorithm 1 moves the upper cut,
  lambda + lambda-hat, by the rate times (n - k) / n minus the share of losses up to lambda, for every m.
- At the optimum, the gradient for lambda in the appendix is 1 / (k - m). With m > 0 and distinct losses the function is
  flat at the optimum: each of its two kinks holds one loss, and the indicators drop both.
- With m = 0 (mu = 0) the best lambda-hat need not be infinite: every lambda-hat >= l_[1] - lambda is maximal.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat.core.types import PerSample, Scalar
from orat.methods.ranked_range import check_ranks, minmax, ranked_range


@dataclass(frozen=True)
class Optimum:
    """The value of Theorem 1, one optimal pair of scalars, and the ranges of optimal scalars."""

    value: float
    lower: float  # lambda = l_[k]
    width: float  # lambda-hat = l_[m] - l_[k]; l_[1] - l_[k] for m = 0
    lowers: tuple[float, float]  # minimal lambdas
    widths: tuple[float, float]  # maximal lambda-hats beside lambda = l_[k]


@dataclass(frozen=True)
class Gradients:
    """The explicit gradients of appendix B, summed over the samples."""

    losses: Tensor
    lower: float
    width: float


@dataclass(frozen=True)
class Slopes:
    """The slopes to the left and to the right of a point, in both scalars."""

    lower: tuple[float, float]
    width: tuple[float, float]


def objective(losses: PerSample, lower: float, width: float, k: int, m: int) -> Scalar:
    """The objective of Theorem 1, minimized in lambda (lower) and maximized in lambda-hat (width)."""
    n = len(losses)
    check_ranks(n, k, m)
    at, over = (torch.as_tensor(scalar, dtype=losses.dtype, device=losses.device) for scalar in (lower, width))
    return n / (k - m) * minmax(losses, at, over, n, k, m)


def best_over_width(losses: PerSample, lower: float, k: int, m: int) -> Scalar:
    """The maximum of the objective in lambda-hat, convex in lambda (Lemma 2)."""
    check_ranks(len(losses), k, m)
    kept = losses.sort(descending=True).values[m:]
    return lower + (kept - lower).relu().sum() / (k - m)


def optimum(losses: PerSample, k: int, m: int) -> Optimum:
    """The min-max of Theorem 1, by sorting."""
    value = ranked_range(losses, k, m).item()
    ranked = [inf, *losses.sort(descending=True).values.tolist(), -inf]  # so that ranks start at 1
    lower = ranked[k]
    return Optimum(
        value=value,
        lower=lower,
        width=ranked[max(m, 1)] - lower,
        lowers=(ranked[k + 1], lower),
        widths=(ranked[m + 1] - lower, ranked[m] - lower),
    )


def difference(losses: PerSample, lower: float, upper: float, k: int, m: int) -> Scalar:
    """The difference form of the ranked range: the k largest minus the m largest losses (appendix C.4).

    The first part is minimal at lower = l_[k], the second at upper = l_[m], so upper >= lower holds.
    """
    check_ranks(len(losses), k, m)
    largest_k = k * lower + (losses - lower).relu().sum()
    largest_m = m * upper + (losses - upper).relu().sum()
    return (largest_k - largest_m) / (k - m)


def gradients(losses: PerSample, lower: float, width: float, k: int, m: int) -> Gradients:
    """The gradients of appendix B, with indicators of 0 at the kinks.

    In lambda-hat the gradient is a supergradient of a concave function. In lambda the objective is neither convex nor
    concave, and with losses at both kinks the gradient may lie outside of the two slopes (see `slopes`).
    """
    n = len(losses)
    check_ranks(n, k, m)
    excess = (losses - lower).relu()
    below_top = excess < width
    kept = below_top & (excess > 0)
    return Gradients(
        losses=kept.to(losses.dtype) / (k - m),
        lower=(k - m - int(kept.sum())) / (k - m),
        width=(n - m - int(below_top.sum())) / (k - m),
    )


def slopes(losses: PerSample, lower: float, width: float, k: int, m: int) -> Slopes:
    """The one-sided derivatives of the objective in lambda and lambda-hat, exact also for tied losses."""
    n = len(losses)
    check_ranks(n, k, m)
    gap, excess = losses - lower, (losses - lower).relu()
    left, right = (gap >= 0) & (gap < width), (gap > 0) & (gap <= width)
    return Slopes(
        lower=((k - m - int(left.sum())) / (k - m), (k - m - int(right.sum())) / (k - m)),
        width=((n - m - int((excess < width).sum())) / (k - m), (n - m - int((excess <= width).sum())) / (k - m)),
    )


def wrong_at_most(value: float, nu: float, mu: float, loss_at_zero: float) -> float:
    """The largest share of wrong predictions at a given ranked range: mu + nu value / l(0).

    A wrong prediction costs l(0) or more, but a share mu of them is dropped. A ranked range of 0 allows an error of mu,
    so the adversarial error does not go to 0, against the remark after Theorem 3.
    """
    if not (nu > 0 and mu >= 0 and nu + mu <= 1):
        raise InputError(f"nu = {nu}, mu = {mu}: these shares need nu > 0, mu >= 0 and nu + mu <= 1")
    if loss_at_zero <= 0:
        raise InputError(f"l(0) = {loss_at_zero}: the loss at the margin 0 must be positive")
    return 1.0 if value >= loss_at_zero else mu + nu * value / loss_at_zero
