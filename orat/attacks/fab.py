"""Fast Adaptive Boundary attack, targeted (Croce & Hein, 2020): the nearest point that the model gets wrong."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from orat.attacks.balls import BALLS, flat, per_sample
from orat.attacks.fab_steps import onto_hyperplane
from orat.attacks.pgd import check_images, check_radius, frozen, slope
from orat.attacks.restarts import GPU_PATIENCE, attempts, likeliest, lost
from orat.core.errors import InputError
from orat.core.random import Source
from orat.core.types import Images, Indices, Labels, PerSample

PULL = 0.1  # largest share of the step from the image itself, which keeps the point near it
OVERSHOOT = 1.05
BACKWARD = 0.9  # share of the way from the image that remains after a success
LEAST_MOVE = 1e-8


@dataclass(frozen=True)
class FAB:
    """Goes to the border toward each of the likeliest classes and back; a success counts if it lies within eps."""

    eps: float
    norm: str = "linf"
    steps: int = 100
    targets: int = 9  # at most so many classes are tried

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)
        if min(self.steps, self.targets) < 1:
            raise InputError(f"{self}: steps and targets are 1 or more")

    def __call__(self, model: nn.Module, x: Images, y: Labels, generator: Source | None = None) -> Images:
        """For each sample a point of its ball where the model is wrong, or the image; nothing here is random."""
        check_images(x)

        def attempt(sample: Indices, number: Indices) -> tuple[Images, Tensor]:
            return self.search(model, x[sample], y[sample], ranked[sample, number], sample)

        with frozen(model):
            ranked = likeliest(model, x, y, self.targets)
            return attempts(attempt, x, ranked.shape[1])

    def search(self, model: nn.Module, x: Images, y: Labels, target: Labels, sample: Indices) -> tuple[Images, Tensor]:
        """A point within eps where the model is wrong, or the image, for each attempt; and which attempts found one."""
        nearest, broken = x.clone(), torch.zeros(len(x), dtype=torch.bool, device=x.device)
        row, adv = torch.arange(len(x), device=x.device), x
        for step in range(self.steps):
            moved = toward_border(*lead(model, adv, y, target), adv, x, self.norm)
            with torch.no_grad():
                wrong = model(moved).argmax(1) != y
            near = wrong & (BALLS[self.norm].size(moved - x) <= self.eps)
            adv = torch.where(per_sample(wrong, x), x + BACKWARD * (moved - x), moved)
            nearest[row] = torch.where(per_sample(near, x), moved, nearest[row])
            broken[row] |= near
            if (step % GPU_PATIENCE == 0 or not x.is_cuda) and broken[row].any():
                stay = ~lost(broken[row], sample)[sample]
                x, y, target, sample, row, adv = (rows[stay] for rows in (x, y, target, sample, row, adv))
                if not len(x):
                    break
        return nearest, broken


def lead(model: nn.Module, adv: Images, y: Labels, target: Labels) -> tuple[PerSample, Images]:
    """By how much the target class leads the labeled one, and the gradient of that."""
    with torch.enable_grad():
        adv = adv.detach().requires_grad_()
        logits = model(adv)
        leads = (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None])).squeeze(1)
        gradient = slope(leads, adv)
    return leads.detach(), gradient


def toward_border(leads: PerSample, gradient: Images, adv: Images, x: Images, norm: str) -> Images:
    """A little beyond the linearized border, from the point and, to a smaller part, from the image."""
    weight = flat(gradient)
    offset = (weight * flat(adv)).sum(1) - leads
    starts = torch.cat([flat(adv), flat(x)])
    moves = onto_hyperplane(starts, weight.repeat(2, 1), offset.repeat(2), norm)
    sizes = BALLS[norm].size(moves).clamp(min=LEAST_MOVE)
    beyond = (starts + OVERSHOOT * moves).reshape(2, *x.shape)
    share = per_sample((sizes[: len(x)] / (sizes[: len(x)] + sizes[len(x) :])).clamp(max=PULL), x)
    return ((1 - share) * beyond[0] + share * beyond[1]).clamp_(0, 1)
