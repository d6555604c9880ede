"""The split of disagreements on planted curves: mistakes of a network, and wrong labels."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from orat.noise.disagreement import (
    HUMAN,
    RISE,
    TWO_NETWORKS,
    Curves,
    Order,
    fitted,
    human_rise,
    independent,
    levels,
    split,
)

CLASSES = 10
NONE = -20.0  # log-odds of what never happens


class Planted(NamedTuple):
    """Predictions, labels and what is true."""

    order: Order
    wrong: Tensor
    mistaken: Tensor


def planted(
    wrong: float, rise: float, mistaken: float, n: int = 20_000, second: bool = False, seed: int = 0
) -> Planted:
    """Wrong labels and mistakes by their log-odds at the surest prediction, and the rise of wrong labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, CLASSES, generator=generator, dtype=torch.float64)
    order = Order.of(logits.log_softmax(1), torch.zeros(n, dtype=torch.int64))
    draws = torch.rand(2, n, generator=generator, dtype=torch.float64)
    is_wrong = draws[0] < (wrong + rise * order.along).sigmoid()
    is_mistaken = draws[1] < (mistaken + RISE * order.along).sigmoid()
    right = torch.multinomial(order.right, 1, generator=generator).squeeze(1)
    true = torch.where(is_mistaken, right, order.predicted)
    other = (true + torch.randint(1, CLASSES, (n,), generator=generator)) % CLASSES
    if second:
        other = torch.where(order.order[:, 1] == true, order.predicted, order.order[:, 1])
    return Planted(Order.of(logits.log_softmax(1), torch.where(is_wrong, other, true)), is_wrong, is_mistaken)


def share(mask: Tensor) -> float:
    return float(mask.double().mean())


def test_planted_curves_are_recovered() -> None:
    case = planted(-2.0, 0.0, -6.0)
    counts = case.order.counts()
    wrong, mistaken = levels(fitted(counts, human_rise(case.order), None))
    sizes = counts.samples / counts.samples.sum()
    assert float((wrong * sizes).sum()) == pytest.approx(share(case.wrong), abs=0.02)
    assert float((mistaken * sizes).sum()) == pytest.approx(share(case.mistaken), abs=0.02)
    surest, least = case.order.along < 0.2, case.order.along > 0.8
    for part, bins in ((surest, slice(0, 4)), (least, slice(16, 20))):
        assert float(mistaken[:, bins].mean()) == pytest.approx(share(case.mistaken[part]), abs=0.05)


@pytest.mark.parametrize(("wrong", "mistaken"), [(NONE, -5.5), (-1.4, NONE)], ids=["mistakes", "wrong labels"])
def test_mistakes_of_the_network_are_told_from_wrong_labels(wrong: float, mistaken: float) -> None:
    """About a fifth of the labels is disagreed with in both cases."""
    case = planted(wrong, 0.0, mistaken)
    assert 0.15 < share(case.order.disagrees) < 0.35
    assert float(split(case.order).mean()) == pytest.approx(share(case.wrong), abs=0.03)


def test_chances_are_calibrated() -> None:
    case = planted(-2.0, 0.0, -6.0)
    p_wrong = split(case.order)
    for low, high in ((0.0, 0.1), (0.3, 0.7), (0.9, 1.01)):
        inside = (p_wrong >= low) & (p_wrong < high)
        assert inside.sum() > 200
        assert float(p_wrong[inside].mean()) == pytest.approx(share(case.wrong[inside]), abs=0.08)


def test_networks_that_disagree_more_with_each_other_are_mistaken_more_often() -> None:
    case = planted(-2.0, 0.0, -6.0, n=5000)
    rates = [float(split(case.order, between).mean()) for between in (0.4, None, 0.05)]
    assert rates[0] < rates[1] < rates[2]


def test_the_penalty_of_mistakes_is_least_where_two_networks_disagree_as_often() -> None:
    counts = planted(-2.0, 0.0, -6.0, n=2000).order.counts()
    zeros, zero = torch.zeros(CLASSES).double(), torch.zeros(()).double()

    def penalty(level: float, between: float | None) -> float:
        curves = Curves(zeros - 2, zero, zeros, zeros + level, zero, zeros[1:], zeros[1:])
        return float(independent(counts, curves, between))

    at = -1.0
    between = float(torch.tensor(at).sigmoid()) / TWO_NETWORKS
    assert penalty(at, between) == pytest.approx(0, abs=1e-6)
    assert min(penalty(at - 0.5, between), penalty(at + 0.5, between)) > 0.5
    assert penalty(at, None) == 0


def test_wrong_labels_of_people_look_like_the_right_class_and_those_of_a_script_do_not() -> None:
    assert human_rise(planted(-2.0, 0.0, NONE).order) < 0.1 * HUMAN
    assert human_rise(planted(-2.0, 0.0, NONE, second=True).order) == pytest.approx(HUMAN)


def test_places_are_those_of_the_sorted_classes() -> None:
    scores = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], dtype=torch.float64).log()
    order = Order.of(scores, torch.tensor([0, 0]))
    assert order.order.tolist() == [[1, 2, 0], [0, 1, 2]]
    assert order.place.tolist() == [2, 0]
    assert order.disagrees.tolist() == [True, False]
    assert order.right[0, 1] == 0
