"""Theorem 3: how far the ranked range of the training data can lie below that of the distribution (Hu et al., 2023).

Each bound is a `Bound` with its terms. With `printed` it is the formula as the paper prints it.

Errata of the theorem and of its examples (appendices C.4 and C.5):
- The proof ends with log(4 / delta), because each of two events has the probability delta / 2; the theorem says
  log(2 / delta).
- The linear example adds L eps r d~ / (2 sqrt(n)) for the attack, but the theorem counts the complexity twice: it must
  be L eps r d~ / sqrt(n).
- Its d~ = d^(1 - 1/p) is right for attacks in the l_infinity norm only.
- The network example has log(36) and d (d' + 1) where counting its weights gives log(36 n) and d' (d + 1), and its
  max(1, .) does not scale with the inputs as networks of ReLUs do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, log, sqrt

from orat.core.errors import InputError
from orat_paper.theory.complexity import attack_complexity, input_reach, network_complexity


@dataclass(frozen=True)
class Setting:
    """What Theorem 3 takes besides the complexity of the class."""

    n: int
    nu: float  # the share of the samples that count: (k - m) / n
    loss_max: float  # M: losses lie in 0..M
    lipschitz: float = 1.0  # L: how fast the loss changes with the margin; 1 for hinge and logistic
    delta: float = 0.05  # the bound may fail with this probability

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
        """Whether it says no more than that losses lie in 0..M."""
        return self.value >= self.loss_max


def bound(complexity: float, setting: Setting, printed: bool = False) -> Bound:
    """Theorem 3 from the Rademacher complexity of the adversarial losses."""
    return _bound({"complexity": complexity}, setting, printed)


def linear_bound(
    complexity: float, dimension: int, radius: float, p: float, eps: float, setting: Setting,
    attack_norm: float = inf, printed: bool = False,
) -> Bound:  # fmt: skip
    """Theorem 3 for linear functions with ||theta||_p <= radius; `complexity` is that of the class without attack."""
    attack = attack_complexity(setting.n, dimension, radius, p, eps, attack_norm)
    scale = setting.lipschitz
    parts = {"complexity": scale * complexity, "attack": scale * attack / (2 if printed else 1)}
    return _bound(parts, setting, printed)


def network_bound(
    largest: float, dimension: int, hidden: int, radius: float, outer: float, p: float, eps: float, setting: Setting,
    attack_norm: float = inf, printed: bool = False,
) -> Bound:  # fmt: skip
    """Theorem 3 for networks with one hidden layer: rows of l_p norm up to `radius`, outer weights of l_1 norm `outer`.

    `largest` is the largest norm of an input, in the norm of the attack.
    """
    reach = input_reach(largest, dimension, p, eps, attack_norm)
    complexity = network_complexity(setting.n, dimension, hidden, radius, outer, reach, printed)
    return _bound({"complexity": setting.lipschitz * complexity}, setting, printed)


def samples_needed(gap: float, setting: Setting) -> int:
    """The least n at which the bound of even a single function falls to `gap`; `setting.n` does not matter."""
    if gap <= 0:
        raise InputError(f"gap = {gap}: no number of samples closes it, give more than 0")
    at_one = bound(0.0, Setting(1, setting.nu, setting.loss_max, setting.lipschitz, setting.delta)).value
    return ceil((at_one / gap) ** 2)


def _bound(complexities: Mapping[str, float], setting: Setting, printed: bool) -> Bound:
    factor, events = 2 / setting.nu, 2 if printed else 4
    terms = {name: factor * 2 * complexity for name, complexity in complexities.items()}
    scalars = 2 * setting.loss_max / sqrt(setting.n)
    confidence = 3 * setting.loss_max * sqrt(log(events / setting.delta) / (2 * setting.n))
    return Bound(terms | {"scalars": factor * scalars, "confidence": factor * confidence}, setting.loss_max)
