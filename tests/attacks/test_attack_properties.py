"""What every attack of the suite promises, whatever the radius, the shape and the type of the images."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
import torch
from torch import Tensor, nn

from orat.attacks import APGD, FAB, PGD, Attack, AutoAttack, CarliniWagner, Square, Threat
from orat.attacks.suite import ATTACKS
from orat.attacks.threat import NORMS, Norm
from orat.core.errors import InputError

QUICK = {
    PGD: {"steps": 2},
    APGD: {"steps": 6, "restarts": 2, "targets": 2},
    FAB: {"steps": 4, "targets": 2},
    Square: {"queries": 15},
    CarliniWagner: {"steps": 10, "search_steps": 2},
}
NAMES = [name for name in ATTACKS if name != "autoattack-reference"]
PAIRS = [(name, norm) for name in NAMES for norm in NORMS if name != "cw-l2" or norm == "l2"]
RADII = (0.0, 1 / 255, 0.03, 0.3, 1.0)
SHAPES = ((2,), (1, 5, 5), (3, 4, 6))
DTYPES = (torch.float32, torch.float64)


class QuickAutoAttack(AutoAttack):
    """AutoAttack of few steps."""

    @property
    def parts(self) -> dict[str, Attack]:
        return {name: quick(attack) for name, attack in super().parts.items()}


def quick(attack: Attack) -> Attack:
    """The same attack with few steps."""
    return QuickAutoAttack() if isinstance(attack, AutoAttack) else replace(attack, **QUICK[type(attack)])


def network(shape: tuple[int, ...], dtype: torch.dtype) -> nn.Module:
    """A random network of four classes."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 12), nn.ReLU(), nn.Linear(12, 4)).to(dtype)


def images(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Four images with pixels at 0, at 1 and between, and one black, one white."""
    x = (1.4 * torch.rand((6, *shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64) - 0.2).clamp(
        0, 1
    )
    x[4], x[5] = 0, 1
    return x.to(dtype)


@pytest.mark.parametrize(("name", "norm"), PAIRS)
def test_every_attack_returns_images_of_its_ball(name: str, norm: Norm) -> None:
    radii = RADII if norm == "linf" else (*RADII, 3.0)
    attack = quick(ATTACKS[name])
    for number, (eps, shape) in enumerate(product(radii, SHAPES)):
        dtype = DTYPES[number % 2]  # of three shapes at each radius: every shape and every radius meets both
        model, x = network(shape, dtype), images(shape, dtype)
        y = model(x).argmax(1)
        y[0] = (y[0] + 1) % 4  # one that is wrong by itself
        kept = x.clone()
        threat = Threat(eps, norm)
        adv = attack(model, x, y, threat)
        case = f"eps = {eps}, shape = {shape}, {dtype}"
        assert adv.dtype == dtype, case
        assert adv.shape == x.shape, case
        assert bool(adv.isfinite().all()), case
        assert adv.min() >= 0, case
        assert adv.max() <= 1, case
        assert threat.size(adv - x).max() <= eps * (1 + 1e-5) + 1e-6, case
        assert bool(threat.allows(adv, x).all()), case
        assert not adv.requires_grad, case
        assert torch.equal(x, kept), case


@pytest.mark.parametrize(("name", "norm"), PAIRS)
def test_a_constant_model_is_survived(name: str, norm: Norm) -> None:
    """No gradient, no margin, all logits equal: ratios of logits and of moves are 0 / 0."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 4)).requires_grad_(False)
    for parameter in model.parameters():
        parameter.zero_()
    x = images((1, 5, 5), torch.float32)
    for label in (0, 3):
        adv = quick(ATTACKS[name])(model, x, torch.full((6,), label), Threat(0.3, norm))
        assert bool(adv.isfinite().all())
        assert Threat(0.3, norm).size(adv - x).max() <= 0.3 * (1 + 1e-5)


@pytest.mark.parametrize(("name", "norm"), PAIRS)
def test_the_model_is_left_as_it_was(name: str, norm: Norm) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 3)).train()
    model[0].weight.requires_grad_(False)
    model[1].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    x = torch.rand((5, 4), generator=torch.Generator().manual_seed(0))
    quick(ATTACKS[name])(model, x, torch.zeros(5, dtype=torch.long), Threat(0.2, norm))
    assert [module.training for module in model] == [True, False, True, True]
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("name", [name for name in NAMES if not ATTACKS[name].any_bounds])
def test_other_bounds_are_refused_with_the_attacks_that_know_them(name: str) -> None:
    norm = "l2" if name == "cw-l2" else "linf"
    for threat in (Threat(0.1, norm, -1.0, 1.0), Threat(0.1, norm, scale=(1.0, 0.0))):
        with pytest.raises(InputError, match=r"without a scale: .* use pgd or apgd-ce"):
            ATTACKS[name](nn.Linear(2, 2), torch.rand(1, 2), torch.zeros(1).long(), threat)
