"""The generalization gap of linear functions on a toy set, measured beside the bound of Theorem 3.

The test points of the toy set, some with a wrong label, are the whole distribution. So training sets are i.i.d., as
the theorem assumes, and the risk of the distribution is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor

from orat.core.console import SILENT, Display
from orat.core.errors import InputError
from orat.methods.ranked_range import ranked_range
from orat_paper import toy_sets as toy
from orat_paper.theory.calibration import logistic
from orat_paper.theory.complexity import input_reach, linear_complexity, worst_margins
from orat_paper.theory.generalization import Bound, Setting, linear_bound

LR, STEPS = 20.0, 60  # of the gradient descent; points are 0.1 apart, so weights must grow to about 10
DIRECTIONS = 72
DELTA = 0.05  # probability that the bound fails


@dataclass(frozen=True)
class Task:
    """A learning task: linear functions with ||theta||_p <= radius, ORAT with logistic loss, a toy set."""

    toy: str = "toy-imbalanced-2"
    outliers: float = 0.1  # the share of wrong labels
    nu: float = 0.8
    mu: float = 0.1
    eps: float = 0.01
    radius: float = 20.0
    p: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.nu > 0 and self.mu >= 0 and self.nu + self.mu <= 1):
            raise InputError(f"nu = {self.nu}, mu = {self.mu}: these shares need nu > 0, mu >= 0 and nu + mu <= 1")


@dataclass(frozen=True)
class Sample:
    """Points of the plane around the origin, with labels 1 and -1."""

    points: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Gap:
    """The risk of the distribution minus the risk of n training points, one number a draw."""

    n: int
    trained: tuple[float, ...]  # of the function trained on the draw
    largest: tuple[float, ...]  # among functions of the largest norm, in all directions
    bound: Bound  # the least of all draws


def distribution(task: Task) -> Sample:
    """All points, with equal probabilities."""
    data = toy.read(task.toy).test
    assert data is not None  # toy sets always have one
    generator = torch.Generator().manual_seed(task.seed)
    labels = 2.0 * data.labels.double() - 1
    flipped = torch.randperm(len(labels), generator=generator)[: round(task.outliers * len(labels))]
    labels[flipped] *= -1
    return Sample(data.images.double() - 0.5, labels)


def draw(source: Sample, n: int, generator: torch.Generator) -> Sample:
    """n points, drawn with replacement."""
    chosen = torch.randint(0, len(source.labels), (n,), generator=generator)
    return Sample(source.points[chosen], source.labels[chosen])


def risk(weights: Tensor, sample: Sample, task: Task) -> Tensor:
    """The ORAT risk: the ranked range of the losses under the strongest attack, exact for linear functions."""
    losses = logistic(worst_margins(weights, sample.points, sample.labels, task.eps))
    k, m = ranks(len(losses), task)
    return ranked_range(losses, k, m)


def ranks(n: int, task: Task) -> tuple[int, int]:
    """k and m at the shares of the theorem, which must give whole numbers."""
    k, m = (task.nu + task.mu) * n, task.mu * n
    if abs(k - round(k)) > 1e-6 or abs(m - round(m)) > 1e-6:
        raise InputError(f"n = {n}: nu = {task.nu} and mu = {task.mu} of n give no whole numbers, k = {k:g}, m = {m:g}")
    return round(k), round(m)


def train(sample: Sample, task: Task) -> Tensor:
    """Gradient descent on the ORAT risk, scaled back into the class after every step."""
    weights = torch.full((sample.points.shape[1],), 0.1, dtype=torch.float64, requires_grad=True)
    for step in range(STEPS):
        (gradient,) = torch.autograd.grad(risk(weights, sample, task), weights)
        with torch.no_grad():
            weights -= LR * (1 - step / STEPS) * gradient
            weights *= min(1.0, task.radius / weights.norm(task.p).item())
    return weights.detach()


def largest_gap(source: Sample, sample: Sample, task: Task) -> float:
    """The largest gap among functions of the largest norm, in all directions of the plane."""
    angles = torch.arange(DIRECTIONS, dtype=torch.float64) * 2 * pi / DIRECTIONS
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    functions = task.radius * circle / circle.norm(task.p, dim=1, keepdim=True)
    return max((risk(weights, source, task) - risk(weights, sample, task)).item() for weights in functions)


def gap_bound(source: Sample, sample: Sample, task: Task, delta: float = DELTA) -> Bound:
    """Theorem 3 for the class of the task and a training set."""
    n, dimension = sample.points.shape
    # No function of the class has a margin below -margin.
    margin = task.radius * input_reach(source.points.abs().max().item(), dimension, task.p, task.eps)
    loss_max = logistic(torch.tensor(-margin, dtype=torch.float64)).item()
    setting = Setting(n, task.nu, loss_max, delta=delta)
    complexity = linear_complexity(sample.points, task.radius, task.p)
    return linear_bound(complexity, dimension, task.radius, task.p, task.eps, setting)


def measured_gaps(task: Task, sizes: Iterable[int], draws: int = 20, display: Display = SILENT) -> list[Gap]:
    """The gap at every number of training points, over fresh draws."""
    sizes = tuple(sizes)
    if draws < 1:
        raise InputError(f"draws = {draws}: give 1 or more")
    for n in sizes:
        ranks(n, task)
    source = distribution(task)
    generator = torch.Generator().manual_seed(task.seed + 1)
    wanted = [n for n in sizes for _ in range(draws)]
    samples = [draw(source, n, generator) for n in wanted]
    trained, largest = [], []
    for sample in display.track(samples, "draws of training points", len(samples)):
        weights = train(sample, task)
        trained.append((risk(weights, source, task) - risk(weights, sample, task)).item())
        largest.append(largest_gap(source, sample, task))
    bounds = [gap_bound(source, sample, task) for sample in samples]
    parts = [slice(place * draws, (place + 1) * draws) for place in range(len(sizes))]
    return [
        Gap(n, tuple(trained[part]), tuple(largest[part]), min(bounds[part], key=lambda bound: bound.value))
        for n, part in zip(sizes, parts, strict=True)
    ]
