"""Phases: equal tensors give equal steps within a phase, so that one recorded step can stand for all of them."""

from __future__ import annotations

from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from one_step import loss_of, network, played, samples, setting
from quick_runs import EVERY
from torch import Tensor, nn

from orat.core.losses import cross_entropy
from orat.methods import AT, GAIRAT, MAIL, MART, ORAT, RAA, ST, TRADES, WMMR, AoRR, Method
from orat.methods.base import State, Step

EPOCHS = 9
# Methods that leave their plain form after the second epoch, and the number of phases in nine epochs.
PHASES: dict[str, tuple[Method, int]] = {
    "st": (ST(), 1),
    "at": (AT(), 1),
    "trades": (TRADES(beta=6.0), 1),
    "mart": (MART(), 1),
    "gairat": (GAIRAT(burn_in=2), 2),
    "gairat discrete": (GAIRAT(weight="discrete", burn_in=2), 2),
    "gairat from the start": (GAIRAT(burn_in=0), 1),
    "mail": (MAIL(burn_in=2).filled("cifar10"), 2),
    "mail trades": (MAIL(form="trades", burn_in=2).filled("cifar10"), 2),
    "wmmr": (WMMR(alpha=0.5), 1),
    "raa": (RAA(burn_in=2), 2),
    "raa persistent": (RAA(burn_in=2, persistent=True), 2),
    "aorr": (AoRR(m=0.2, k=0.95, burn_in=2, ramp=0), 2),
    "orat": (ORAT(m=0.2, k=0.95, burn_in=2, ramp=0), 2),
    "orat with a ramp": (ORAT(m=0.3, k=0.95, burn_in=2, ramp=3), 5),  # the mean, then 1, 2, 3 and 4 dropped
    "orat with a long ramp": (ORAT(m=0.15, k=0.95, burn_in=1, ramp=6), 4),  # the mean, then 0, 1 and 2 dropped
    "orat by scalars": (ORAT(m=0.2, k=0.95, solver="minmax", burn_in=2), 2),
    "orat by scalars with a ramp": (ORAT(m=0.3, k=0.95, solver="minmax", burn_in=2, ramp=3), 5),
    "orat by measured scalars": (ORAT(m=0.2, k=0.95, solver="minmax-measured", burn_in=2), 2),
    "orat automatic": (ORAT(), 1),  # verdicts change tensors alone
}


def test_every_method_is_here() -> None:
    assert {type(method) for method, _ in PHASES.values()} == {type(method) for method in EVERY.values()}


def trained(method: Method) -> list[State]:
    """The state before each epoch, and after the last."""
    state = method.start(setting(samples(), 3, epochs=EPOCHS))
    states = [deepcopy(state)]
    for epoch in range(1, EPOCHS + 1):
        loss_of(method, network(), samples(), played(epoch), state, epoch)
        state.end_epoch()
        states.append(deepcopy(state))
    return states


def tensors(state: nn.Module) -> dict[str, Tensor]:
    """The tensors of a state, which a recorded step finds at their place in memory."""
    return dict(state.named_parameters()) | dict(state.named_buffers())


def outcome(method: Method, state: State, content: State, epoch: int) -> list[Tensor]:
    """Loss, gradients and tensors after a step of this epoch with the tensors of another state."""
    state = deepcopy(state)
    with torch.no_grad():
        for value, other in zip(tensors(state).values(), tensors(content).values(), strict=True):
            value.copy_(other)
    model = network()
    learned = [*model.parameters(), *state.parameters()]
    loss = loss_of(method, model, samples(), played(5), state, epoch)
    gradients = torch.autograd.grad(loss, learned, allow_unused=True)
    moved = [torch.zeros(()) if gradient is None else gradient for gradient in gradients]
    return [loss.detach(), *moved, *(value.detach() for value in tensors(state).values())]


def same(one: list[Tensor], two: list[Tensor]) -> bool:
    """Whether two outcomes are equal to the bit."""
    return all(torch.allclose(*pair, rtol=0, atol=0, equal_nan=True) for pair in zip(one, two, strict=True))


@pytest.mark.parametrize("name", PHASES)
def test_steps_are_equal_in_one_phase_and_differ_between_phases(name: str) -> None:
    method, expected = PHASES[name]
    *states, content = trained(method)
    first: dict[Hashable, list[Tensor]] = {}
    for epoch, state in enumerate(states, 1):
        result = outcome(method, state, content, epoch)
        assert same(result, first.setdefault(method.phase(state, epoch), result)), epoch
    assert len(first) == expected
    assert not any(same(one, two) for one, two in pairwise(first.values()))


@pytest.mark.parametrize("name", PHASES)
def test_a_step_does_not_change_the_phase(name: str) -> None:
    method, _ = PHASES[name]
    for epoch, state in enumerate(trained(method)[:-1], 1):
        before = method.phase(state, epoch)
        loss_of(method, network(), samples(), played(), state, epoch)
        assert method.phase(state, epoch) == before


@dataclass(frozen=True)
class Falling(Method):
    """A method of a user without a phase of its own: the loss falls with the epochs."""

    def loss(self, step: Step) -> Tensor:
        """The mean loss, divided by the epoch."""
        return cross_entropy(step.model(step.batch.x), step.batch.y).mean() / step.epoch


def test_a_method_without_a_phase_of_its_own_has_one_phase_per_epoch() -> None:
    *states, content = trained(Falling())
    assert len({Falling().phase(state, epoch) for epoch, state in enumerate(states, 1)}) == EPOCHS
    losses = [outcome(Falling(), state, content, epoch)[0] for epoch, state in enumerate(states, 1)]
    assert len(torch.stack(losses).unique()) == EPOCHS
