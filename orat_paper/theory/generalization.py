"""Theorem 3: a bound of the ranked range of the distribution minus that of the training data (Hu et al., 2023).

A bound is a `Bound` with its terms. With `printed` it is the formula of the paper.

Errata of the theorem and of its examples (appendices C.4 and C.5):
- The proof ends with log(4 / delta), as two events have the probability delta / 2 each. The theorem has
  log(2 / delta).
- The linear example adds L eps r d~ / (2 sqrt(n)) for the attack. The theorem counts the complexity twice, so the
  term must be L eps r d~ / sqrt(n).
- The factor d~ = d^(1 - 1/p) is right for attacks in the l_infinity norm only.
- The network example has log(36) and d (d' + 1); counting the weights gives log(36 n) and d' (d + 1). Networks of
  ReLUs scale with their inputs, the max(1, .) of the example does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, log, sqrt

from orat.core.errors import InputError
from orat_paper.theory.complexity import attack_complexity, input_reach, network_complexity


@dataclass(frozen=True)
class Setting:
    """The numbers of Theorem 3 besides the complexity of the class."""

    n: int
    nu: float  # (k - m) / n, the share of the ranked range
    loss_max: float  # M: losses lie in 0..M
    lipschitz: float = 1.0  # L, Lipschitz constant of the loss in the margin; 1 for hinge and logistic
    delta: float = 0.05  # probability that the bound fails

    def __post_init__(self) -> None:
        if self.n < 1 or not 0 < self.nu <= 1 or not 0 < self.delta < 1:
            raise InputError(f"n = {self.n}, nu = {self.nu}, delta = {self.delta}: n >= 1, 0 < nu <= 1, 0 < delta < 1")
        if self.loss_max <= 0 or self.lipschitz <= 0:
            raise InputError(f"M = {self.loss_max}, L = {self.lipschitz}: both must be more than 0")


@dataclass(frozen=True)
class Bound:
    """A bound of the generalization gap, term by term."""

    terms: Mapping[str, float]
    loss_max: float

    @property
    def value(self) -> float:
        """The sum of the terms."""
        return sum(self.terms.values())

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound is at least M, the largest loss."""
        return self.value >= self.loss_max


def bound(complexity: float, setting: Setting, printed: bool = False) -> Bound:
    """Theorem 3 from the Rademacher complexity of the adversarial losses."""
    return total({"complexity": complexity}, setting, printed)


def linear_bound(
    complexity: float, dimension: int, radius: float, p: float, eps: float, setting: Setting,
    attack_norm: float = inf, printed: bool = False,
) -> Bound:  # fmt: skip
    """Theorem 3 for linear functions with ||theta||_p <= radius, from the complexity of the class without attack."""
    attack = attack_complexity(setting.n, dimension, radius, p, eps, attack_norm)
    scale = setting.lipschitz
    parts = {"complexity": scale * complexity, "attack": scale * attack / (2 if printed else 1)}
    return total(parts, setting, printed)


def network_bound(
    largest: float, dimension: int, hidden: int, radius: float, outer: float, p: float, eps: float, setting: Setting,
    attack_norm: float = inf, printed: bool = False,
) -> Bound:  # fmt: skip
    """Theorem 3 for networks with one hidden layer: rows of l_p norm up to `radius`, outer weights of l_1 norm `outer`.

    `largest` is the largest norm of an input, in the norm of the attack.
    """
    reach = input_reach(largest, dimension, p, eps, attack_norm)
    complexity = network_complexity(setting.n, dimension, hidden, radius, outer, reach, printed)
    return total({"complexity": setting.lipschitz * complexity}, setting, printed)


def samples_needed(gap: float, setting: Setting) -> int:
    """The least n at which the bound of a single function falls to `gap`; `setting.n` does not matter."""
    if gap <= 0:
        raise InputError(f"gap = {gap}: no number of samples closes it, give more than 0")
    at_one = bound(0.0, Setting(1, setting.nu, setting.loss_max, setting.lipschitz, setting.delta)).value
    return ceil((at_one / gap) ** 2)


def total(complexities: Mapping[str, float], setting: Setting, printed: bool) -> Bound:
    """The bound with the terms of the scalars and of the confidence."""
    factor, events = 2 / setting.nu, 2 if printed else 4
    terms = {name: factor * 2 * complexity for name, complexity in complexities.items()}
    scalars = 2 * setting.loss_max / sqrt(setting.n)
    confidence = 3 * setting.loss_max * sqrt(log(events / setting.delta) / (2 * setting.n))
    return Bound(terms | {"scalars": factor * scalars, "confidence": factor * confidence}, setting.loss_max)
