"""Auto-PGD (Croce & Hein, 2020; l1: 2021): projected ascent that finds its own step size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor, nn

from orat.attacks.apgd_steps import Climb, Halving, Sparse, Stepping
from orat.attacks.balls import BALLS, per_sample
from orat.attacks.pgd import check_images, check_radius, frozen, slope
from orat.attacks.restarts import GPU_PATIENCE, attempts, likeliest, lost
from orat.core.errors import InputError, unknown
from orat.core.losses import cross_entropy, dlr, dlr_targeted
from orat.core.random import Source, fork, normal, source_of, take, uniform
from orat.core.types import Images, Indices, Labels

LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ce": lambda logits, labels, targets: cross_entropy(logits, labels),
    "dlr": lambda logits, labels, targets: dlr(logits, labels),
    "dlr-targeted": dlr_targeted,
}
L1_STAGES = ((3, 0.3), (2, 0.3), (1, 0.4))  # radius in eps, share of the steps: the ball shrinks to its size


@dataclass(frozen=True)
class APGD:
    """Ascends the cross-entropy or a difference-of-logits ratio; targeted, once for each of the likeliest classes."""

    eps: float
    norm: str = "linf"
    loss: str = "ce"
    steps: int = 100
    restarts: int = 1
    targets: int = 9  # at most so many classes are tried with the targeted loss

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)
        if self.loss not in LOSSES:
            raise unknown("loss", self.loss, LOSSES)
        if min(self.steps, self.restarts, self.targets) < 1:
            raise InputError(f"{self}: steps, restarts and targets are 1 or more")

    def __call__(self, model: nn.Module, x: Images, y: Labels, generator: Source | None = None) -> Images:
        """For each sample a point of its ball where the model is wrong, or the last one tried."""
        check_images(x)
        source = source_of(generator, x)

        def attempt(sample: Indices, number: Indices) -> tuple[Images, Tensor]:
            target = ranked[sample, number % targets]
            return self.search(model, x[sample], y[sample], target, sample, fork(take(source, sample), number))

        with frozen(model):
            ranked = likeliest(model, x, y, self.targets if self.loss == "dlr-targeted" else 1)
            targets = ranked.shape[1]
            return attempts(attempt, x, self.restarts * targets)

    def search(
        self, model: nn.Module, x: Images, y: Labels, target: Labels, sample: Indices, source: Source
    ) -> tuple[Images, Tensor]:
        """Where each attempt ended, and whether the model is wrong there."""
        if self.norm != "l1":
            climb = Climb.at(self.begin(x, source), x, y, target, sample)
            return self.ascend(model, climb, Halving(self.norm, self.eps, self.steps), self.steps)
        adv = x + normal(x, source)
        steps = [ceil(share * self.steps) for _, share in L1_STAGES]
        steps[-1] = self.steps - sum(steps[:-1])
        for (radius, _), count in zip(L1_STAGES, steps, strict=True):
            start = BALLS["l1"].project(adv, x, radius * self.eps)
            climb = Climb.at(start, x, y, target, sample)
            adv, broken = self.ascend(model, climb, Sparse(radius * self.eps, count), count, leave=radius == 1)
        return adv, broken

    def begin(self, x: Images, source: Source) -> Images:
        """A random point on the surface of the ball, clipped."""
        noise = 2 * uniform(x, source) - 1 if self.norm == "linf" else normal(x, source)
        return (x + self.eps * noise / per_sample(BALLS[self.norm].size(noise), x)).clamp_(0, 1)

    def ascend(
        self, model: nn.Module, climb: Climb, rule: Stepping, steps: int, leave: bool = True
    ) -> tuple[Images, Tensor]:
        """The steps inside one ball; broken attempts leave, unless the ball is larger than it may be."""
        reached, broken = climb.x.clone(), torch.zeros_like(climb.broken)
        self.look(model, climb)
        rule.start(climb)
        for step in range(1, steps + 1):
            if leave and (step % GPU_PATIENCE == 0 or not climb.x.is_cuda) and climb.broken.any():
                climb = dismiss(climb, reached, broken)
                if not len(climb.x):
                    return reached, broken
            climb.adv, climb.before = rule.move(climb, step == 1), climb.adv
            self.look(model, climb)
            rule.check(climb, step)
        broken[climb.row] = climb.broken
        reached[climb.row] = torch.where(per_sample(climb.broken & leave, climb.x), climb.found, climb.best)
        return reached, broken

    def look(self, model: nn.Module, climb: Climb) -> None:
        """Asks the model at the point that was reached."""
        with torch.enable_grad():
            adv = climb.adv.detach().requires_grad_()
            logits = model(adv)
            loss = LOSSES[self.loss](logits, climb.y, climb.target)
            gradient = slope(loss, adv)
        climb.note(loss.detach(), gradient, logits.detach().argmax(1) != climb.y)


def dismiss(climb: Climb, reached: Images, broken: Tensor) -> Climb:
    """Writes down what is broken, and goes on without any attempt at those samples."""
    rows = climb.row[climb.broken]
    broken[rows], reached[rows] = True, climb.found[climb.broken]
    return climb.take(~lost(climb.broken, climb.sample)[climb.sample])
