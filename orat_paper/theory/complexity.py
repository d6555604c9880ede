"""Empirical Rademacher complexities: linear classes of any norm, natural and attacked (appendix C.5).

Linear functions theta x with ||theta||_p <= radius; the attack moves x by eps in the l_r norm, here `attack_norm`.
The paper leaves r out: its factor d^(1 - 1/p) holds for r = infinity. The general factor is
max(1, d^(1 - 1/p - 1/r)) (Awasthi et al., 2020).
"""

from __future__ import annotations

from math import exp, inf, lgamma, log, pi, sqrt

import torch
from torch import Tensor

from orat.core.errors import InputError


def dual(p: float) -> float:
    """The exponent q of the dual norm: 1/p + 1/q = 1."""
    if not p >= 1:
        raise InputError(f"p = {p}: a norm needs p >= 1")
    if p == 1:
        return inf
    return 1.0 if p == inf else p / (p - 1)


def stretch(dimension: int, p: float, attack_norm: float = inf) -> float:
    """The largest dual norm (of the attack's norm) of a vector of l_p norm 1: max(1, d^(1 - 1/p - 1/r))."""
    return max(1.0, float(dimension) ** (1 / dual(p) - 1 / attack_norm))


def khintchine(q: float) -> float:
    """Khintchine's best constant: the largest l_q norm of a random-sign sum over the l_2 norm of its terms."""
    if q <= 2:
        return 1.0
    return sqrt(2) * exp((lgamma((q + 1) / 2) - log(pi) / 2) / q)


def linear_complexity(points: Tensor, radius: float, p: float) -> float:
    """An upper bound of the complexity of a linear class on these points (n, d)."""
    return complexity_from_norms(points.double().norm(dim=0), len(points), radius, p)


def complexity_from_norms(norms: Tensor, n: int, radius: float, p: float) -> float:
    """The upper bound from the l_2 norm of every feature over the n points.

    The complexity is radius / n times the mean of || sum of sign_i x_i ||_q. Khintchine bounds every feature of the
    sum. For p = 1, q is infinite, and Massart's lemma bounds the largest of 2 d sums. The paper cites Kakade et al.
    (2008): radius max ||x||_q sqrt((q - 1) / n) is never smaller and covers 1 < p <= 2 only.
    """
    q = dual(p)
    if q == inf:
        return radius / n * norms.max().item() * sqrt(2 * log(2 * len(norms)))
    return radius / n * khintchine(q) * norms.norm(q).item()


def attack_complexity(n: int, dimension: int, radius: float, p: float, eps: float, attack_norm: float = inf) -> float:
    """An upper bound of the complexity that the attack adds to a linear class."""
    return eps * radius * stretch(dimension, p, attack_norm) / (2 * sqrt(n))


def sampled_complexity(points: Tensor, radius: float, p: float, signs: Tensor) -> float:
    """The complexity of a linear class, exact except for the draw of the signs (draws, n)."""
    sums = signs.to(points.dtype) @ points
    return radius / len(points) * sums.norm(dual(p), dim=1).mean().item()


def random_signs(draws: int, n: int, generator: torch.Generator) -> Tensor:
    """Rademacher variables, one row a draw."""
    return 2 * torch.randint(0, 2, (draws, n), generator=generator) - 1


def worst_margins(weights: Tensor, points: Tensor, labels: Tensor, eps: float, attack_norm: float = inf) -> Tensor:
    """The least margin of a linear function on the ball around each point; labels are 1 and -1."""
    return labels * (points @ weights) - eps * weights.norm(dual(attack_norm))


def network_complexity(
    n: int, dimension: int, hidden: int, radius: float, outer: float, reach: float, printed: bool = False
) -> float:
    """An upper bound for networks with one hidden layer of ReLUs under attack; `reach` is from `input_reach`.

    A cover of all hidden (d + 1) weights at the scale 1 / sqrt(n) has (6 sqrt(n))^(hidden (d + 1)) elements, each with
    scores up to radius * outer * reach. Massart's lemma then gives log(36 n). The printed form has d (hidden + 1)
    weights, log(36) and a reach of at least 1; we could not prove the printed form.
    """
    largest = radius * outer * (max(1.0, reach) if printed else reach)
    weights = dimension * (hidden + 1) if printed else hidden * (dimension + 1)
    return largest / sqrt(n) * (1 + sqrt(weights * log(36 if printed else 36 * n)))


def input_reach(largest: float, dimension: int, p: float, eps: float, attack_norm: float = inf) -> float:
    """The largest |theta x| under attack for ||theta||_p = 1; `largest` is the largest l_r norm of an input."""
    return stretch(dimension, p, attack_norm) * (largest + eps)
