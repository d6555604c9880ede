"""The two ways in which Auto-PGD steps and judges its steps: by halving the step (linf, l2), or by sparsity (l1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from orat.attacks.balls import BALLS, flat, per_sample
from orat.core.types import Images, Indices, Labels, PerSample

FIRST_STEP = 2.0  # in eps
MOMENTUM = 0.75  # share of the new move; the rest is the last one's
ENOUGH_RISES = 0.75  # of the steps since the last check must have raised the loss, or the step is halved
FIRST_CHECK, SOONER, SHORTEST = 0.22, 0.03, 0.06  # of all steps: until the first check, less each time, at least

SPARSE_FIRST_STEP = 1.0  # in eps
SPARSE_SHORTEST_STEP = 0.1
SPARSE_CHECK = 0.04  # of all steps between two checks
SPARSER = 1.5  # fewer coordinates move than differ so far, and steps shrink, by this factor
STILL_SPARSER = 0.95  # less than this share of the coordinates of the last check: the step starts anew


@dataclass
class Climb:
    """Where each attempt stands; one row an attempt."""

    x: Images
    y: Labels
    target: Labels
    sample: Indices  # whose attempt it is
    row: Indices  # its place among the attempts that started together
    adv: Images
    before: Images  # where it was one step ago
    gradient: Images
    best: Images
    best_gradient: Images
    best_loss: PerSample
    last_loss: PerSample
    checked_loss: PerSample  # the best one at the last check
    step_size: PerSample  # in eps
    rises: PerSample  # steps since the last check that raised the loss
    halved: Tensor  # at the last check
    density: PerSample  # coordinates in which the best point differed at the last check
    found: Images
    broken: Tensor

    @classmethod
    def at(cls, adv: Images, x: Images, y: Labels, target: Labels, sample: Indices) -> Climb:
        """All attempts before their first look at the model."""
        zero, no = adv.new_zeros(len(x)), torch.zeros(len(x), dtype=torch.bool, device=x.device)
        row = torch.arange(len(x), device=x.device)
        low = torch.full_like(zero, -torch.inf)
        return cls(
            x, y, target, sample, row, adv, adv, torch.zeros_like(x), adv, torch.zeros_like(x), low, zero, low,
            zero, zero, torch.ones_like(no), zero, x, no,
        )  # fmt: skip

    def take(self, rows: Tensor) -> Climb:
        """Only these attempts."""
        return Climb(*(getattr(self, field.name)[rows] for field in fields(self)))

    def note(self, loss: PerSample, gradient: Images, wrong: Tensor) -> None:
        """What the model says of the point that was reached."""
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
        """Some attempts go on from their best point."""
        self.adv = torch.where(per_sample(rows, self.x), self.best, self.adv)
        self.gradient = torch.where(per_sample(rows, self.x), self.best_gradient, self.gradient)


@runtime_checkable
class Stepping(Protocol):
    """How attempts move, and how that is adapted every so many steps."""

    def start(self, climb: Climb) -> None: ...
    def move(self, climb: Climb, first: bool) -> Images: ...
    def check(self, climb: Climb, step: int) -> None: ...


class Halving:
    """Steps of 2 eps with momentum, halved where they stopped helping."""

    def __init__(self, norm: str, eps: float, steps: int) -> None:
        self.norm, self.eps = norm, eps
        self.period = max(int(FIRST_CHECK * steps), 1)
        self.sooner, self.shortest = max(int(SOONER * steps), 1), max(int(SHORTEST * steps), 1)
        self.next_check = self.period

    def start(self, climb: Climb) -> None:
        """After the first look. The first step's rise counts against 0, as in the reference."""
        climb.step_size = torch.full_like(climb.best_loss, FIRST_STEP)
        climb.checked_loss = climb.best_loss
        climb.rises, climb.last_loss = torch.zeros_like(climb.rises), torch.zeros_like(climb.last_loss)

    def move(self, climb: Climb, first: bool) -> Images:
        """One step, then a part of the last move again, each brought back into the ball."""
        ball, adv = BALLS[self.norm], climb.adv
        step = per_sample(self.eps * climb.step_size, adv)
        moved = ball.project(adv + step * direction(climb.gradient, self.norm), climb.x, self.eps)
        if first:
            return moved
        return ball.project(adv + MOMENTUM * (moved - adv) + (1 - MOMENTUM) * (adv - climb.before), climb.x, self.eps)

    def check(self, climb: Climb, step: int) -> None:
        """Halves the step, and goes back to the best point, where too few steps rose or the best did not improve."""
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

    def __init__(self, eps: float, steps: int) -> None:
        self.eps = eps
        self.period = max(int(SPARSE_CHECK * steps), 1)

    def start(self, climb: Climb) -> None:
        """After the first look."""
        climb.step_size = torch.full_like(climb.best_loss, SPARSE_FIRST_STEP)
        climb.density = differing(climb.adv, climb.x)

    def move(self, climb: Climb, first: bool) -> Images:
        """One step that is shared equally among the coordinates with the largest derivatives."""
        rows = flat(climb.gradient)
        d = rows.shape[1]
        place = ((1 - climb.density / d / SPARSER) * d).clamp(0, d - 1).long()
        least = rows.abs().sort(dim=1).values.gather(1, place[:, None])
        signs = torch.where(rows.abs() >= least, rows.sign(), 0)
        shared = signs / (signs.abs().sum(1, keepdim=True) + 1e-10)
        step = per_sample(self.eps * climb.step_size, climb.x) * shared.reshape(climb.x.shape)
        return BALLS["l1"].project(climb.adv + step, climb.x, self.eps)

    def check(self, climb: Climb, step: int) -> None:
        """Takes as many coordinates as the best point has; where they hardly became fewer, shortens the step."""
        if step % self.period:
            return
        density = differing(climb.best, climb.x)
        sparser = density / climb.density < STILL_SPARSER
        shorter = (climb.step_size / SPARSER).clamp(min=SPARSE_SHORTEST_STEP)
        climb.step_size = torch.where(sparser, SPARSE_FIRST_STEP, shorter)
        climb.density = density
        climb.back_to_best(sparser)


def differing(adv: Images, x: Images) -> PerSample:
    """In how many coordinates each point differs from its image."""
    return (adv != x).flatten(1).sum(1).to(x.dtype)


def direction(gradient: Images, norm: str) -> Images:
    """The steepest direction of size 1."""
    if norm == "linf":
        return gradient.sign()
    return gradient / per_sample(BALLS[norm].size(gradient) + 1e-12, gradient)
