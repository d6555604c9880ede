"""The contract of all attacks, the network as an attack sees it, and the attack of one training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from orat.attacks.threat import Threat, ThreatLike
from orat.core.errors import InputError
from orat.core.losses import cross_entropy, gradient_at
from orat.core.random import Randomness, randomness_of
from orat.core.types import Images, Labels, Logits, PerSample
from orat.models.folded import Folded, as_it_is

GRADIENT = 3  # forward passes that a forward and a backward pass cost, about
UNKNOWN_STEPS = 5000  # a guess at the gradients per sample of an attack that does not say

Move = Callable[[Images, Images, Images, Threat, float], Images]  # the signature of `orat.attacks.pgd.moved`


class Attack:
    """An attack: a frozen dataclass of settings, called with a network, inputs in the bounds, labels and a threat.

    A call returns one input per sample: adversarial where the attack succeeds, always within the threat. The attack
    evaluates the network in evaluation mode and leaves modes, gradients and global random state as they were.
    """

    half: ClassVar[torch.dtype | None] = None  # half precision that is good enough to search in
    exact: ClassVar[bool] = False  # whether matrix products need full float32 precision on a GPU
    any_bounds: ClassVar[bool] = False  # whether threats other than [0, 1] without a scale are possible
    mode: str = "eval"  # of the network during the attack: eval or train
    follows_gradients: ClassVar[bool] = True  # whether the attack stands still where no gradient reaches the input

    def __init_subclass__(cls, **more: Any) -> None:
        """Gives every call a threat and random numbers, whatever the caller gives."""
        super().__init_subclass__(**more)
        if "__call__" in vars(cls):
            cls.__call__ = completed(vars(cls)["__call__"])  # type: ignore[method-assign]

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """The attacked inputs; without `draws`, every call starts from the same random numbers."""
        raise NotImplementedError

    @property
    def is_ours(self) -> bool:
        """Whether the attack is part of this package; results of other code are checked more closely."""
        return type(self).__module__.startswith("orat.")

    @property
    def parts(self) -> dict[str, Attack]:
        """The attacks of an ensemble, each for the samples that withstand the attacks before; else empty."""
        return {}

    def work(self, threat: Threat, classes: int) -> int:
        """The forward passes for a sample that withstands the attack, for progress bars."""
        return GRADIENT * UNKNOWN_STEPS

    def check_threat(self, threat: Threat) -> None:
        """Refuses a threat that the attack does not support."""
        if not (threat.plain or self.any_bounds):
            remedy = "use pgd or apgd-ce"
            if not type(self).__module__.startswith("orat."):
                remedy = "set any_bounds = True in the class, and return threat.project(adv, x)"
            raise InputError(
                f"{type(self).__name__} attacks inputs in [0, 1] without a scale: for other bounds, or a scale per "
                f"feature, {remedy}"
            )

    def check_data(self, threat: Threat, shape: tuple[int, ...], classes: int) -> None:
        """Refuses inputs or numbers of classes that the attack does not support."""

    def prepared(self, threat: ThreatLike, x: Images, draws: Randomness | None) -> tuple[Threat, Randomness]:
        """The threat and the randomness of a call, after all checks that need no network."""
        threat = Threat.of(threat)
        self.check_threat(threat)
        threat.check_inputs(x)
        return threat, randomness_of(draws, x)


def completed(call: Callable[..., Images]) -> Callable[..., Images]:
    """The call of an attack, which gets a threat for a radius, and fresh random numbers where the caller has none."""

    @wraps(call)
    def complete(
        self: Attack, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        return call(self, model, x, y, Threat.of(threat), randomness_of(draws, x))

    return complete


class Ascent(Attack):
    """An attack that ascends any objective of the input, not only the loss against a label: a subclass has `climb`."""

    loss: Callable[[Tensor, Tensor], Tensor] = staticmethod(cross_entropy)  # of logits and labels, one number a sample

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """The inputs after an ascent of the loss."""
        threat, randomness = self.prepared(threat, x, draws)
        with frozen(model, self.mode):
            return self.maximize(lambda adv: self.loss(model(adv), y), x, threat, randomness)

    @property
    def single(self) -> bool:
        """Whether a call is one climb of the loss, whose gradients a faster form of the network can give."""
        return type(self).__call__ is Ascent.__call__ and type(self).maximize is Ascent.maximize

    def climb(
        self,
        uphill: Callable[[Images], Images],
        x: Images,
        threat: Threat,
        randomness: Randomness,
        move: Move | None = None,
    ) -> Images:
        """Follows a gradient; `move` is a faster form of a step, for example a compiled form."""
        raise NotImplementedError

    def maximize(
        self, objective: Callable[[Images], PerSample], x: Images, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """Ascends an objective with one number per sample."""
        randomness = randomness_of(draws, x)
        return self.climb(lambda adv: gradient_at(objective, adv), x, Threat.of(threat), randomness)


@contextmanager
def frozen(model: nn.Module, mode: str = "eval") -> Iterator[None]:
    """Puts a network into a mode and takes its parameters out of the graph; restores both afterwards."""
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


def wrong(model: nn.Module, adv: Images, y: Labels) -> Tensor:
    """Which samples the network misclassifies."""
    with torch.no_grad():
        return model(adv).argmax(1) != y


def moved(adv: Images, gradient: Images, x: Images, threat: Threat, step_size: float, inward: bool = True) -> Images:
    """One step along the gradient and back into the threat; no step where the gradient is not finite."""
    return threat.project(adv + step_size * threat.ascend(gradient.nan_to_num(0, 0, 0), adv, inward), x)


@runtime_checkable
class Sight(Protocol):
    """A faster form of the network in evaluation mode, and of the steps of an attack."""

    stale: bool  # whether the network has learned since the last update

    def logits(self, x: Tensor) -> Tensor:
        """The logits of the network."""
        ...

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each image."""
        ...

    @property
    def move(self) -> Move:
        """A faster form of `moved`."""
        ...


