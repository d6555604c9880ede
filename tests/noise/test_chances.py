"""The chances of the right class: how often a class that a verdict gives a chance is the right one."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from planted_noise import flipped, logits, truth

from orat.noise.judge import judge

PAIRS = {0: 1, 1: 0, 2: 3}


@pytest.mark.parametrize("pairs", [None, PAIRS], ids=["any class", "certain classes"])
@pytest.mark.parametrize("sharpness", [2.0, 3.0, 5.0])
def test_classes_are_right_about_as_often_as_their_chance_says(pairs: dict[int, int] | None, sharpness: float) -> None:
    true = truth(20_000)
    labels = flipped(true, 0.4, pairs=pairs)
    verdict = judge(logits(true, sharpness).log_softmax(1), labels)
    chances = verdict.chances()
    assert torch.allclose(chances.sum(1), torch.ones_like(chances[:, 0]))
    assert torch.allclose(1 - chances.gather(1, labels[:, None]).squeeze(1), verdict.p_wrong, atol=1e-6)
    right = torch.nn.functional.one_hot(true, chances.shape[1]).bool()
    groups = [(chances >= low) & (chances < high) for low, high in pairwise((0.05, 0.2, 0.5, 0.8, 0.95, 1.01))]
    large = [group for group in groups if group.sum() > 200]
    assert large
    for group in large:
        assert float(right[group].double().mean()) == pytest.approx(float(chances[group].mean()), abs=0.07)


def test_a_good_network_is_sure_of_the_right_class_of_most_wrong_labels() -> None:
    true = truth(20_000)
    labels = flipped(true, 0.4)
    chance, likeliest = judge(logits(true, 6.0).log_softmax(1), labels).chances().max(1)
    sure = (chance > 0.9) & (likeliest != labels)
    assert int((sure & (labels != true)).sum()) > 0.8 * int((labels != true).sum())
    assert float((likeliest[sure] == true[sure]).double().mean()) > 0.99
