"""Carlini and Wagner's l2 attack against closed forms and foolbox."""

from __future__ import annotations

from collections.abc import Callable

import foolbox
import pytest
import torch
from refusals import assert_refused_in_one_line
from small_networks import fitted
from torch import Tensor, nn

from orat.attacks import CarliniWagner, Threat

FAR = Threat(1.0, "l2")
QUICK = {"steps": 80, "search_steps": 3, "initial_constant": 0.1}


def linear(weight: Tensor, bias: float) -> nn.Module:
    """A model of two classes whose second leads by weight x + bias."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(len(weight), 2)).to(weight.dtype)
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([torch.zeros_like(weight), weight]))
        model[1].bias.copy_(torch.tensor([0.0, bias]))
    return model


def trained(classes: int, shape: tuple[int, ...] = (6,)) -> tuple[nn.Module, Tensor, Tensor]:
    """A small network of smooth borders, and the points it was fitted to."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((300, *shape), generator=generator, dtype=torch.float64)
    total = x.flatten(1).sum(1)
    y = torch.bucketize(total, total.quantile(torch.linspace(0, 1, classes + 1).double()[1:-1]))
    return fitted(x, y, classes), x, y


def distances(adv: Tensor, x: Tensor) -> Tensor:
    return Threat(1.0, "l2").size(adv - x)


@pytest.mark.parametrize(("shape", "dtype"), [((4,), torch.float64), ((1, 2, 2), torch.float32)])
def test_the_nearest_point_of_a_linear_model_is_its_foot_on_the_hyperplane(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    weight, bias = torch.tensor([0.5, -2.0, 1.0, 0.3], dtype=dtype), -0.2
    x = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.3, 0.6, 0.4, 0.7], [0.6, 0.3, 0.3, 0.2]], dtype=dtype)
    gap = x @ weight + bias
    foot = x - (gap / weight.square().sum())[:, None] * weight
    assert foot.min() > 0
    assert foot.max() < 1
    adv = CarliniWagner(steps=300, search_steps=6).nearest(linear(weight, bias), x.reshape(3, *shape), (gap > 0).long())
    assert adv.shape == (3, *shape)
    assert adv.dtype == dtype
    assert torch.allclose(adv.flatten(1), foot, atol=0.01)
    assert torch.allclose(distances(adv, x.reshape(3, *shape)), gap.abs() / weight.norm(), rtol=0.01)


def test_confidence_moves_the_hyperplane() -> None:
    weight = torch.tensor([1.0, -1.0])
    x = torch.tensor([[0.4, 0.5]])
    adv = CarliniWagner(steps=300, search_steps=6, confidence=0.2).nearest(linear(weight, 0.0), x, torch.tensor([0]))
    assert distances(adv, x).item() == pytest.approx(0.3 / 2**0.5, rel=0.01)


@pytest.mark.parametrize("classes", [2, 5])
def test_distances_equal_foolboxs(classes: int) -> None:
    model, x, y = trained(classes)
    model, x = model.float(), x.float()
    right = model(x).argmax(1) == y
    x, y = x[right][:40], y[right][:40]
    attack = foolbox.attacks.L2CarliniWagnerAttack(binary_search_steps=6, steps=150)
    theirs, _, _ = attack(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=None)
    ours = CarliniWagner(steps=150, search_steps=6).nearest(model, x, y)
    assert bool((model(ours).argmax(1) != y).all())
    assert torch.allclose(distances(ours, x), distances(theirs, x), rtol=0.02, atol=5e-4)
    assert distances(ours, x).mean() <= 1.02 * distances(theirs, x).mean()


@pytest.mark.parametrize("shape", [(2,), (3, 2, 2)])
def test_a_point_is_adversarial_within_eps_or_left_alone(shape: tuple[int, ...]) -> None:
    model, x, y = trained(5, shape)
    x, y = x[:60], y[:60]
    adv = CarliniWagner(**QUICK)(model, x, y, Threat(0.06, "l2"))
    broken = model(adv).argmax(1) != y
    moved = distances(adv, x) > 0
    assert adv.min() >= 0
    assert adv.max() <= 1
    assert distances(adv, x).max() <= 0.06
    assert 0.05 < moved.double().mean() < 0.95
    assert bool(broken[moved].all())
    nearest = distances(CarliniWagner(**QUICK).nearest(model, x, y), x)
    assert torch.equal(moved, (nearest > 0) & (nearest <= 0.06))


@pytest.mark.parametrize("classes", [2, 5])
def test_a_sample_meets_the_same_fate_in_any_batch(classes: int) -> None:
    model, x, y = trained(classes)
    x, y = x[:6], y[:6]
    attack = CarliniWagner(**QUICK)
    alone = torch.cat([attack(model, x[i : i + 1], y[i : i + 1], FAR) for i in range(len(x))])
    assert (distances(alone, x) > 0).sum() > 3
    assert torch.allclose(attack(model, x, y, FAR), alone, atol=1e-9)


def test_what_is_wrong_by_itself_is_returned_as_it_is() -> None:
    model, x, _ = trained(2)
    wrong = 1 - model(x[:20]).argmax(1)
    assert torch.equal(CarliniWagner().nearest(model, x[:20], wrong), x[:20])


def test_what_cannot_be_broken_is_returned_as_it_is() -> None:
    model = linear(torch.tensor([1.0, 1.0]), -3.0)
    x = torch.tensor([[0.2, 0.9], [0.0, 1.0]])
    assert torch.equal(CarliniWagner(**QUICK).nearest(model, x, torch.tensor([0, 0])), x)


def test_corners_of_the_images_can_be_left() -> None:
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    attack = CarliniWagner(steps=500, search_steps=5, initial_constant=0.1)
    adv = attack.nearest(linear(torch.tensor([1.0, 1.0]), -1.2), x, torch.tensor([0, 0, 0]))
    assert torch.allclose(distances(adv, x), torch.tensor([1.2 / 2**0.5, 0.2, 0.2]), rtol=0.02)


def test_the_model_and_the_random_state_are_left_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)).train()
    model[0].weight.requires_grad_(False)
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    chance = torch.get_rng_state()
    x = torch.rand((5, 4), generator=torch.Generator().manual_seed(0)).requires_grad_()
    adv = CarliniWagner(**QUICK)(model, x, torch.zeros(5, dtype=torch.long), FAR)
    assert not adv.requires_grad
    assert x.grad is None
    assert torch.equal(chance, torch.get_rng_state())
    assert [module.training for module in model] == [True, False, True, True]
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: CarliniWagner(steps=0), "steps = 0"),
        (lambda: CarliniWagner(search_steps=0), "search_steps = 0"),
        (lambda: CarliniWagner(learning_rate=0.0), "learning_rate = 0.0"),
        (lambda: CarliniWagner(initial_constant=float("nan")), "initial_constant = nan"),
        (lambda: CarliniWagner(confidence=-1.0), "confidence = -1.0"),
        (lambda: CarliniWagner()(nn.Linear(2, 2), torch.full((1, 2), 255.0), torch.zeros(1).long(), FAR), "by 255"),
        (
            lambda: CarliniWagner()(nn.Linear(2, 2), torch.rand(1, 2), torch.zeros(1).long(), 0.1),
            "minimizes the l2 distance; in an linf ball use cw or cw-margin",
        ),
    ],
)
def test_nonsense_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)
