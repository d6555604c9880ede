"""The two step rules of Auto-PGD: halving the step size (linf, l2), and sparse steps (l1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from orat.attacks.threat import Threat, flat, per_sample
from orat.core.types import Images, Indices, Labels, PerSample

FIRST_STEP = 2.0  # in eps
MOMENTUM = 0.75  # share of the new move; the rest is the former move
ENOUGH_RISES = 0.75  # share of the steps since the last check that must raise the loss, else the step is halved
FIRST_CHECK, SOONER, SHORTEST = 0.22, 0.03, 0.06  # period of the checks, as a share of all steps: first, less, least

SPARSE_FIRST_STEP = 1.0  # in eps
SPARSE_SHORTEST_STEP = 0.1
SPARSE_CHECK = 0.04  # period of the checks, as a share of all steps
SPARSER = 1.5  # a step moves fewer features than differ so far, and shrinks, by this factor
STILL_SPARSER = 0.95  # below this share of the differing features of the last check, the step size starts anew


@dataclass
class Climb:
    """The state of all attempts, one row per attempt."""

    x: Images
    y: Labels
    target: Labels
    sample: Indices  # the sample that is attacked
    row: Indices  # the place among the attempts that started together
    adv: Images
    before: Images  # one step ago
    gradient: Images
    best: Images
    best_gradient: Images
    best_loss: PerSample
    last_loss: PerSample
    checked_loss: PerSample  # the best loss at the last check
    step_size: PerSample  # in eps
    rises: PerSample  # steps since the last check that raised the loss
    halved: Tensor  # whether the last check halved the step size
    density: PerSample  # features in which the best point differed from x at the last check
    found: Images  # the first adversarial point
    broken: Tensor

    @classmethod
    def at(cls, adv: Images, x: Images, y: Labels, target: Labels, sample: Indices) -> Climb:
        """All attempts, before the first evaluation of the network."""
        zero, no = adv.new_zeros(len(x)), torch.zeros(len(x), dtype=torch.bool, device=x.device)
        row = torch.arange(len(x), device=x.device)
        low = torch.full_like(zero, -torch.inf)
        return cls(
            x, y, target, sample, row, adv, adv, torch.zeros_like(x), adv, torch.zeros_like(x), low, zero, low,
            zero, zero, torch.ones_like(no), zero, x, no,
        )  # fmt: skip

    def take(self, rows: Tensor) -> Climb:
        """The state of some attempts."""
        return Climb(*(getattr(self, field.name)[rows] for field in fields(self)))

    def note(self, loss: PerSample, gradient: Images, wrong: Tensor) -> None:
        """Takes in loss, gradient and verdict at the present points."""
        higher = loss > self.best_loss
        self.gradient = gradient
        self.best = torch.where(per_sample(higher, self.x), self.adv, self.best)
        self.best_gradient = torch.where(per_sample(higher, self.x), gradient, self.best_gradient)
        self.best_loss = torch.where(higher, loss, self.best_loss)
        self.rises = self.rises + (loss > self.last_loss)
        self.last_loss = loss
        self.found = torch.where(per_sample(wrong & ~self.broken, self.x), self.adv, self.found)
        self.broken = self.broken | wrong

    def back_to_best(self, rows: Tensor) -> None:
        """Moves some attempts to their best point."""
        self.adv = torch.where(per_sample(rows, self.x), self.best, self.adv)
        self.gradient = torch.where(per_sample(rows, self.x), self.best_gradient, self.gradient)


@runtime_checkable
class Stepping(Protocol):
    """A rule for the steps, and for their adaptation at regular checks."""

    def start(self, climb: Climb) -> None: ...
    def move(self, climb: Climb, first: bool) -> Images: ...
    def check(self, climb: Climb, step: int) -> None: ...


class Halving:
    """Steps of 2 eps with momentum, halved where the loss stops rising."""

    def __init__(self, threat: Threat, steps: int) -> None:
        self.threat = threat
        self.period = max(int(FIRST_CHECK * steps), 1)
        self.sooner, self.shortest = max(int(SOONER * steps), 1), max(int(SHORTEST * steps), 1)
        self.next_check = self.period

    def start(self, climb: Climb) -> None:
        """After the first evaluation; the first step rises where its loss is above 0, as in the reference."""
        climb.step_size = torch.full_like(climb.best_loss, FIRST_STEP)
        climb.checked_loss = climb.best_loss
        climb.rises, climb.last_loss = torch.zeros_like(climb.rises), torch.zeros_like(climb.last_loss)

    def move(self, climb: Climb, first: bool) -> Images:
        """One step, then a part of the former move, each projected into the threat."""
        threat, adv = self.threat, climb.adv
        step = per_sample(threat.eps * climb.step_size, adv)
        moved = threat.project(adv + step * direction(climb.gradient, threat), climb.x)
        if first:
            return moved
        return threat.project(adv + MOMENTUM * (moved - adv) + (1 - MOMENTUM) * (adv - climb.before), climb.x)

    def check(self, climb: Climb, step: int) -> None:
        """Halves the step and returns to the best point, where too few steps rose or the best loss did not improve."""
        if step != self.next_check:
            return
        stuck = ~climb.halved & (climb.checked_loss >= climb.best_loss)
        climb.halved = (climb.rises <= ENOUGH_RISES * self.period) | stuck
        climb.checked_loss = climb.best_loss
        climb.step_size = torch.where(climb.halved, climb.step_size / 2, climb.step_size)
        climb.back_to_best(climb.halved)
        climb.rises = torch.zeros_like(climb.rises)
        self.period = max(self.period - self.sooner, self.shortest)
        self.next_check += self.period


class Sparse:
    """Steps along the largest partial derivatives only, fewer and fewer of them (Croce & Hein, 2021)."""

    def __init__(self, threat: Threat, steps: int) -> None:
        self.threat = threat
        self.period = max(int(SPARSE_CHECK * steps), 1)

    def start(self, climb: Climb) -> None:
        """After the first evaluation."""
        climb.step_size = torch.full_like(climb.best_loss, SPARSE_FIRST_STEP)
        climb.density = differing(climb.adv, climb.x)

    def move(self, climb: Climb, first: bool) -> Images:
        """One step, in equal shares along the largest derivatives."""
        rows = flat(self.threat.scaled(climb.gradient))
        d = rows.shape[1]
        place = ((1 - climb.density / d / SPARSER) * d).clamp(0, d - 1).long()
        least = rows.abs().sort(dim=1).values.gather(1, place[:, None])
        signs = torch.where(rows.abs() >= least, rows.sign(), 0)
        shared = signs / (signs.abs().sum(1, keepdim=True) + 1e-10)
        step = per_sample(self.threat.eps * climb.step_size, climb.x) * shared.reshape(climb.x.shape)
        return self.threat.project(climb.adv + self.threat.scaled(step), climb.x)

    def check(self, climb: Climb, step: int) -> None:
        """Adapts to the sparsity of the best point; where it hardly became sparser, shortens the step."""
        if step % self.period:
            return
        density = differing(climb.best, climb.x)
        sparser = density / climb.density < STILL_SPARSER
        shorter = (climb.step_size / SPARSER).clamp(min=SPARSE_SHORTEST_STEP)
        climb.step_size = torch.where(sparser, SPARSE_FIRST_STEP, shorter)
        climb.density = density
        climb.back_to_best(sparser)


def differing(adv: Images, x: Images) -> PerSample:
    """The number of features in which each point differs from its input."""
    return (adv != x).flatten(1).sum(1).to(x.dtype)


def direction(gradient: Images, threat: Threat) -> Images:
    """The steepest direction of size 1."""
    if threat.norm == "linf":
        return threat.scaled(gradient.sign())
    gradient = threat.scaled(gradient)
    return threat.scaled(gradient / per_sample(flat(gradient).norm(dim=1) + 1e-12, gradient))
