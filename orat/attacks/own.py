"""Attacks of a user: a class, a value or a function, and checks of their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from orat.attacks.base import Adversary, Ascent, Attack, frozen
from orat.attacks.threat import ROUNDING, Threat, ThreatLike
from orat.core.errors import InputError
from orat.core.random import Draws, Randomness, seeded
from orat.core.registry import as_input_error
from orat.core.types import Images, Labels


@dataclass(frozen=True)
class Function(Attack):
    """A function attack(model, x, y, threat, draws), called with the network frozen in evaluation mode."""

    any_bounds: ClassVar[bool] = True  # the results are checked

    is_ours: ClassVar[bool] = False

    function: Callable[..., object]
    name: str

    def __call__(
        self, model: nn.Module, x: Images, y: Labels, threat: ThreatLike, draws: Randomness | None = None
    ) -> Images:
        """The result of the function, which is one input per sample."""
        threat, randomness = self.prepared(threat, x, draws)
        with frozen(model, self.mode), torch.enable_grad():
            return check_form(self.function(model, x, y, threat, randomness), x, self.name)

    def __str__(self) -> str:
        return self.name


def as_attack(given: Any, name: str) -> Attack:
    """The attack of a class, which is called without arguments, of a value as it is, or of a function."""
    if isinstance(given, type) and issubclass(given, Attack):
        with as_input_error(f"{name}()", "give its fields defaults, or name a value, such as MINE = MyAttack(3)"):
            given = given()
    if isinstance(given, Attack):
        check_calls(type(given))
        return given
    if inspect.isroutine(given):
        return Function(given, name)
    kind = f"class {given.__name__}" if isinstance(given, type) else f"value of type {type(given).__name__}"
    raise InputError(
        f"{name} is a {kind}, no attack: give a class derived from orat.Attack, a value of one, or a function "
        "attack(model, x, y, threat, draws)"
    )


def check_calls(cls: type[Attack]) -> None:
    """Refuses a class that does not say how it attacks."""
    if cls.__call__ is Attack.__call__:
        raise InputError(f"{cls.__name__} has no __call__: define __call__(self, model, x, y, threat, draws=None)")
    if issubclass(cls, Ascent) and cls.climb is Ascent.climb and cls.maximize is Ascent.maximize:
        raise InputError(f"{cls.__name__} has no climb: define climb(self, uphill, x, threat, draws, move=None)")


def check_form(adv: object, x: Images, name: str) -> Images:
    """The result of an attack; refuses all but one input per sample, like the inputs before. Waits for no device."""
    if not isinstance(adv, Tensor):
        raise InputError(f"the attack {name} gives {type(adv).__name__}: return the attacked inputs, a tensor")
    found, wanted = ((tuple(one.shape), one.dtype, one.device) for one in (adv, x))
    if found != wanted:
        difference = next((a, b) for a, b in zip(found, wanted, strict=True) if a != b)
        raise InputError(f"the attack {name} gives inputs of {difference[0]}: return inputs of {difference[1]}")
    return adv.detach()


def check_inside(adv: Images, x: Images, threat: Threat, name: str) -> None:
    """Refuses inputs that are NaN or outside of the threat."""
    if bool(threat.allows(adv, x).all()):
        return
    if broken := int(adv.flatten(1).isnan().any(1).sum()):
        raise InputError(f"the attack {name} gives NaN for {broken} of {len(x)} inputs: look at its gradients")
    size, (low, high) = float(threat.size(adv - x).max()), threat.bounds(x)
    outside, found = bool(((adv < low) | (adv > high)).any()), []
    if not outside or size > threat.eps + ROUNDING:
        found.append(f"went {size:g} far in {threat.norm}, and the radius is {threat.eps:g}")
    if outside:
        limits = f"[{low:g}, {high:g}]" if isinstance(low, float) and isinstance(high, float) else "one per feature"
        values = f"{float(adv.min()):g} to {float(adv.max()):g}"
        found.append(f"left the bounds of the inputs, {limits}, with values from {values}")
    raise InputError(f"the attack {name} {' and '.join(found)}: return threat.project(adv, x)")


@contextmanager
def unchanged(attack: Attack, name: str, model: nn.Module, closely: bool = False) -> Iterator[None]:
    """Refuses an attack of a user that changes the network; `closely` finds changes through `.data`, too."""
    if attack.is_ours:
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    kept = dict(model.named_parameters()) | ({} if attack.mode == "train" else dict(model.named_buffers()))
    before = {key: (value._version, bits(value).clone() if closely else None) for key, value in kept.items()}
    yield
    if any(module.training != mode for module, mode in modes):
        for module, mode in modes:
            module.training = mode
        raise InputError(f"the attack {name} leaves the network in another mode: leave train() and eval() out of it")
    for key, (version, values) in before.items():
        if kept[key]._version != version or (values is not None and not torch.equal(bits(kept[key]), values)):
            raise InputError(f"the attack {name} changes {key} of the network: work on a copy of it (copy.deepcopy)")


def bits(value: Tensor) -> Tensor:
    """The bytes of a tensor, in which NaN is equal to itself."""
    return value.detach().contiguous().flatten().view(torch.uint8)


def watched(
    attack: Attack,
    name: str,
    model: nn.Module,
    x: Images,
    y: Labels,
    threat: Threat,
    draws: Draws,
    closely: bool = False,
) -> Images:
    """The checked result of an attack in an evaluation, the same at every call.

    The attack gets copies of inputs and labels, and what it draws from global generators is seeded.
    """
    with seeded(int(draws.keys[0]), x.device), unchanged(attack, name, model, closely):
        adv = attack(model, x.clone(), y.clone(), threat, draws)
    found = check_form(adv, x, name)
    check_inside(found, x, threat, name)
    return found


def try_out(attacks: Mapping[str, Attack], model: nn.Module, x: Images, y: Labels, threat: Threat) -> None:
    """Refuses attacks of a user that fail on a few samples, and names each of them."""
    errors = []
    for name, attack in attacks.items():
        draws = Draws.of(0, torch.arange(len(x), device=x.device))
        try:
            with as_input_error(f"the attack {name}", "correct the code"):
                watched(attack, name, model, x, y, threat, draws, closely=True)
        except InputError as error:
            errors.append(str(error))
    if errors:
        raise InputError("; ".join(errors))


@dataclass(frozen=True)
class CheckedAdversary(Adversary):
    """The attack of one training step by an attack that a run names, with checked results."""

    name: str = ""
    everywhere: bool = False  # check positions on a GPU too, where a check waits for the device

    def __call__(self, x: Images, y: Labels) -> Images:
        """The attacked images, by the network in the mode of the attack."""
        with frozen(self.model, self.attack.mode), torch.enable_grad():
            with unchanged(self.attack, self.name, self.model, self.everywhere):
                adv = super().__call__(x.clone(), y.clone())
            return self.checked(adv, x)

    def maximize(self, x: Images, objective: Callable[[Tensor], Tensor]) -> Images:
        """The images after an attack on an objective of the logits, one number per sample."""
        if not isinstance(self.attack, Ascent):
            raise InputError(
                f"the method ascends an objective of its own, and the attack {self.name} attacks labels only: derive "
                "the attack from orat.attacks.Ascent, or leave --attack out"
            )
        return self.checked(super().maximize(x.clone(), objective), x)

    def checked(self, adv: object, x: Images) -> Images:
        """The attacked images if they are within the threat."""
        found = check_form(adv, x, self.name)
        if self.everywhere or not x.is_cuda:
            check_inside(found, x, self.threat, self.name)
        return found
