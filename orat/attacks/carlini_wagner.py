"""The l2 attack of Carlini and Wagner (2017): the nearest adversarial input instead of the worst in a ball."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar

import torch
from torch import nn

from orat.attacks.base import GRADIENT, Attack, frozen
from orat.attacks.threat import Threat, ThreatLike, flat, per_sample
from orat.core.errors import InputError
from orat.core.losses import cut_graph, margin, slope
from orat.core.random import Randomness
from orat.core.types import Images, Indices, Labels, PerSample

# Share of the way to the bounds, where atanh is infinite. With the usual 1 - 1e-6, tanh is flat near the bounds:
# on 15 digits of MNIST 200 steps ended at a mean distance of 1.99 instead of 1.56, and 1000 steps at the same 1.358.
INSIDE = 1 - 1e-4
CHECKS = 10  # per descent, for rows without progress
PROGRESS = 0.9999  # the lowest objective must fall below this share of that of the former check
GROWTH = 10  # of the constant until the first success
BETA_1, BETA_2, TINY = 0.9, 0.999, 1e-8  # Adam (Kingma and Ba, 2015)


@dataclass(frozen=True)
class Descent:
    """The state of all rows: the point, the two moments of Adam, and the nearest adversarial point so far."""

    point: Images
    first: Images
    second: Images
    nearest: Images
    squared: PerSample  # distance of the nearest point; infinite before the first success
    lowest: PerSample  # objective since the last check

    @classmethod
    def begin(cls, x: Images) -> Descent:
        """The clean inputs in the space of atanh, which has no bounds."""
        point = torch.atanh(INSIDE * (2 * x - 1))
        none_yet = x.new_full((len(x),), inf)
        return cls(point, torch.zeros_like(x), torch.zeros_like(x), x, none_yet, none_yet)

    def take(self, rows: Indices) -> Descent:
        """The state of some rows at the begin of a new stretch."""
        point, first, second, nearest = self.point[rows], self.first[rows], self.second[rows], self.nearest[rows]
        squared = self.squared[rows]
        return Descent(point, first, second, nearest, squared, torch.full_like(squared, inf))


@dataclass(frozen=True)
class CarliniWagner(Attack):
    """Adam on the squared distance plus a constant times the margin to overcome, for the best constant per sample."""

    exact: ClassVar[bool] = True  # the decision boundary is lost in rounding

    steps: int = 1000
    search_steps: int = 9
    learning_rate: float = 0.01
    initial_constant: float = 1e-3
    confidence: float = 0.0

    def __post_init__(self) -> None:
        for name in ("steps", "search_steps"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)}: give 1 or more")
        for name in ("learning_rate", "initial_constant"):
            if not 0 < getattr(self, name) < inf:
                raise InputError(f"{name} = {getattr(self, name)}: give a number above 0")
        if not 0 <= self.confidence < inf:
            raise InputError(f"confidence = {self.confidence}: give a number of 0 or more")

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """The nearest adversarial inputs where their distance is at most eps, elsewhere x; deterministic."""
        threat, _ = self.prepared(threat, x, draws)
        nearest = self.nearest(model, x, y)
        within = threat.size(nearest - x) <= threat.eps
        return torch.where(per_sample(within, x), nearest, x).detach()

    def check_threat(self, threat: Threat) -> None:
        """Refuses other norms."""
        super().check_threat(threat)
        if threat.norm != "l2":
            raise InputError(
                f"norm = {threat.norm}: CW-L2 minimizes the l2 distance; in an {threat.norm} ball use cw or cw-margin"
            )

    def work(self, threat: Threat, classes: int) -> int:
        """One gradient per step."""
        return GRADIENT * self.steps * self.search_steps

    @torch.no_grad()
    def nearest(self, model: nn.Module, x: Images, y: Labels) -> Images:
        """The nearest adversarial inputs at any distance; x where misclassified, or where the attack fails."""
        Threat(0.0, "l2").check_inputs(x)
        with frozen(model):
            rows = (model(x).argmax(1) == y).nonzero().squeeze(1)
            if len(rows) == 0:
                return x.clone()
            return x.index_copy(0, rows, self.search(model, x[rows], y[rows]))

    def search(self, model: nn.Module, x: Images, y: Labels) -> Images:
        """The nearest points over all constants: a binary search per row for the smallest successful constant."""
        nearest, squared = x, x.new_full((len(x),), inf)
        constant = torch.full_like(squared, self.initial_constant)
        low, high = torch.zeros_like(constant), squared
        for _ in range(self.search_steps):
            adv, size = self.descend(model, x, y, constant)
            nearest = torch.where(per_sample(size < squared, x), adv, nearest)
            squared = torch.minimum(size, squared)
            found = size.isfinite()
            low, high = torch.where(found, low, constant), torch.where(found, constant, high)
            constant = torch.where(high.isfinite(), (low + high) / 2, GROWTH * constant)
        return nearest

    def descend(self, model: nn.Module, x: Images, y: Labels, constant: PerSample) -> tuple[Images, PerSample]:
        """The nearest points for one constant per row, and their squared distances; stuck rows stop early."""
        going = Descent.begin(x)
        nearest, squared, lowest = going.nearest.clone(), going.squared.clone(), going.lowest
        rows = torch.arange(len(x), device=x.device)
        stretch = ceil(self.steps / CHECKS)
        for start in range(0, self.steps, stretch):
            images, labels, constants = x[rows], y[rows], constant[rows]
            for step in range(start, min(start + stretch, self.steps)):
                going = self.moved(going, model, images, labels, constants, step + 1)
            nearest[rows], squared[rows] = going.nearest, going.squared
            kept = (going.lowest < PROGRESS * lowest).nonzero().squeeze(1)
            if len(kept) == 0:
                break
            rows, lowest, going = rows[kept], going.lowest[kept], going.take(kept)
        return nearest, squared

    def moved(self, going: Descent, model: nn.Module, x: Images, y: Labels, constant: PerSample, step: int) -> Descent:
        """The rows after one step of Adam."""
        with torch.enable_grad():
            point = going.point.detach().requires_grad_()
            adv = (point.tanh() + 1) / 2
            squared = flat(adv - x).square().sum(1)
            lead = margin(model(adv), y)
            if not lead.requires_grad:
                raise cut_graph()
            objective = squared + constant * (self.confidence - lead).clamp(min=0)
            gradient = slope(objective, point)
        adv, squared, objective = adv.detach(), squared.detach(), objective.detach()
        closer = (lead > self.confidence) & (squared < going.squared)
        first = BETA_1 * going.first + (1 - BETA_1) * gradient
        second = BETA_2 * going.second + (1 - BETA_2) * gradient.square()
        unbiased = (first / (1 - BETA_1**step), second / (1 - BETA_2**step))
        return Descent(
            point=going.point - self.learning_rate * unbiased[0] / (unbiased[1].sqrt() + TINY),
            first=first,
            second=second,
            nearest=torch.where(per_sample(closer, x), adv, going.nearest),
            squared=torch.where(closer, squared, going.squared),
            lowest=torch.minimum(objective, going.lowest),
        )
