"""Fast Adaptive Boundary attack, targeted (Croce & Hein, 2020): the nearest misclassified point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from orat.attacks.base import GRADIENT, Attack, frozen
from orat.attacks.fab_steps import onto_hyperplane
from orat.attacks.restarts import GPU_PATIENCE, attempts, likeliest, lost
from orat.attacks.threat import Threat, ThreatLike, flat, per_sample
from orat.core.errors import InputError
from orat.core.losses import slope
from orat.core.random import Randomness
from orat.core.types import Images, Indices, Labels, PerSample

PULL = 0.1  # largest weight of the step from the clean input, which keeps the point near
OVERSHOOT = 1.05
BACKWARD = 0.9  # share of the change that remains after a success
LEAST_MOVE = 1e-8


@dataclass(frozen=True)
class FAB(Attack):
    """Moves to the decision boundary of each likely wrong class and back; points farther than eps do not count."""

    exact: ClassVar[bool] = True  # the boundary itself is lost in rounding

    steps: int = 100
    targets: int = 9  # wrong classes at most

    def __post_init__(self) -> None:
        if min(self.steps, self.targets) < 1:
            raise InputError(f"{self}: steps and targets are 1 or more")

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """For each sample an adversarial input, or the clean input; the attack is deterministic."""
        threat, _ = self.prepared(threat, x, draws)

        def attempt(sample: Indices, number: Indices) -> tuple[Images, Tensor]:
            return self.search(model, x[sample], y[sample], ranked[sample, number], sample, threat)

        with frozen(model):
            ranked = likeliest(model, x, y, self.targets)
            return attempts(attempt, x, ranked.shape[1])

    def work(self, threat: Threat, classes: int) -> int:
        """A gradient and a prediction per step."""
        return (GRADIENT + 1) * self.steps * min(self.targets, classes - 1)

    def search(
        self, model: nn.Module, x: Images, y: Labels, target: Labels, sample: Indices, threat: Threat
    ) -> tuple[Images, Tensor]:
        """For each attempt an adversarial input, or the clean input; and which attempts succeeded."""
        nearest, broken = x.clone(), torch.zeros(len(x), dtype=torch.bool, device=x.device)
        row, adv = torch.arange(len(x), device=x.device), x
        for step in range(self.steps):
            moved = toward_border(*lead(model, adv, y, target), adv, x, threat)
            with torch.no_grad():
                wrong = model(moved).argmax(1) != y
            near = wrong & (threat.size(moved - x) <= threat.eps)
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
    """The logit of the target class minus that of the label, and the gradient of this difference."""
    with torch.enable_grad():
        adv = adv.detach().requires_grad_()
        logits = model(adv)
        leads = (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None])).squeeze(1)
        gradient = slope(leads, adv)
    return leads.detach(), gradient


def toward_border(leads: PerSample, gradient: Images, adv: Images, x: Images, threat: Threat) -> Images:
    """A point beyond the linearized boundary: a weighted mean of the steps from the present point and from x."""
    weight = flat(gradient)
    offset = (weight * flat(adv)).sum(1) - leads
    starts = torch.cat([flat(adv), flat(x)])
    moves = onto_hyperplane(starts, weight.repeat(2, 1), offset.repeat(2), threat.norm)
    sizes = threat.size(moves).clamp(min=LEAST_MOVE)
    beyond = (starts + OVERSHOOT * moves).reshape(2, *x.shape)
    share = per_sample((sizes[: len(x)] / (sizes[: len(x)] + sizes[len(x) :])).clamp(max=PULL), x)
    return ((1 - share) * beyond[0] + share * beyond[1]).clamp_(0, 1)
