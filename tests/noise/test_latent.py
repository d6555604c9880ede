"""The model of latent labels: planted noise is recovered; its parts agree with sums, sorting and finite differences."""

from __future__ import annotations

import pytest
import torch
from planted_noise import CLASSES, flipped, logits, truth
from torch import Tensor

from orat.noise.latent import (
    LOST,
    MOST_BORDER,
    Rates,
    bounded,
    corrected,
    fit_latent,
    fitted,
    frequencies,
    joint_chances,
    likeliest,
    minimized,
    odds_of,
    ranks,
    ridge,
    tempered,
)


def random_rates(classes: int, seed: int = 0) -> Rates:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((), (classes, classes), (classes,), (classes, classes), (), (), ())
    return Rates(*(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes))


def seen_through(noise: Tensor, true: Tensor, sharpness: float) -> Tensor:
    """Predictions of a network that has learned the noise (classes, classes)."""
    return (logits(true, sharpness).double().softmax(1) @ noise).log()


def planted_matrix() -> Tensor:
    noise = torch.eye(CLASSES, dtype=torch.float64)
    noise[0, :2], noise[2, 2:4] = torch.tensor([0.7, 0.3]), torch.tensor([0.6, 0.4])
    return noise


def test_a_planted_matrix_is_recovered() -> None:
    true, noise = truth(6000), planted_matrix()
    labels = torch.multinomial(noise[true], 1, generator=torch.Generator().manual_seed(3)).squeeze(1)
    odds = odds_of(fitted(tempered(logits(true, 5.0).double().log_softmax(1), labels), labels))
    found = (odds + torch.eye(CLASSES)) / (1 + odds.sum(1, keepdim=True))
    assert (found - noise).abs().max() < 0.05


def test_flips_of_nearly_half_to_one_class_are_undone_where_the_prediction_is_useless() -> None:
    """The network has learned 45 % flips to the next class, so that its prediction is a coin flip."""
    true = truth(6000)
    noise = 0.55 * torch.eye(CLASSES) + 0.45 * torch.eye(CLASSES).roll(1, 1)
    labels = torch.multinomial(noise[true], 1, generator=torch.Generator().manual_seed(3)).squeeze(1)
    seen = seen_through(noise.double(), true, 5.0) + 0.3 * torch.randn(6000, CLASSES, generator=torch.manual_seed(4))
    model = fit_latent(seen.log_softmax(1), labels)
    assert (seen.argmax(1) == true).double().mean() < 0.75
    assert (model.scores.argmax(1) == true).double().mean() > 0.95
    wrong = labels != true
    assert ((model.p_wrong > 0.5) == wrong).double().mean() > 0.95
    assert float(model.p_wrong.mean()) == pytest.approx(float(wrong.double().mean()), abs=0.03)


def test_a_wrong_label_is_never_likelier_than_the_right_one_so_that_classes_cannot_swap() -> None:
    odds = odds_of(random_rates(4)._replace(level=torch.tensor(50.0, dtype=torch.float64)))
    assert odds.max() <= 1
    assert odds.diagonal().abs().max() == 0


def test_chances_of_all_latent_and_given_labels_sum_to_one() -> None:
    z = torch.randn(20, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(1)
    total = sum(joint_chances(random_rates(4), z, torch.full((20,), label)).sum(1) for label in range(4))
    torch.testing.assert_close(total, torch.ones(20, dtype=torch.float64))


def test_the_posterior_of_a_sample_sums_to_one() -> None:
    true = truth(300)
    model = fit_latent(logits(true, 3.0).double().log_softmax(1), flipped(true, 0.2))
    torch.testing.assert_close(model.posterior.sum(1), torch.ones(300, dtype=torch.float64))


def test_gradients_of_the_likelihood_are_those_of_finite_differences() -> None:
    z = torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64).log_softmax(1)

    def loss(*values: Tensor) -> Tensor:
        rates = Rates(*values)
        return -joint_chances(rates, z, truth(12, 3)).sum(1).log().mean() + ridge(rates)

    assert torch.autograd.gradcheck(loss, [value.requires_grad_() for value in random_rates(3)])


