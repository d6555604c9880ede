"""Auto-PGD (Croce & Hein, 2020; l1: 2021): projected ascent with an adaptive step size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import torch
from torch import Tensor, nn

from orat.attacks.apgd_steps import Climb, Halving, Sparse, Stepping
from orat.attacks.base import GRADIENT, Attack, frozen
from orat.attacks.restarts import GPU_PATIENCE, attempts, likeliest, lost
from orat.attacks.threat import Norm, Threat, ThreatLike, per_sample
from orat.core.errors import InputError, unknown
from orat.core.losses import cross_entropy, dlr, dlr_targeted, slope
from orat.core.random import Randomness, fork, normal, take, uniform
from orat.core.types import Images, Indices, Labels

LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ce": lambda logits, labels, targets: cross_entropy(logits, labels),
    "dlr": lambda logits, labels, targets: dlr(logits, labels),
    "dlr-targeted": dlr_targeted,
}
L1_STAGES = ((3, 0.3), (2, 0.3), (1, 0.4))  # radius in eps, share of the steps: the ball shrinks to its size
# AutoAttack's standard version, by norm; a targeted loss is never restarted.
RESTARTS: dict[Norm, int] = {"linf": 1, "l2": 1, "l1": 5}
TARGETS: dict[Norm, int] = {"linf": 9, "l2": 9, "l1": 5}


@dataclass(frozen=True)
class APGD(Attack):
    """Ascends the cross-entropy or a difference-of-logits ratio; a targeted loss, once per likely wrong class."""

    half: ClassVar[torch.dtype | None] = torch.bfloat16  # its range holds the gradients
    any_bounds: ClassVar[bool] = True

    loss: str = "ce"
    steps: int = 100
    restarts: int | None = None  # as in AutoAttack where None: 5 in l1 without targets, else 1
    targets: int | None = None  # wrong classes at most; as in AutoAttack where None: 5 in l1, else 9

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise unknown("loss", self.loss, LOSSES)
        if min(self.steps, self.restarts or 1, self.targets or 1) < 1 or 0 in (self.restarts, self.targets):
            raise InputError(f"{self}: steps, restarts and targets are 1 or more")

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """For each sample an adversarial input, or the last point tried."""
        threat, randomness = self.prepared(threat, x, draws)

        def attempt(sample: Indices, number: Indices) -> tuple[Images, Tensor]:
            target = ranked[sample, number % targets]
            streams = fork(take(randomness, sample), number)
            return self.search(model, x[sample], y[sample], target, sample, threat, streams)

        with frozen(model):
            ranked = likeliest(model, x, y, self.targets_in(threat.norm))
            targets = ranked.shape[1]
            return attempts(attempt, x, self.restarts_in(threat.norm) * targets)

    def work(self, threat: Threat, classes: int) -> int:
        """A gradient at the start and after every step."""
        targets = min(self.targets_in(threat.norm), classes - 1)
        return GRADIENT * (self.steps + 1) * self.restarts_in(threat.norm) * targets

    def restarts_in(self, norm: Norm) -> int:
        """The attempts per sample and target class."""
        return self.restarts or (1 if self.loss == "dlr-targeted" else RESTARTS[norm])

    def targets_in(self, norm: Norm) -> int:
        """The most target classes per sample; 1 for a loss without target."""
        return (self.targets or TARGETS[norm]) if self.loss == "dlr-targeted" else 1

    def search(
        self,
        model: nn.Module,
        x: Images,
        y: Labels,
        target: Labels,
        sample: Indices,
        threat: Threat,
        randomness: Randomness,
    ) -> tuple[Images, Tensor]:
        """The end of each attempt, and whether it is adversarial."""
        if threat.norm != "l1":
            climb = Climb.at(self.begin(x, threat, randomness), x, y, target, sample)
            return self.ascend(model, climb, Halving(threat, self.steps), self.steps)
        adv = x + threat.scaled(normal(x, randomness))
        steps = [ceil(share * self.steps) for _, share in L1_STAGES]
        steps[-1] = self.steps - sum(steps[:-1])
        for (radius, _), count in zip(L1_STAGES, steps, strict=True):
            stage = replace(threat, eps=radius * threat.eps)
            climb = Climb.at(stage.project(adv, x), x, y, target, sample)
            adv, broken = self.ascend(model, climb, Sparse(stage, count), count, leave=radius == 1)
        return adv, broken

    def begin(self, x: Images, threat: Threat, randomness: Randomness) -> Images:
        """A random point on the surface of the ball, clipped to the bounds."""
        noise = 2 * uniform(x, randomness) - 1 if threat.norm == "linf" else normal(x, randomness)
        noise = threat.scaled(noise)
        return threat.clip(x + threat.eps * noise / per_sample(threat.size(noise), x))

    def ascend(
        self, model: nn.Module, climb: Climb, rule: Stepping, steps: int, leave: bool = True
    ) -> tuple[Images, Tensor]:
        """The steps inside one ball; successful attempts end early, unless the ball is larger than the threat."""
        reached, broken = climb.x.clone(), torch.zeros_like(climb.broken)
        self.evaluate(model, climb)
        rule.start(climb)
        for step in range(1, steps + 1):
            if leave and (step % GPU_PATIENCE == 0 or not climb.x.is_cuda) and climb.broken.any():
                climb = dismiss(climb, reached, broken)
                if not len(climb.x):
                    return reached, broken
            climb.adv, climb.before = rule.move(climb, step == 1), climb.adv
            self.evaluate(model, climb)
            rule.check(climb, step)
        broken[climb.row] = climb.broken
        reached[climb.row] = torch.where(per_sample(climb.broken & leave, climb.x), climb.found, climb.best)
        return reached, broken

    def evaluate(self, model: nn.Module, climb: Climb) -> None:
        """Evaluates loss, gradient and prediction at the present points."""
        with torch.enable_grad():
            adv = climb.adv.detach().requires_grad_()
            logits = model(adv)
            loss = LOSSES[self.loss](logits, climb.y, climb.target)
            gradient = slope(loss, adv)
        climb.note(loss.detach(), gradient, logits.detach().argmax(1) != climb.y)


def dismiss(climb: Climb, reached: Images, broken: Tensor) -> Climb:
    """Stores the adversarial points, and drops all attempts at their samples."""
    rows = climb.row[climb.broken]
    broken[rows], reached[rows] = True, climb.found[climb.broken]
    return climb.take(~lost(climb.broken, climb.sample)[climb.sample])
