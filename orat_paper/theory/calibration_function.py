"""The calibration function of Steinwart (2007), by brute force over the functions on one ball (appendix C.2).

Only the least and the largest score of a function on the ball around x matter. The adversarial loss is phi(least) for
the label 1 and phi(-largest) for the label -1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from orat.core.errors import InputError
from orat_paper.theory.calibration import REACH, TINY, OratLoss


@dataclass(frozen=True)
class Hypotheses:
    """A hypothesis set at one x: the least and the largest score of every function on the ball."""

    least: Tensor
    largest: Tensor


@dataclass(frozen=True)
class Counterexample:
    """A function as good as the best for phi, and worse by tau for the adversarial 0/1 loss."""

    eta: float  # the probability of the label 1 at x
    tau: float
    delta: float  # excess of the inner risk
    least: float
    largest: float


def all_functions(reach: float = REACH, steps: int = 201) -> Hypotheses:
    """All measurable functions: every pair of scores on a grid with 0, finer near 0."""
    if steps % 2 == 0:
        raise InputError(f"steps = {steps}: give an odd number, which puts 0 on the grid")
    half = steps // 2
    positive = reach * (torch.arange(1, half + 1, dtype=torch.float64) / half) ** 2
    scores = torch.cat([-positive.flip(0), torch.zeros(1, dtype=torch.float64), positive])
    least, largest = torch.meshgrid(scores, scores, indexing="ij")
    ordered = least <= largest
    return Hypotheses(least[ordered], largest[ordered])


def linear_functions(norm: float, eps: float, radius: float, steps: int = 201) -> Hypotheses:
    """Linear functions of dual norm up to `radius` at an x of this norm: theta x -+ eps times the norm of theta."""
    sizes = torch.linspace(0, radius, steps, dtype=torch.float64)
    cosines = torch.linspace(-1, 1, steps if steps % 2 else steps + 1, dtype=torch.float64)
    size, cosine = torch.meshgrid(sizes, cosines, indexing="ij")
    middle = (size * cosine * norm).flatten()
    return Hypotheses(middle - eps * size.flatten(), middle + eps * size.flatten())


def inner_risk(phi: OratLoss, hypotheses: Hypotheses, eta: float) -> Tensor:
    """The expected adversarial phi of every function at x."""
    return eta * phi(hypotheses.least) + (1 - eta) * phi(-hypotheses.largest)


def inner_error(hypotheses: Hypotheses, eta: float) -> Tensor:
    """The expected adversarial 0/1 loss of every function at x; a score of 0 is wrong for both labels."""
    return eta * (hypotheses.least <= 0).double() + (1 - eta) * (hypotheses.largest >= 0).double()


def calibration_function(phi: OratLoss, tau: float, eta: float, hypotheses: Hypotheses) -> float:
    """delta_max: the least excess of the inner risk among functions with an excess of tau in the inner error.

    phi is calibrated at x if delta_max is positive for every tau and eta; it is infinite without such functions.
    """
    return nearest(phi, tau, eta, hypotheses)[0]


def counterexample(phi: OratLoss, hypotheses: Hypotheses, etas: Iterable[float] | None = None) -> Counterexample | None:
    """A function on the grid that disproves calibration of phi, if any."""
    for eta in torch.linspace(0, 1, 41, dtype=torch.float64).tolist() if etas is None else etas:
        error = inner_error(hypotheses, eta)
        excess = error - error.min()
        # The calibration function never falls as tau rises: the least tau decides. Without errors tau is infinite.
        tau = torch.where(excess > TINY, excess, inf).min().item()
        delta, place = nearest(phi, tau, eta, hypotheses)
        if delta < TINY:
            return Counterexample(eta, tau, delta, hypotheses.least[place].item(), hypotheses.largest[place].item())
    return None


def nearest(phi: OratLoss, tau: float, eta: float, hypotheses: Hypotheses) -> tuple[float, int]:
    """The least excess of the inner risk at this tau, and its function."""
    error, risk = inner_error(hypotheses, eta), inner_risk(phi, hypotheses, eta)
    wrong = error - error.min() >= tau - TINY
    excess = torch.where(wrong, risk - risk.min(), inf)
    place = int(excess.argmin())
    return excess[place].item(), place
