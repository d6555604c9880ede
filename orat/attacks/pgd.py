"""Projected gradient ascent: FGSM, PGD, the paper's CW attack and all training attacks are values of one class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor, nn

from orat.attacks.base import GRADIENT, Ascent, Attack, Move, frozen, moved, wrong
from orat.attacks.restarts import attempts
from orat.attacks.threat import Threat, ThreatLike
from orat.core.errors import InputError, unknown
from orat.core.losses import cross_entropy, cw
from orat.core.random import Randomness, fork, normal, take
from orat.core.types import Images, Indices, Labels

STARTS = ("uniform", "gaussian", "none")
MODES = ("eval", "train")
GAUSSIAN_START = 0.001  # standard deviation, from TRADES


@dataclass(frozen=True)
class PGD(Ascent):
    """Steepest ascent of a loss from a random start, projected after every step (Madry et al., 2018)."""

    any_bounds: ClassVar[bool] = True

    steps: int = 10
    step: float = 0.25  # size of a step, as a share of the radius
    step_size: float | None = None  # size of a step in the units of the input; takes precedence
    start: str = "uniform"
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    mode: str = "eval"  # of the network during the attack; eval: running statistics, no dropout
    restarts: int = 1  # a restart attacks the samples that withstood the attempts before
    inward: bool = True  # whether an l2 step leaves out features that it would push out of the bounds

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InputError(f"steps = {self.steps}: an attack takes 0 or more steps")
        for name in ("step", "step_size"):
            if getattr(self, name) is not None and not getattr(self, name) >= 0:
                raise InputError(f"{name} = {getattr(self, name)}: give a number of 0 or more")
        if self.restarts < 1 or (self.restarts > 1 and self.start == "none"):
            raise InputError(f"restarts = {self.restarts}, start = {self.start}: give 1 or more, from random starts")
        if self.start not in STARTS:
            raise unknown("start", self.start, STARTS)
        if self.mode not in MODES:
            raise unknown("attack mode", self.mode, MODES)

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """The inputs after the last step of the last attempt, or of the first attempt that succeeds."""
        threat, randomness = self.prepared(threat, x, draws)

        if self.restarts == 1:
            return super().__call__(model, x, y, threat, randomness)

        def attempt(sample: Indices, number: Indices) -> tuple[Images, Tensor]:
            labels = y[sample]
            streams = fork(take(randomness, sample), number)
            adv = self.maximize(lambda adv: self.loss(model(adv), labels), x[sample], threat, streams)
            return adv, wrong(model, adv, labels)

        with frozen(model, self.mode):
            return attempts(attempt, x, self.restarts)

    @property
    def single(self) -> bool:
        """Whether there is one attempt."""
        return type(self).__call__ is PGD.__call__ and type(self).maximize is Ascent.maximize and self.restarts == 1

    def work(self, threat: Threat, classes: int) -> int:
        """One gradient per step."""
        return GRADIENT * self.steps * self.restarts

    def climb(
        self,
        uphill: Callable[[Images], Images],
        x: Images,
        threat: Threat,
        randomness: Randomness,
        move: Move | None = None,
    ) -> Images:
        """The inputs after all steps along a gradient."""
        step_size = threat.eps * self.step if self.step_size is None else self.step_size
        step = (move or moved) if self.inward else partial(moved, inward=False)
        adv = self.begin(x, threat, randomness)
        for _ in range(self.steps):
            adv = step(adv, uphill(adv), x, threat, step_size)
        return adv

    def begin(self, x: Images, threat: Threat, randomness: Randomness) -> Images:
        """The start of the ascent."""
        if self.start == "none":
            return x.detach().clone()
        if self.start == "uniform":
            return threat.start(x, randomness).detach()
        return threat.project(x + threat.scaled(GAUSSIAN_START * normal(x, randomness)), x).detach()


# A random start everywhere, steps of a quarter of the radius (FGSM: the radius), CW with confidence 50.
PAPER: dict[str, Attack] = {"fgsm": PGD(1, step=1.0), "pgd20": PGD(20), "cw": PGD(30, loss=cw)}
