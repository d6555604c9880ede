"""Accuracy sample by sample, against a model whose robust samples are known in closed form."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import orat
from orat.data.dataset import Dataset
from orat.errors import InputError
from orat.evaluation import correct, evaluate, predict


def threshold_model() -> nn.Module:
    """Class 1 above 0.5 in the first coordinate, class 0 below."""
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
        model.bias.copy_(torch.tensor([0.5, -0.5]))
    return model


def points(n: int = 700) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand((n, 2), generator=generator)
    y = (x[:, 0] > 0.5).long()
    y[::10] = 1 - y[::10]
    return Dataset(x, y, ("low", "high"))


@pytest.mark.parametrize("eps", [0.0, 0.05, 0.2])
def test_robust_are_exactly_the_right_samples_farther_than_eps_from_the_border(eps: float) -> None:
    data = points()
    right = correct(threshold_model(), data, orat.suite(eps))
    natural = (data.images[:, 0] > 0.5).long() == data.labels
    assert torch.equal(right["natural"], natural)
    expected = natural & ((data.images[:, 0] - 0.5).abs() > eps)
    assert torch.equal(right["pgd20"], expected)
    assert torch.equal(right["cw"], expected)


def test_a_wrong_sample_stays_wrong_under_attack() -> None:
    right = correct(threshold_model(), points(), orat.suite(0.3, names=["fgsm", "fgsm-plain", "pgd20-madry"]))
    for name in ("fgsm", "fgsm-plain", "pgd20-madry"):
        assert not (right[name] & ~right["natural"]).any()


def test_evaluate_is_the_share_of_the_right_ones_and_repeats_itself() -> None:
    data, model = points(), threshold_model()
    accuracy = evaluate(model, data, orat.suite(0.1))
    right = correct(model, data, orat.suite(0.1))
    assert accuracy == {name: pytest.approx(mask.double().mean().item()) for name, mask in right.items()}
    assert evaluate(model, data, orat.suite(0.1)) == accuracy


def test_evaluation_restores_the_mode_of_the_model() -> None:
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).train()
    evaluate(model, points(), orat.suite(0.1))
    assert model.training
    assert model[1].num_batches_tracked == 0


def test_a_model_with_the_wrong_number_of_classes_is_refused() -> None:
    with pytest.raises(InputError, match="5.* numbers a sample for 2 classes"):
        predict(nn.Linear(2, 5), points())


def test_logits_that_are_no_numbers_are_refused() -> None:
    model = threshold_model()
    with torch.no_grad():
        model.bias.fill_(float("nan"))
    with pytest.raises(InputError, match="NaN"):
        predict(model, points())


def test_values_outside_the_unit_interval_are_refused_at_the_door() -> None:
    with pytest.raises(InputError, match=r"from 0 to 255, but must lie in \[0, 1\]"):
        Dataset(torch.tensor([[0.0, 255.0]]), torch.tensor([0]), ("a", "b"))


@pytest.mark.parametrize(
    ("labels", "words"),
    [(torch.tensor([0, 2]), "from 0 to 2"), (torch.tensor([-1, 0]), "from -1"), (torch.tensor([0]), "2 images")],
)
def test_labels_that_do_not_fit_are_refused(labels: torch.Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Dataset(torch.rand(2, 3), labels, ("a", "b"))
