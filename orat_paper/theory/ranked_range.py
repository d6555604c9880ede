"""Theorem 1: the ranked range as a min-max over two scalars (Hu et al., 2023, Eq. 4 and appendices B and C.1).

All values here are those of the theorem with its factor 1 / (k - m), so the optimum is the ranked range itself.

Errata of the theorem:
- Its optimum is lambda = l_[k] and lambda-hat = l_[m] - l_[k]. So "lambda-hat > lambda" fails if l_[m] <= 2 l_[k].
  What the proof has in mind, l_[m] beside l_[k], is the optimum of the difference form (appendix C.4) instead.
- The min and the max do not commute: at a fixed lambda-hat the value falls without end as lambda falls. The optimum is
  no saddle point, and descent and ascent at once (Algorithm 1) have none to go to: they move lambda + lambda-hat, the
  upper cut, by the rate times (n - k) / n less the share of losses up to lambda, whatever m is.
- There the appendix's gradient for lambda is 1 / (k - m), but if m > 0 and no losses are equal, the function is flat
  there: one loss sits at each of its two kinks, and the indicators drop both.
- With m = 0 (mu = 0) the best lambda-hat need not be infinite: every one from l_[1] - lambda on is maximal.
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
    """The value of Theorem 1 and one pair of scalars that reaches it, with all others beside."""

    value: float
    lower: float  # lambda = l_[k]
    width: float  # lambda-hat = l_[m] - l_[k]; with l_[1] where m = 0
    lowers: tuple[float, float]  # every lambda that is minimal
    widths: tuple[float, float]  # every lambda-hat that is maximal beside lambda = l_[k]


@dataclass(frozen=True)
class Gradients:
    """The explicit gradients of appendix B, summed over the samples."""

    losses: Tensor
    lower: float
    width: float


@dataclass(frozen=True)
class Slopes:
    """The slopes on the left and on the right of a point, in each of the two scalars."""

    lower: tuple[float, float]
    width: tuple[float, float]


def objective(losses: PerSample, lower: float, width: float, k: int, m: int) -> Scalar:
    """What Theorem 1 minimizes in lambda (lower) and maximizes in lambda-hat (width)."""
    n = len(losses)
    check_ranks(n, k, m)
    at, over = (torch.as_tensor(scalar, dtype=losses.dtype, device=losses.device) for scalar in (lower, width))
    return n / (k - m) * minmax(losses, at, over, n, k, m)


def best_over_width(losses: PerSample, lower: float, k: int, m: int) -> Scalar:
    """The objective at its maximum in lambda-hat, which is convex in lambda (Lemma 2)."""
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
    """The other form of the ranked range: the k largest less the m largest losses (appendix C.4).

    The first part is minimal at lower = l_[k], the second at upper = l_[m]: here upper >= lower does hold.
    """
    check_ranks(len(losses), k, m)
    largest_k = k * lower + (losses - lower).relu().sum()
    largest_m = m * upper + (losses - upper).relu().sum()
    return (largest_k - largest_m) / (k - m)


def gradients(losses: PerSample, lower: float, width: float, k: int, m: int) -> Gradients:
    """The gradients of appendix B: where a kink is met, the indicators there are 0.

    In lambda-hat this is a supergradient of a concave function. In lambda the objective is neither convex nor concave,
    and where losses sit at both kinks it need not even lie between the two slopes (see `slopes`).
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
    """The one-sided derivatives of the objective in lambda and in lambda-hat, exact where losses are tied too."""
    n = len(losses)
    check_ranks(n, k, m)
    gap, excess = losses - lower, (losses - lower).relu()
    left, right = (gap >= 0) & (gap < width), (gap > 0) & (gap <= width)
    return Slopes(
        lower=((k - m - int(left.sum())) / (k - m), (k - m - int(right.sum())) / (k - m)),
        width=((n - m - int((excess < width).sum())) / (k - m), (n - m - int((excess <= width).sum())) / (k - m)),
    )


def wrong_at_most(value: float, nu: float, mu: float, loss_at_zero: float) -> float:
    """The largest share of wrong predictions that a ranked range of this value allows: mu + nu value / l(0).

    A wrong prediction costs l(0) or more, but mu of them cost nothing. So a ranked range of 0 still allows a share of
    mu; the remark after Theorem 3, by which the adversarial error goes to 0, does not hold.
    """
    if not (nu > 0 and mu >= 0 and nu + mu <= 1):
        raise InputError(f"nu = {nu}, mu = {mu}: these shares need nu > 0, mu >= 0 and nu + mu <= 1")
    if loss_at_zero <= 0:
        raise InputError(f"l(0) = {loss_at_zero}: a loss of 0 at the margin 0 says nothing of errors")
    return 1.0 if value >= loss_at_zero else mu + nu * value / loss_at_zero
