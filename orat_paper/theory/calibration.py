"""Theorem 2: when the ORAT loss is calibrated for the adversarial 0/1 loss (Hu et al., 2023, section 4.1).

Errata of the theorem:
- Lemma 5 loses a factor l(0): its algebra gives beta >= (nu l(0) - E) / nu. So the proof needs
  nu l(0) > min(lambda-hat, risk). For the logistic loss, l(0) = log 2, the theorem asks for less. Lemma 5 also reads
  the min-max as a saddle point, which does not change its result.
- For lambda + lambda-hat > l(0), the proof wants t > 0 with l(t) + l(-t) < 2 l(0), which no convex loss has, and a
  function that is large and near 0 on one ball. The statement is false: the hinge loss with lambda = 0 and
  lambda-hat = 2 meets all conditions and is not calibrated.
- With all measurable functions, phi is calibrated if and only if phi(t) + phi(-t) < 2 phi(0) for some t. By Frank &
  Niles-Weed (2023) this condition alone gives consistency for every distribution. A convex loss that goes to 0 needs
  0 < lambda-hat < 2 (l(0) - lambda): the middle of the cuts l_[k] and l_[m] must lie below l(0).
- Part (ii) assumes a function without errors. Then 0 < lambda-hat and lambda < l(0) are enough: `error_at_most`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from orat.core.errors import InputError

MarginLoss: TypeAlias = Callable[[Tensor], Tensor]

REACH = 40.0  # stands for an infinite margin: the logistic loss is below 1e-17
TINY = 1e-9


def hinge(margins: Tensor) -> Tensor:
    """The hinge loss of margins y f(x)."""
    return (1 - margins).relu()


def logistic(margins: Tensor) -> Tensor:
    """The cross-entropy of two classes as a loss of margins y f(x) (appendix C.3)."""
    return functional.softplus(-margins)


@dataclass(frozen=True)
class OratLoss:
    """The loss phi of a margin for fixed scalars: l(t) - lambda, clipped to 0..lambda-hat (Eq. 5)."""

    loss: MarginLoss
    lower: float  # lambda
    width: float  # lambda-hat

    def __call__(self, margins: Tensor) -> Tensor:
        """phi of each margin."""
        return self.width - (self.width - (self.loss(margins) - self.lower).relu()).relu()

    def adversarial(self, scores: Tensor, label: int) -> Tensor:
        """The largest phi(y f) over the last dimension, the scores f of all points of a ball."""
        return self(label * scores).amax(-1)

    def at(self, margin: float) -> float:
        """phi of one margin."""
        return self(torch.tensor(margin, dtype=torch.float64)).item()


@dataclass(frozen=True)
class Condition:
    """A condition of a theorem with its truth value and its numbers."""

    name: str
    holds: bool
    numbers: str


def stated_conditions(phi: OratLoss, nu: float, risk: float) -> tuple[Condition, ...]:
    """The conditions of Theorem 2 as printed; `risk` is the least risk of the plain loss l."""
    return (*stated_of_scalars(phi, nu, risk), *stated_of_loss(phi.loss))


def stated_of_scalars(phi: OratLoss, nu: float, risk: float) -> tuple[Condition, ...]:
    """The printed conditions on nu and the two scalars."""
    cuts = f"lambda = {phi.lower:g}, lambda-hat = {phi.width:g}"
    bound = min(phi.width, risk)
    return (
        Condition("nu > min(lambda-hat, risk)", nu > bound, f"nu = {nu:g}, min = {bound:g}"),
        Condition("0 <= lambda < lambda-hat", 0 <= phi.lower < phi.width, cuts),
        Condition("lambda and lambda-hat are bounded", isfinite(phi.lower) and isfinite(phi.width), cuts),
    )


def stated_of_loss(loss: MarginLoss) -> tuple[Condition, ...]:
    """The printed conditions on the loss."""
    margins = torch.linspace(-REACH, REACH, 4001, dtype=torch.float64)
    losses = loss(margins)
    least, rise, jump = losses.min().item(), losses.diff().max().item(), largest_jump(loss, margins)
    return (
        Condition("the loss is non-negative", least >= 0, f"its least value is {least:g}"),
        Condition("the loss is continuous", jump < TINY, f"its largest jump is {jump:g}"),
        Condition("the loss is non-increasing", rise <= TINY, f"it rises by {max(rise, 0):g} at most"),
    )


def needed_conditions(phi: OratLoss, nu: float, risk: float) -> tuple[Condition, ...]:
    """Further conditions in the proof of Theorem 2; the last condition alone is necessary and sufficient."""
    at_zero = phi.loss(torch.zeros((), dtype=torch.float64)).item()
    bound = min(phi.width, risk)
    room = decrease(phi)
    return (
        Condition("nu l(0) > min(lambda-hat, risk)", nu * at_zero > bound, f"{nu * at_zero:g}, min = {bound:g}"),
        Condition("lambda < l(0)", phi.lower < at_zero, f"lambda = {phi.lower:g}, l(0) = {at_zero:g}"),
        Condition("phi(t) + phi(-t) < 2 phi(0) for some t", room > 0, f"it falls by {room:g} at most"),
    )


def failing(conditions: tuple[Condition, ...]) -> list[str]:
    """The false conditions with their numbers."""
    return [f"{condition.name} ({condition.numbers})" for condition in conditions if not condition.holds]


def largest_jump(loss: MarginLoss, margins: Tensor) -> float:
    """The rest of the steepest change between neighbors in a tiny cell: 0 for a continuous loss."""
    steepest = int(loss(margins).diff().abs().argmax())
    low, high = margins[steepest], margins[steepest + 1]
    for _ in range(40):
        middle = (low + high) / 2
        values = loss(torch.stack([low, middle, high]))
        left = bool((values[1] - values[0]).abs() > (values[2] - values[1]).abs())
        low, high = (low, middle) if left else (middle, high)
    return (loss(high) - loss(low)).abs().item()


def decrease(phi: OratLoss, reach: float = REACH, steps: int = 8001) -> float:
    """The largest fall of phi(t) + phi(-t) below 2 phi(0), on a grid of t."""
    margins = torch.linspace(0, reach, steps, dtype=torch.float64)
    fall = 2 * phi.at(0.0) - (phi(margins) + phi(-margins)).min().item()
    return fall if fall > TINY else 0.0


def is_calibrated(phi: OratLoss) -> bool:
    """Whether the adversarial form of phi is calibrated, with all measurable functions."""
    return decrease(phi) > 0


def is_calibrated_convex(phi: OratLoss, loss_at_zero: float) -> bool:
    """Calibration in closed form, for a convex loss that goes to 0 and lambda >= 0."""
    if phi.lower < 0:
        raise InputError(f"lambda = {phi.lower:g}: the closed form needs 0 or more")
    return 0 < phi.width < 2 * (loss_at_zero - phi.lower)


def error_at_most(phi: OratLoss, risk: float) -> float:
    """The largest adversarial error at a given mean of the adversarial phi: a wrong ball costs phi(0) or more."""
    floor, at_zero = phi.at(REACH), phi.at(0.0)
    if at_zero <= floor:
        raise InputError(f"phi(0) = {at_zero:g} is the least value of phi, so that errors cost nothing: lower lambda")
    return min(1.0, max(0.0, (risk - floor) / (at_zero - floor)))
