"""Fast Adaptive Boundary attack, targeted (Croce & Hein, 2020): the nearest misclassified point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.linalg import vecdot
from torch.nn.functional import pad

from orat.attacks.base import GRADIENT, Attack, frozen
from orat.attacks.restarts import GPU_PATIENCE, attempts, likeliest, lost
from orat.attacks.threat import Threat, ThreatLike, flat, per_sample
from orat.core.errors import InputError
from orat.core.losses import slope
from orat.core.random import Randomness
from orat.core.types import Images, Indices, Labels, PerSample

NEWTON_STEPS = 5
NO_SLOPE = 1e-8  # in l2 and l1, features of less weight do not move: their quotients would overflow

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


def onto_hyperplane(points: Tensor, weight: Tensor, offset: Tensor, norm: str) -> Tensor:
    """The move of least size from each point to the plane weight . z = offset, or to the nearest corner of [0, 1]^d.

    Every feature moves against the sign of its weight, at most to its bound. A move of r closes |weight| r of the gap.
    Norms differ in the proportion of the moves of the features.
    """
    gap = (weight * points).sum(1) - offset
    weight = (2.0 * (gap >= 0) - 1)[:, None].to(weight.dtype) * weight
    room = torch.where(weight > 0, points, 1 - points)
    size = weight.abs()
    if norm != "linf":
        size = torch.where(size > NO_SLOPE, size, 0)
        room = torch.where(size > 0, room, 0)
    return -weight.sign() * MOVES[norm](size, room, gap.abs()[:, None])


def linf_move(size: Tensor, room: Tensor, gap: Tensor) -> Tensor:
    """All features move by the same amount."""
    return torch.minimum(level(size, room, gap), room)


def l2_move(size: Tensor, room: Tensor, gap: Tensor) -> Tensor:
    """Features move in proportion to their weights."""
    limit = room / size.clamp(min=NO_SLOPE)
    return size * torch.minimum(level(size**2, limit, gap), limit)


def l1_move(size: Tensor, room: Tensor, gap: Tensor) -> Tensor:
    """Features move to their bounds in the order of their weights; the last one as far as needed."""
    order = size.argsort(dim=1, descending=True)
    gains = (size * room).gather(1, order)
    open_gap = gap - (gains.cumsum(1) - gains)  # before the turn of this feature
    needed = open_gap.clamp(min=0) / size.gather(1, order).clamp(min=NO_SLOPE)
    return torch.empty_like(room).scatter(1, order, torch.minimum(needed, room.gather(1, order)))


def level(gain: Tensor, limit: Tensor, gap: Tensor) -> Tensor:
    """The common level t at which the sum of gain * min(t, limit) equals the gap; infinite if all limits are reached.

    Newton's method on this concave function nearly always ends after a few steps; the remaining rows are sorted.
    """
    level = gap / gain.sum(1, keepdim=True).clamp(min=torch.finfo(gap.dtype).tiny)
    product = gain * limit
    for _ in range(NEWTON_STEPS):
        beyond = (limit > level).to(gain.dtype)
        slope = vecdot(gain, beyond)[:, None]
        full = vecdot(product, 1 - beyond)[:, None]
        before, level = level, torch.where(slope > 0, (gap - full) / slope, torch.inf)
    rest = (level != before).squeeze(1)
    if rest.any():
        level[rest] = level_by_sorting(gain[rest], limit[rest], gap[rest])
    return level


def level_by_sorting(gain: Tensor, limit: Tensor, gap: Tensor) -> Tensor:
    """The common level, from the sorted limits."""
    limits, order = limit.sort(dim=1)
    gains = gain.gather(1, order)
    full = (gains * limits).cumsum(1)  # of the features at their limits, up to this feature
    slope = pad(gains[:, 1:].flip(1).cumsum(1).flip(1), (0, 1))  # of the features beyond, summed from the small end
    place = (full + slope * limits < gap).sum(1, keepdim=True)  # number of features at their limits
    done = torch.where(place > 0, full.gather(1, (place - 1).clamp(min=0)), 0)
    left = torch.where(place > 0, slope.gather(1, (place - 1).clamp(min=0)), gains.sum(1, keepdim=True))
    return torch.where(place < limit.shape[1], (gap - done) / left.clamp(min=torch.finfo(gap.dtype).tiny), torch.inf)


MOVES = {"linf": linf_move, "l2": l2_move, "l1": l1_move}