@dataclass(frozen=True)
class Adversary:
    """The attack of one training step, as a method sees it."""

    attack: Attack
    threat: Threat
    model: nn.Module
    generator: Randomness
    sight: Sight | None = None  # replaces the network where given

    def __call__(self, x: Images, y: Labels) -> Images:
        """The images after an attack on the loss of the attack, by default their cross-entropy."""
        attack, sight = self.attack, self.sight
        if sight is None or not isinstance(attack, Ascent) or not attack.single:
            return attack(self.model, x, y, self.threat, self.generator)
        if attack.loss is not cross_entropy:
            return self.maximize(x, lambda logits: attack.loss(logits, y))
        return attack.climb(lambda adv: sight.gradient(adv, y), x, self.threat, self.generator, sight.move)

    def maximize(self, x: Images, objective: Callable[[Tensor], Tensor]) -> Images:
        """The images after an attack on an objective of the logits, one number per sample."""
        attack = self.attack
        assert isinstance(attack, Ascent)
        if self.sight is not None and type(attack).maximize is Ascent.maximize:
            logits = self.sight.logits
            uphill = partial(gradient_at, lambda adv: objective(logits(adv)))
            return attack.climb(uphill, x, self.threat, self.generator, self.sight.move)
        self.threat.check_inputs(x)
        with frozen(self.model, attack.mode):
            return attack.maximize(lambda adv: objective(self.model(adv)), x, self.threat, self.generator)

    def traced(self, x: Images, y: Labels) -> tuple[Images, Tensor]:
        """The images after an attack on their loss, and the logits before each step: (steps, n, classes)."""
        iterates = []
        loss = getattr(self.attack, "loss", cross_entropy)

        def objective(logits: Tensor) -> Tensor:
            iterates.append(logits.detach())
            losses: Tensor = loss(logits, y)
            return losses

        adv = self.maximize(x, objective)
        if {len(logits) for logits in iterates} != {len(x)}:
            raise InputError("the method counts the steps of the attack: evaluate all samples in one step or more")
        return adv, torch.stack(iterates)

    def logits(self, x: Images) -> Logits:
        """The logits as the attack sees them: in its mode, without a graph."""
        with torch.no_grad():
            if self.sight is not None:
                return self.sight.logits(x)
            with frozen(self.model, self.attack.mode):
                logits: Tensor = self.model(x)
                return logits


class FoldedSight:
    """A folded network for the attacks of a step, refreshed at the first look of each step."""

    def __init__(self, model: nn.Module, dtype: torch.dtype, quick: Callable[..., Any]) -> None:
        folded = Folded(model, dtype, pools=quick is not as_it_is)
        self.stale = True
        self.refresh = folded.refresh
        self.folded = quick(folded.forward)
        self.uphill = partial(uphill, folded) if quick is as_it_is else quick(partial(uphill_in_one, folded))
        self.move = quick(moved)

    def update(self) -> None:
        """Copies the network's weights if they have changed."""
        if self.stale:
            self.refresh()
            self.stale = False

    def logits(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        self.update()
        return self.folded(x)

    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the cross-entropy of each sample."""
        self.update()
        return self.uphill(x, y)


def uphill(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the cross-entropy of each sample."""
    return gradient_at(lambda images: cross_entropy(network(images), y), x)


def uphill_in_one(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of the cross-entropy as a single function to compile: both passes can share kernels."""
    return torch.func.grad(lambda images: cross_entropy(network(images), y).sum())(x)