@pytest.mark.parametrize(("sharpness", "level", "border"), [(2.0, -3.0, 2.5), (3.0, -2.5, 3.0)])
def test_mistakes_near_borders_are_found(sharpness: float, level: float, border: float) -> None:
    """Labels are drawn from the model, with many wrong labels where two classes are nearly as likely."""
    z, generator = logits(truth(8000), sharpness).double().log_softmax(1), torch.Generator().manual_seed(1)
    zero, square = z.new_zeros(()), z.new_zeros(CLASSES, CLASSES)
    planted = Rates(zero + level, square, z.new_zeros(CLASSES), square, zero + 1, zero, zero + border)
    true = torch.multinomial((planted.sharpness.exp() * corrected(planted, z)).softmax(1), 1, generator=generator)
    joint = torch.stack([joint_chances(planted, z, torch.full((8000,), label)) for label in range(CLASSES)], 2)
    chances = joint.gather(1, true[:, :, None].expand(-1, 1, CLASSES)).squeeze(1)
    labels = torch.multinomial(chances, 1, generator=generator).squeeze(1)
    wrong = labels != true.squeeze(1)
    assert float(wrong.double().mean()) > 0.25
    assert float(fit_latent(z, labels).p_wrong.mean()) == pytest.approx(float(wrong.double().mean()), abs=0.04)


def test_a_weight_of_mistakes_near_borders_is_bounded_and_hardly_changed_below() -> None:
    given = torch.tensor([-3.0, 0.0, 50.0], dtype=torch.float64)
    assert bounded(given).tolist() == pytest.approx([-3.0, 0.0, MOST_BORDER], abs=0.13)
    assert float(bounded(given).max()) <= MOST_BORDER


def test_ranks_are_places_in_each_sorted_class() -> None:
    z = torch.randn(200, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = ranks(z)
    for label in range(3):
        own = (z.argmax(1) == label).nonzero().flatten().tolist()
        by_confidence = sorted(own, key=lambda sample: -float(z[sample].max()))
        assert [round(float(found[sample]) * len(own) - 0.5) for sample in by_confidence] == list(range(len(own)))


def test_the_temperature_of_predictions_is_found_whatever_it_was() -> None:
    true = truth(2000)
    seen, labels = logits(true, 3.0).double().log_softmax(1), flipped(true, 0.2)
    torch.testing.assert_close(
        tempered((4 * seen).log_softmax(1), labels), tempered(seen, labels), atol=1e-3, rtol=1e-3
    )


def test_the_minimum_of_a_square_is_found() -> None:
    (found,) = minimized([torch.zeros(3)], lambda x: (x - torch.arange(3.0)).square().sum())
    torch.testing.assert_close(found, torch.arange(3.0))


@pytest.mark.parametrize(("seed", "distance"), [(0, 1.0), (3, 0.6)])
def test_no_class_gets_lost_where_a_weak_network_confuses_two_classes_that_are_flipped(
    seed: int, distance: float
) -> None:
    """Half of the samples of both classes have either label: one class with any label explains them nearly as well."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.randint(4, (6000,), generator=generator)
    places = 4.0 * torch.eye(4)
    middle, apart = (places[0] + places[1]) / 2, torch.nn.functional.normalize(places[0] - places[1], dim=0)
    places[0], places[1] = middle + apart * distance / 2, middle - apart * distance / 2
    seen = torch.randn(6000, 4, generator=generator) + places[true]
    z = (-0.5 * (seen[:, None] - places).square().sum(2)).double().log_softmax(1)
    other = torch.tensor([1, 0, 2, 3])[true]
    labels = torch.where(torch.rand(6000, generator=generator) < 0.4, other, true)
    z = tempered(z, labels)

    def kept(rates: Rates) -> Tensor:
        return frequencies(joint_chances(rates, z, labels), labels)

    assert kept(likeliest(z, labels, 0.0)).min() < LOST
    assert kept(fitted(z, labels)) == pytest.approx(torch.ones(4).double(), abs=0.1)
