"""One training step of a method on a small smooth network, with a real attack or with one played from a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from orat.attacks import PGD, TrainingAttack
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


def real_attack(steps: int = 4, start: str = "uniform", eps: float = 0.2, seed: int = 0) -> TrainingAttack:
    """Steps of a quarter of the radius, from this seed."""
    return TrainingAttack(PGD(eps, steps, start=start), torch.Generator().manual_seed(seed))


@dataclass
class Played:
    """An attack whose images and iterates are written down before; it records what it is asked."""

    adv: Tensor
    iterates: Tensor
    objectives: list[Callable[[Tensor], Tensor]] = field(default_factory=list)
    labels: list[Tensor] = field(default_factory=list)

    def __call__(self, model: nn.Module, batch: Batch) -> Tensor:
        """The written images, attacked by the cross-entropy of the batch's labels."""
        self.labels.append(batch.y)
        return self.adv

    def maximize(self, model: nn.Module, x: Tensor, objective: Callable[[Tensor], Tensor]) -> Tensor:
        """The written images, attacked by this objective."""
        self.objectives.append(objective)
        return self.adv

    def traced(self, model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The written images and iterates, attacked by the cross-entropy of these labels."""
        self.labels.append(y)
        return self.adv, self.iterates

    def view(self, model: nn.Module, x: Tensor) -> Tensor:
        """The natural logits, out of the graph."""
        return model(x).detach()


def played(seed: int = 3) -> Played:
    """Images near the samples', and 4 iterates in which these keep their label at none to all of the first."""
    generator, batch = torch.Generator().manual_seed(seed), samples()
    adv = (batch.x + 0.2 * torch.rand(batch.x.shape, generator=generator, dtype=torch.float64) - 0.1).clamp(0, 1)
    iterates = torch.randn((4, N, 3), generator=generator, dtype=torch.float64)
    kept = torch.arange(4)[:, None] < torch.randperm(N, generator=generator) % 5
    elsewhere = nn.functional.one_hot((batch.y + torch.randint(1, 3, (N,), generator=generator)) % 3, 3)
    return Played(adv, iterates + 9 * torch.where(kept[..., None], nn.functional.one_hot(batch.y, 3), elsewhere))


def beyond_first_epoch(
    method: Method, model: nn.Module, batch: Batch, attack: TrainingAttack | Played, classes: int = 3
) -> State:
    """The method's state after an epoch of one step, in which nothing was learned."""
    steps = attack.pgd.steps if isinstance(attack, TrainingAttack) else len(attack.iterates)
    state = method.start(Setting(N, N, classes, steps=1, epochs=4, attack_steps=steps)).to(batch.x.device)
    method.loss(model, batch, attack, state, 1)
    state.end_epoch()
    return state


def second_step(
    method: Method, attack: TrainingAttack | Played, first: Played | None = None
) -> tuple[Tensor, list[Tensor]]:
    """The loss of the second epoch's only step, and its gradient; the first epoch may have had its own attack."""
    model, batch = network(), samples()
    state = beyond_first_epoch(method, model, batch, first or attack)
    loss = method.loss(model, batch, attack, state, 2)
    return loss, list(torch.autograd.grad(loss, list(model.parameters())))
