"""Verdicts and predictions are computed in exact float32, whatever the settings of torch; searches are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import torch
from torch import Tensor, nn

from orat.attacks import FAB, PGD, Attack, CarliniWagner, Threat
from orat.core.device import products
from orat.data.source import Dataset
from orat.evaluation.accuracy import correct, predict
from orat.training.loop import arithmetic

cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul


@pytest.fixture(autouse=True)
def ten_bits() -> Iterator[None]:
    """A setting of torch by the user: products with ten bits of the fraction."""
    with products(exact=False):
        yield


class Told(nn.Module):
    """Class 1 above 0.5 in the first coordinate; records the settings of torch with a gradient and without."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(2, 2)
        self.last.weight.data = torch.tensor([[-1.0, 0.0], [1.0, 0.0]])
        self.last.bias.data = torch.tensor([0.5, -0.5])
        self.exact: dict[bool, list[bool]] = {True: [], False: []}

    def forward(self, x: Tensor) -> Tensor:
        self.exact[x.requires_grad].append(not (cudnn.allow_tf32 or matmul.allow_tf32))
        return self.last(x)


def points() -> Dataset:
    """Eight points on both sides of the boundary."""
    x0 = torch.linspace(0.1, 0.9, 8)
    return Dataset(torch.stack([x0, torch.full_like(x0, 0.3)], 1), (x0 > 0.5).long(), ("low", "high"))


@pytest.mark.parametrize(("attack", "exact"), [(PGD(3), False), (FAB(steps=3), True), (CarliniWagner(steps=3), True)])
def test_verdicts_are_exact_and_so_are_attacks_that_need_every_digit(attack: Attack, exact: bool) -> None:
    model = Told()
    correct(model, points(), {"attack": attack}, Threat(0.1, "l2"))
    assert set(model.exact[True]) == {exact}
    natural, *_, verdict = model.exact[False]
    assert natural
    assert verdict
    assert cudnn.allow_tf32
    assert matmul.allow_tf32


def test_predictions_are_exact() -> None:
    model = Told()
    assert torch.equal(predict(model, points()), points().labels)
    assert model.exact == {True: [], False: [True]}


@pytest.mark.parametrize(("precision", "exact"), [("float32", True), ("tf32", False), ("mixed", False)])
def test_training_has_the_exactness_of_its_precision_and_leaves_torch_as_it_was(precision: str, exact: bool) -> None:
    before, seen = cudnn.benchmark, []
    with suppress(ZeroDivisionError), arithmetic(precision):
        seen.append((cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark))
        raise ZeroDivisionError
    assert seen == [(not exact, not exact, True)]
    assert (cudnn.allow_tf32, matmul.allow_tf32, cudnn.benchmark) == (True, True, before)
