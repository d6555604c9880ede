"""The confidence of a verdict: how often the predicted class of a sample with a wrong label is right."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from planted_noise import CLASSES, flipped, logits, truth

from orat.noise.judge import judge

PAIRS = {0: 1, 1: 0, 2: 3}


@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["any class", "certain classes"])
@pytest.mark.parametrize("sharpness", [2.0, 3.0, 5.0])
def test_predicted_classes_are_right_at_least_as_often_as_the_confidence_says(
    pairs: dict[int, int] | None, sharpness: float
) -> None:
    true = truth(20_000)
    labels = flipped(true, 0.4, pairs=pairs)
    verdict = judge(logits(true, sharpness).log_softmax(1), labels)
    right = verdict.predicted == true
    groups = [
        (low, (verdict.confidence >= low) & (verdict.confidence < high))
        for low, high in pairwise((0.5, 0.8, 0.95, 1.01))
    ]
    large = [(low, group) for low, group in groups if group.sum() > 200]
    assert large
    for low, group in large:
        assert float(right[group].double().mean()) > low - 0.03
    assert verdict.confidence[verdict.predicted == labels].max() == 0


def test_a_good_network_is_confident_of_the_right_class_of_most_wrong_labels() -> None:
    true = truth(20_000)
    labels = flipped(true, 0.4)
    verdict = judge(logits(true, 6.0).log_softmax(1), labels)
    confident = verdict.confidence > 0.9
    assert int((confident & (labels != true)).sum()) > 0.8 * int((labels != true).sum())
    assert float((verdict.predicted[confident] == true[confident]).double().mean()) > 0.99


def test_a_class_that_the_second_network_denies_gets_no_confidence() -> None:
    true = truth(6000)
    labels = flipped(true, 0.3)
    first, second = logits(true, 6.0), logits(true, 8.0, seed=2)
    denied = torch.arange(6000) % 7 == 0
    second[denied] = 20 * torch.nn.functional.one_hot((true[denied] + 1) % CLASSES, CLASSES).float()
    first, second = first.log_softmax(-1), second.log_softmax(-1)
    alone, both = (judge(first, labels, witness).confidence > 0.9 for witness in (None, second))
    wrong = labels != true
    assert (alone & denied & wrong).sum() > 0.8 * (denied & wrong).sum()
    assert not (both & denied).any()
    assert (both & ~denied & wrong).sum() > 0.8 * (~denied & wrong).sum()
