"""One training step of a method on a small smooth network, with a real attack or with one played from a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from orat.attacks import PGD, Adversary, Threat
from orat.core.types import Batch
from orat.methods import Method, Setting
from orat.methods.base import State

N = 14  # samples: no power of two, so that weights do not come out even by chance
INPUTS = 6


def network(classes: int = 3) -> nn.Sequential:
    """Two layers in double precision, whose outputs differ enough for every weight to matter."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(INPUTS, 8), nn.Tanh(), nn.Linear(8, classes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4
    return model


def samples(classes: int = 3) -> Batch:
    """The whole training set as one batch, of any labels."""
    generator = torch.Generator().manual_seed(2)
    x = torch.rand((N, INPUTS), generator=generator, dtype=torch.float64)
    return Batch(x, torch.randint(classes, (N,), generator=generator), torch.arange(N))


def real_attack(
    steps: int = 4, start: str = "uniform", eps: float = 0.2, seed: int = 0, model: nn.Module | None = None
) -> Adversary:
    """Steps of a quarter of the radius, from this seed, on a network."""
    generator = torch.Generator().manual_seed(seed)
    return Adversary(PGD(steps, start=start), Threat(eps), model or network(), generator)


@dataclass
class Played:
    """An attack whose images and iterates are written down before; it records what it is asked."""

    adv: Tensor
    iterates: Tensor
    model: nn.Module | None = None
    objectives: list[Callable[[Tensor], Tensor]] = field(default_factory=list)
    labels: list[Tensor] = field(default_factory=list)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        """The written images, attacked by the cross-entropy of these labels."""
        self.labels.append(y)
        return self.adv

    def maximize(self, x: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
        """The written images, attacked by this objective."""
        self.objectives.append(objective)
        return self.adv

    def traced(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The written images and iterates, attacked by the cross-entropy of these labels."""
        self.labels.append(y)
        return self.adv, self.iterates

    def logits(self, x: Tensor) -> Tensor:
        """The natural logits, out of the graph."""
        return (self.model or network())(x).detach()


def played(seed: int = 3) -> Played:
    """Images near the samples', and 4 iterates in which these keep their label at none to all of the first."""
    generator, batch = torch.Generator().manual_seed(seed), samples()
    adv = (batch.x + 0.2 * torch.rand(batch.x.shape, generator=generator, dtype=torch.float64) - 0.1).clamp(0, 1)
    iterates = torch.randn((4, N, 3), generator=generator, dtype=torch.float64)
    kept = torch.arange(4)[:, None] < torch.randperm(N, generator=generator) % 5
    elsewhere = nn.functional.one_hot((batch.y + torch.randint(1, 3, (N,), generator=generator)) % 3, 3)
    return Played(adv, iterates + 9 * torch.where(kept[..., None], nn.functional.one_hot(batch.y, 3), elsewhere))


def beyond_first_epoch(
    method: Method, model: nn.Module, batch: Batch, attack: Adversary | Played, classes: int = 3
) -> State:
    """The method's state after an epoch of one step, in which nothing was learned."""
    steps = attack.attack.steps if isinstance(attack, Adversary) else len(attack.iterates)
    state = method.start(Setting(N, N, classes, steps=1, epochs=4, attack_steps=steps)).to(batch.x.device)
    method.loss(model, batch, replace(attack, model=model), state, 1)
    state.end_epoch()
    return state


def second_step(method: Method, attack: Adversary | Played, first: Played | None = None) -> tuple[Tensor, list[Tensor]]:
    """The loss of the second epoch's only step, and its gradient; the first epoch may have had its own attack."""
    model, batch = network(), samples()
    state = beyond_first_epoch(method, model, batch, first or attack)
    loss = method.loss(model, batch, replace(attack, model=model), state, 2)
    return loss, list(torch.autograd.grad(loss, list(model.parameters())))
