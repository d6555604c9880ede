"""One training step of a method on a small smooth network, with a real or a written attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from orat.attacks import PGD, Threat
from orat.attacks.base import Adversary
from orat.core.types import Batch
from orat.methods import Method, Setting
from orat.methods.base import State, Step

N = 14  # samples: no power of two, so that a mean of weights is not 1 by chance
INPUTS = 6


def network(classes: int = 3) -> nn.Sequential:
    """Two layers in double precision, with outputs that differ enough for every weight to matter."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(INPUTS, 8), nn.Tanh(), nn.Linear(8, classes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4
    return model


def samples(classes: int = 3) -> Batch:
    """The whole training set as one batch, with random labels."""
    generator = torch.Generator().manual_seed(2)
    x = torch.rand((N, INPUTS), generator=generator, dtype=torch.float64)
    return Batch(x, torch.randint(classes, (N,), generator=generator), torch.arange(N))


def adversary(model: nn.Module, eps: float, steps: int, generator: Generator, **more: Any) -> Adversary:
    """The attack of a training step: PGD in linf against this network."""
    return Adversary(PGD(steps, **more), Threat(eps), model, generator)


def radius_and_step_size(attack: Any) -> tuple[float, float | None]:
    """The radius and the size of a step of a training attack."""
    return attack.threat.eps, attack.attack.step_size


def without_input_checks(patch: pytest.MonkeyPatch) -> None:
    """Leaves out the check of the range of inputs, which is made on CPUs only."""
    patch.setattr(Threat, "check_inputs", lambda threat, x: None)


@dataclass(frozen=True)
class Real:
    """PGD with steps of a quarter of the radius; all its steps draw from one generator."""

    steps: int
    start: str
    eps: float
    generator: Generator

    def on(self, model: nn.Module) -> Adversary:
        """The attack against this network."""
        return adversary(model, self.eps, self.steps, self.generator, start=self.start)


def real_attack(
    steps: int = 4, start: str = "uniform", eps: float = 0.2, seed: int = 0, device: str | torch.device = "cpu"
) -> Real:
    """PGD from this seed."""
    return Real(steps, start, eps, Generator(device).manual_seed(seed))


@dataclass
class Played:
    """An attack with written images and iterates; it records the objectives and labels that it is asked to attack."""

    adv: Tensor
    iterates: Tensor
    objectives: list[Callable[[Tensor], Tensor]] = field(default_factory=list)
    labels: list[Tensor] = field(default_factory=list)
    model: nn.Module | None = None

    @property
    def steps(self) -> int:
        """The number of iterates."""
        return len(self.iterates)

    def on(self, model: nn.Module) -> Played:
        """The attack against this network."""
        self.model = model
        return self

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """The written images, for the cross-entropy of these labels."""
        self.labels.append(y)
        return self.adv

    def maximize(self, x: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
        """The written images, for this objective."""
        self.objectives.append(objective)
        return self.adv

    def traced(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The written images and iterates, for the cross-entropy of these labels."""
        self.labels.append(y)
        return self.adv, self.iterates

    def logits(self, x: Tensor) -> Tensor:
        """The logits of the natural images, without a graph."""
        assert self.model is not None
        return self.model(x).detach()


Attack = Real | Played


def played(seed: int = 3) -> Played:
    """Images near the samples, and 4 iterates of which none to all of the first keep the label of a sample."""
    generator, batch = torch.Generator().manual_seed(seed), samples()
    adv = (batch.x + 0.2 * torch.rand(batch.x.shape, generator=generator, dtype=torch.float64) - 0.1).clamp(0, 1)
    iterates = torch.randn((4, N, 3), generator=generator, dtype=torch.float64)
    kept = torch.arange(4)[:, None] < torch.randperm(N, generator=generator) % 5
    elsewhere = nn.functional.one_hot((batch.y + torch.randint(1, 3, (N,), generator=generator)) % 3, 3)
    return Played(adv, iterates + 9 * torch.where(kept[..., None], nn.functional.one_hot(batch.y, 3), elsewhere))


def setting(batch: Batch, classes: int, attack_steps: int = 4, epochs: int = 4) -> Setting:
    """What a method may know of a run with one step per epoch; predictions are sure of the next class of some."""
    n, device = len(batch.y), batch.y.device
    doubted = torch.arange(n, device=device) % 4 == 0
    seen = torch.where(doubted, (batch.y + 1) % classes, batch.y)
    predictions = (6.0 * nn.functional.one_hot(seen, classes)).double().log_softmax(1)
    return Setting(n, n, classes, 1, epochs, (), attack_steps, "uniform", batch.y, predictions)


def loss_of(method: Method, model: nn.Module, batch: Batch, attack: Attack, state: State, epoch: int) -> Tensor:
    """The loss of one step."""
    return method.loss(Step(model, batch, attack.on(model), state, epoch))


def beyond_first_epoch(method: Method, model: nn.Module, batch: Batch, attack: Attack, classes: int = 3) -> State:
    """The state of the method after an epoch of one step, in which the network does not change."""
    state = method.start(setting(batch, classes, attack.steps)).to(batch.x.device)
    loss_of(method, model, batch, attack, state, 1)
    state.end_epoch()
    return state


def second_step(method: Method, attack: Attack, first: Played | None = None) -> tuple[Tensor, list[Tensor]]:
    """The loss and the gradient of the only step of the second epoch; the first epoch may have its own attack."""
    model, batch = network(), samples()
    state = beyond_first_epoch(method, model, batch, first or attack)
    loss = loss_of(method, model, batch, attack, state, 2)
    return loss, list(torch.autograd.grad(loss, list(model.parameters())))
