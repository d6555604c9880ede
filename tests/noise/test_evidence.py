"""Two estimates of wrong labels, the weight of each, and samples that nobody judges."""

from __future__ import annotations

import pytest
import torch
from planted_noise import CLASSES, flipped, logits, truth
from torch import Tensor

from orat.noise.disagreement import Order
from orat.noise.evidence import MIN_SAMPLES, evidence, ramp, shifted, weight_of_split
from orat.noise.latent import Latent


def weight(found: bool, wrong: float = 0.2, between: float | None = 0.0, n: int = 2000) -> float:
    """The weight of the split where a share of the given labels is wrong and the network is right."""
    true = truth(n)
    scores = logits(true, 30.0).double().log_softmax(1)
    order = Order.of(scores, flipped(true, wrong))
    p_wrong = order.disagrees.double() * found
    return weight_of_split(order, Latent(scores, scores, p_wrong), between)


def test_the_split_counts_where_the_model_misses_disagreements_of_the_surest_predictions() -> None:
    assert weight(found=False) == 1
    assert weight(found=True) == 0


def test_the_split_does_not_count_without_disagreement_of_the_surest_predictions() -> None:
    assert weight(found=False, wrong=0.0) == 0


@pytest.mark.parametrize(("between", "expected"), [(0.5, 0), (0.2, 1), (None, 1)])
def test_the_split_does_not_count_for_networks_that_are_often_mistaken(between: float | None, expected: float) -> None:
    assert weight(found=False, between=between) == expected


def test_a_ramp_rises_or_falls_between_its_ends() -> None:
    assert [ramp(value, 1.0, 3.0) for value in (0.0, 1.0, 2.0, 3.0, 4.0)] == [0, 0, 0.5, 1, 1]
    assert [ramp(value, 3.0, 1.0) for value in (0.0, 1.0, 2.0, 3.0, 4.0)] == [1, 1, 0.5, 0, 0]


@pytest.mark.parametrize("rate", [0.001, 0.2, 0.97])
def test_the_mean_of_shifted_log_odds_is_the_rate(rate: float) -> None:
    odds = 5 * torch.randn(500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = shifted(odds, rate)
    assert float(moved.sigmoid().mean()) == pytest.approx(rate, abs=1e-6)
    assert (moved - odds).std() < 1e-9


def predictions(labels: Tensor, classes: int) -> Tensor:
    return logits(labels, 5.0, classes=classes).double().log_softmax(1)


def test_the_mean_chance_is_a_rate_that_is_given() -> None:
    true = truth(2000)
    found = evidence(predictions(true, CLASSES), flipped(true, 0.2), None, rate=0.3)
    assert float(found.p_wrong.mean()) == pytest.approx(0.3, abs=1e-6)


def test_classes_of_few_samples_are_not_judged() -> None:
    true = torch.cat([truth(600, 2), torch.full((MIN_SAMPLES - 1,), 2)])
    seen = predictions(true, 3)
    few = true == 2
    seen[few] = seen[few].roll(1, 1)
    found = evidence(seen, true, None)
    assert not found.p_wrong[few].any()
    assert torch.equal(found.posterior[few], seen[few].exp())


def test_one_class_has_nothing_to_judge() -> None:
    found = evidence(predictions(truth(100, 1), 3), torch.zeros(100, dtype=torch.int64), None)
    assert not found.p_wrong.any()
    assert (found.by_latent, found.by_split) == (0, 0)
