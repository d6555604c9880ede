"""FAB against closed forms on linear models and against pyautoattack's FAB-T."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from pyautoattack.fab_pt import FABAttack_PT
from refusals import assert_refused_in_one_line
from small_networks import linear
from torch import Tensor, nn

from orat.attacks import FAB, Threat
from orat.attacks.base import wrong
from orat.attacks.threat import NORMS, Norm
from orat.core.losses import margin

NAMES = {"linf": "Linf", "l2": "L2", "l1": "L1"}
DUALS = {"linf": 1, "l2": 2, "l1": float("inf")}
RADII = {"linf": 0.05, "l2": 0.33, "l1": 1.1}  # where about half of the digits below stand


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize(("shape", "dtype"), [((8,), torch.float64), ((2, 2, 2), torch.float32)])
def test_a_point_is_broken_exactly_when_the_border_is_within_eps(
    norm: Norm, classes: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(8, generator=generator).to(dtype)
    x = 0.35 + 0.3 * torch.rand((80, 8), generator=generator).to(dtype)
    plane = linear(weight, -float(x.mean(0) @ weight) - 0.4, classes)
    y = torch.zeros(80, dtype=torch.long)
    distance = -margin(plane(x), y) / weight.norm(DUALS[norm])
    eps = float(distance.median())
    assert 0.01 < eps < 0.3
    model = nn.Sequential(nn.Flatten(), plane)
    x = x.reshape(80, *shape)
    adv = FAB(steps=50)(model, x, y, Threat(eps, norm))
    broken = wrong(model, adv, y)
    assert bool(broken[distance < 0.999 * eps].all())
    assert not bool(broken[distance > 1.0001 * eps].any())
    assert torch.equal(adv[~broken], x[~broken])


@pytest.mark.parametrize("norm", NORMS)
def test_the_border_of_the_images_is_part_of_the_problem(norm: Norm) -> None:
    """Weights (2, 1), the first coordinate at its border: only the second can move, and has to go farther."""
    x = torch.tensor([[1.0, 0.2]], dtype=torch.float64)
    model = linear(torch.tensor([2.0, 1.0], dtype=torch.float64), -2.5)
    y = torch.tensor([0])
    assert wrong(model, FAB()(model, x, y, Threat(0.31, norm)), y).item()
    assert not wrong(model, FAB()(model, x, y, Threat(0.29, norm)), y).item()


def test_what_no_point_of_the_images_breaks_is_returned_as_it_is() -> None:
    model = linear(torch.tensor([1.0, 1.0]), -3.0)
    x = torch.tensor([[0.2, 0.9], [0.0, 1.0]])
    for norm in NORMS:
        assert torch.equal(FAB()(model, x, torch.tensor([0, 0]), Threat(1.0, norm)), x)


def test_a_model_without_slope_is_left_alone() -> None:
    x = torch.tensor([[0.2, 0.9], [0.0, 1.0]])
    for norm in NORMS:
        assert torch.equal(FAB()(linear(torch.zeros(2), -1.0, 3), x, torch.tensor([0, 0]), Threat(1.0, norm)), x)


def reference(model: nn.Module, norm: Norm, eps: float, steps: int, targets: int = 9) -> FABAttack_PT:
    return FABAttack_PT(
        model, norm=NAMES[norm], eps=eps, n_iter=steps, n_target_classes=targets, targeted=True, device="cpu"
    )


def perturbed(attack: FABAttack_PT, x: Tensor, y: Tensor) -> Tensor:
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attack.perturb(x, y)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("scale", "steps", "targets"), [(0.6, 3, 9), (1.0, 3, 2), (1.0, 100, 1), (1.2, 40, 9)])
def test_the_same_samples_break_as_with_the_reference(
    digits: tuple[nn.Module, Tensor, Tensor], norm: Norm, scale: float, steps: int, targets: int
) -> None:
    model, x, y = digits
    eps = scale * RADII[norm]
    broken = wrong(model, FAB(steps, targets)(model, x, y, Threat(eps, norm)), y)
    theirs = wrong(model, perturbed(reference(model, norm, eps, steps, targets), x, y), y)
    assert 0 < broken.sum() < len(x)
    assert torch.equal(broken, theirs)


@pytest.mark.parametrize("norm", NORMS)
def test_distances_equal_the_references(digits: tuple[nn.Module, Tensor, Tensor], norm: Norm) -> None:
    """A sample breaks within a little more than the reference's distance, and not within a little less."""
    model, x, y = digits
    x, y = x[:10], y[:10]
    attack = reference(model, norm, 100.0, 20)
    nearest = torch.full((len(x),), torch.inf)
    for target in range(2, 11):
        attack.target_class = target
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adv = attack.attack_single_run(x, y, is_targeted=True)
        found = wrong(model, adv, y)
        nearest[found] = torch.minimum(nearest, Threat(1.0, norm).size(adv - x))[found]
    assert bool(nearest.isfinite().all())
    for sample, distance in enumerate(nearest.tolist()):
        point = x[sample : sample + 1], y[sample : sample + 1]
        farther, nearer = (FAB(20)(model, *point, Threat(distance + change, norm)) for change in (2e-6, -2e-6))
        assert wrong(model, farther, point[1]).item()
        assert not wrong(model, nearer, point[1]).item()


def test_nothing_is_random(digits: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, x, y = digits[0], digits[1][:20], digits[2][:20]
    before = torch.get_rng_state()
    for norm, eps in RADII.items():
        threat = Threat(eps, norm)
        one, two = (FAB(20)(model, x, y, threat, torch.Generator().manual_seed(seed)) for seed in (0, 1))
        assert torch.equal(one, two)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: FAB(steps=0), "steps and targets are 1 or more"),
        (lambda: FAB(targets=0), "steps and targets are 1 or more"),
        (lambda: FAB()(nn.Linear(2, 2), torch.full((1, 2), 255.0), torch.zeros(1).long(), 0.1), "by 255"),
    ],
)
def test_nonsense_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)
