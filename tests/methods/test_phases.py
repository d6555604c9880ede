"""Phases: steps of one phase compute the same from the same tensors, so that a record of one may stand for another."""

from __future__ import annotations

from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from one_step import N, network, played, samples
from test_training import ONE_OF_EACH
from torch import Tensor, nn

import orat
from orat.methods import Method, Setting
from orat.methods.base import State

EPOCHS = 9
# Each method, with a turn after the second epoch where it has one, and how many phases nine epochs then have.
PHASES: dict[str, tuple[Method, int]] = {
    "st": (orat.methods.ST(), 1),
    "at": (orat.methods.AT(), 1),
    "trades": (orat.methods.TRADES(beta=6.0), 1),
    "mart": (orat.methods.MART(), 1),
    "gairat": (orat.methods.GAIRAT(burn_in=2), 2),
    "gairat discrete": (orat.methods.GAIRAT(weight="discrete", burn_in=2), 2),
    "gairat from the start": (orat.methods.GAIRAT(burn_in=0), 1),
    "mail": (orat.methods.MAIL(burn_in=2).filled("cifar10"), 2),
    "mail trades": (orat.methods.MAIL(form="trades", burn_in=2).filled("cifar10"), 2),
    "wmmr": (orat.methods.WMMR(alpha=0.5), 1),
    "raa": (orat.methods.RAA(burn_in=2), 2),
    "raa persistent": (orat.methods.RAA(burn_in=2, persistent=True), 2),
    "aorr": (orat.methods.AoRR(m=0.2, k=0.95, burn_in=2, ramp=0), 2),
    "orat": (orat.methods.ORAT(m=0.2, k=0.95, burn_in=2, ramp=0), 2),
    "orat with a ramp": (
        orat.methods.ORAT(m=0.3, k=0.95, burn_in=2, ramp=3),
        5,
    ),  # the mean, then 1, 2, 3 and 4 dropped
    "orat with a long ramp": (
        orat.methods.ORAT(m=0.15, k=0.95, burn_in=1, ramp=6),
        4,
    ),  # the mean, then 0, 1 and 2 dropped
    "orat by scalars": (orat.methods.ORAT(m=0.2, k=0.95, solver="minmax", burn_in=2), 2),
    "orat by scalars with a ramp": (orat.methods.ORAT(m=0.3, k=0.95, solver="minmax", burn_in=2, ramp=3), 5),
}


def test_every_method_is_tried_here() -> None:
    assert {type(method) for method, _ in PHASES.values()} == {type(method) for method in ONE_OF_EACH.values()}


def lived_through(method: Method) -> list[State]:
    """The state before each epoch, as a training brings it there, and after the last."""
    state = method.start(Setting(N, N, 3, steps=1, epochs=EPOCHS, attack_steps=4))
    states = [deepcopy(state)]
    for epoch in range(1, EPOCHS + 1):
        method.loss(network(), samples(), played(epoch), state, epoch)
        state.end_epoch()
        states.append(deepcopy(state))
    return states


def tensors(state: nn.Module) -> dict[str, Tensor]:
    """What of a state a record finds where it lies."""
    return dict(state.named_parameters()) | dict(state.named_buffers())


def step(method: Method, state: State, content: State, epoch: int) -> list[Tensor]:
    """What a step of this epoch gives from the tensors of another state: loss, gradients and the tensors after it."""
    state = deepcopy(state)
    with torch.no_grad():
        for value, other in zip(tensors(state).values(), tensors(content).values(), strict=True):
            value.copy_(other)
    model = network()
    learned = [*model.parameters(), *state.parameters()]
    loss = method.loss(model, samples(), played(5), state, epoch)
    gradients = torch.autograd.grad(loss, learned, allow_unused=True)
    moved = [torch.zeros(()) if gradient is None else gradient for gradient in gradients]
    return [loss.detach(), *moved, *(value.detach() for value in tensors(state).values())]


def same(one: list[Tensor], two: list[Tensor]) -> bool:
    """Whether two steps gave the same, to the bit."""
    return all(torch.equal(*pair) for pair in zip(one, two, strict=True))


@pytest.mark.parametrize("name", PHASES)
def test_steps_are_equal_where_the_phase_is_and_differ_where_it_does(name: str) -> None:
    method, expected = PHASES[name]
    *states, content = lived_through(method)
    first: dict[Hashable, list[Tensor]] = {}
    for epoch, state in enumerate(states, 1):
        outcome = step(method, state, content, epoch)
        assert same(outcome, first.setdefault(method.phase(state, epoch), outcome)), epoch
    assert len(first) == expected
    outcomes = list(first.values())
    assert not any(same(one, two) for one, two in pairwise(outcomes))


@pytest.mark.parametrize("name", PHASES)
def test_a_phase_is_the_same_throughout_an_epoch(name: str) -> None:
    method, _ = PHASES[name]
    for epoch, state in enumerate(lived_through(method)[:-1], 1):
        before = method.phase(state, epoch)
        method.loss(network(), samples(), played(), state, epoch)
        assert method.phase(state, epoch) == before


@dataclass(frozen=True)
class Own(Method):
    """A user's method, which does something else in every epoch and says nothing of it."""

    def loss(self, model: Any, batch: Any, attack: Any, state: Any, epoch: int) -> Tensor:
        """Ever less."""
        return nn.functional.cross_entropy(model(batch.x), batch.y) / epoch


def test_a_method_that_says_nothing_has_a_phase_an_epoch() -> None:
    *states, content = lived_through(Own())
    assert len({Own().phase(state, epoch) for epoch, state in enumerate(states, 1)}) == EPOCHS
    losses = [step(Own(), state, content, epoch)[0] for epoch, state in enumerate(states, 1)]
    assert len(torch.stack(losses).unique()) == EPOCHS
