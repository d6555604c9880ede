"""The one projected-gradient core: every gradient attack of the package is a value of it, or calls `maximize`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from orat.attacks.balls import BALLS
from orat.attacks.restarts import attempts
from orat.core.errors import InputError, unknown
from orat.core.losses import cross_entropy
from orat.core.random import Source, fork, normal, source_of, take
from orat.core.types import Images, Indices, Labels, PerSample

STARTS = ("uniform", "gaussian", "none")
MODES = ("eval", "train")
GAUSSIAN_START = 0.001  # TRADES starts this near


@runtime_checkable
class Attack(Protocol):
    """Anything that turns images in [0, 1] into worse ones."""

    def __call__(self, model: nn.Module, x: Images, y: Labels, generator: Source | None = None) -> Images: ...


@contextmanager
def frozen(model: nn.Module, mode: str = "eval") -> Iterator[None]:
    """The model as an attack sees it: in this mode, its parameters out of the graph; restored afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    learned = [p for p in model.parameters() if p.requires_grad]
    model.train(mode == "train")
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter in learned:
            parameter.requires_grad_(True)


@dataclass(frozen=True)
class PGD:
    """Steepest ascent of a per-sample loss from a random start, projected after every step (Madry et al., 2018)."""

    eps: float
    steps: int = 10
    step_size: float | None = None  # a quarter of eps, as in the paper, where not given
    norm: str = "linf"
    start: str = "uniform"
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    mode: str = "eval"  # of the model during the attack: its running statistics, no dropout
    restarts: int = 1  # attempts from other starts at what the former did not break

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)
        if self.steps < 0:
            raise InputError(f"steps = {self.steps}: an attack takes 0 or more steps")
        if self.step_size is not None and not self.step_size >= 0:
            raise InputError(f"step_size = {self.step_size}: give a number of 0 or more")
        if self.restarts < 1 or (self.restarts > 1 and self.start == "none"):
            raise InputError(f"restarts = {self.restarts}, start = {self.start}: give 1 or more, from random starts")
        if self.start not in STARTS:
            raise unknown("start", self.start, STARTS)
        if self.mode not in MODES:
            raise unknown("attack mode", self.mode, MODES)

    def __call__(self, model: nn.Module, x: Images, y: Labels, generator: Source | None = None) -> Images:
        """The images x moved inside their eps-balls and [0, 1] so that the loss against y grows.

        Without a generator the starts are the same at every call: for a test that is repeatable, not for training.
        """
        check_images(x)
        source = source_of(generator, x)

        def attempt(sample: Indices, number: Indices) -> tuple[Images, Tensor]:
            labels = y[sample]
            streams = fork(take(source, sample), number)
            adv = self.maximize(lambda adv: self.loss(model(adv), labels), x[sample], streams)
            return adv, wrong(model, adv, labels)

        with frozen(model, self.mode):
            if self.restarts == 1:
                return self.maximize(lambda adv: self.loss(model(adv), y), x, source)
            return attempts(attempt, x, self.restarts)

    def maximize(self, objective: Callable[[Images], PerSample], x: Images, generator: Source | None = None) -> Images:
        """Ascends any objective of the input that gives one number per sample."""
        return self.climb(lambda adv: gradient_at(objective, adv), x, generator)

    def climb(
        self,
        uphill: Callable[[Images], Images],
        x: Images,
        generator: Source | None = None,
        move: Callable[..., Images] | None = None,
    ) -> Images:
        """Goes where a gradient leads; `move` stands for `moved` if given."""
        step_size = self.eps / 4 if self.step_size is None else self.step_size
        adv = self.begin(x, source_of(generator, x))
        for _ in range(self.steps):
            adv = (move or moved)(adv, uphill(adv), x, self.norm, self.eps, step_size)
        return adv

    def begin(self, x: Images, source: Source) -> Images:
        """Where the ascent starts."""
        if self.start == "none":
            return x.detach().clone()
        ball = BALLS[self.norm]
        noise = GAUSSIAN_START * normal(x, source) if self.start == "gaussian" else self.eps * ball.start(x, source)
        return ball.project(x + noise, x, self.eps).detach()


def moved(adv: Images, gradient: Images, x: Images, norm: str, eps: float, step_size: float) -> Images:
    """One step along the gradient, and back into the ball around x; no step where the gradient is no number."""
    ball = BALLS[norm]
    return ball.project(adv + step_size * ball.ascend(gradient.nan_to_num(0, 0, 0), adv), x, eps)


def slope(losses: PerSample, x: Images) -> Images:
    """The gradient of each loss by its input; 0 where the model cuts the graph or gives no number."""
    return gradient_of(losses, x).nan_to_num(0, 0, 0)


def gradient_at(objective: Callable[[Images], PerSample], x: Images) -> Images:
    """The gradient of each number by its input, also where the caller evaluates without gradients."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return gradient_of(objective(x), x)


def gradient_of(losses: PerSample, x: Images) -> Images:
    """The gradient of each loss by its input; 0 where the model cuts the graph."""
    if not losses.requires_grad:
        return torch.zeros_like(x)
    (gradient,) = torch.autograd.grad(losses.sum(), x, allow_unused=True)
    return torch.zeros_like(x) if gradient is None else gradient


def wrong(model: nn.Module, adv: Images, y: Labels) -> Tensor:
    """Which samples the model does not give their label."""
    with torch.no_grad():
        return model(adv).argmax(1) != y


def check_radius(eps: float, norm: str) -> None:
    """Refuses a radius on the wrong scale."""
    if norm not in BALLS:
        raise unknown("norm", norm, BALLS)
    if not eps >= 0:
        raise InputError(f"eps = {eps}: the radius of an attack is 0 or more")
    if eps == float("inf"):
        raise InputError("eps = inf: the radius of an attack is a finite number")
    if norm == "linf" and eps > 1:
        raise InputError(f"eps = {eps:g} is more than the whole range of a pixel in [0, 1]: did you mean {eps:g}/255?")


def check_images(x: Images) -> None:
    """Refuses inputs outside [0, 1]; on a GPU that would wait for the device, so there only `evaluate` looks."""
    if x.is_cuda or x.numel() == 0:
        return
    low, high = x.detach().min().item(), x.detach().max().item()
    if not (low >= 0 and high <= 1):
        raise InputError(
            f"inputs run from {low:g} to {high:g}, but attacks live in [0, 1]: divide pixels by 255, "
            f"and put normalization inside the model as its first layer"
        )
