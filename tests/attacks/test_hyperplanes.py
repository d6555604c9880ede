"""The move onto a hyperplane against linear programs, bisection and the projections of pyautoattack."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pyautoattack import fab_projections
from scipy.optimize import linprog, minimize
from torch import Tensor

from orat.attacks.fab import onto_hyperplane
from orat.attacks.threat import NORMS, Norm, Threat

REFERENCE = {
    "linf": fab_projections.projection_linf,
    "l2": fab_projections.projection_l2,
    "l1": fab_projections.projection_l1,
}


def planes(n: int, d: int, seed: int, feasible: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Points, some of their coordinates at 0 or 1, weights, some of them 0, and offsets that [0, 1] meets, or not."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    points = (1.4 * draw(n, d) - 0.2).clamp(0, 1)
    weight = torch.where(draw(n, d) < 0.2, 0.0, 2 * draw(n, d) - 1)
    weight[:, 0] = 0.7
    low, high = weight.clamp(max=0).sum(1), weight.clamp(min=0).sum(1)
    if feasible:
        return points, weight, low + draw(n) * (high - low)
    beyond = 0.01 + draw(n)
    return points, weight, torch.where(draw(n) < 0.5, low - beyond, high + beyond)


def least_move(point: np.ndarray, weight: np.ndarray, offset: float, norm: Norm) -> float:
    """The size of the shortest move, as a linear program in the move, its size in each coordinate, or in all."""
    d = len(point)
    sizes = d if norm == "l1" else 1
    one = np.eye(d) if norm == "l1" else np.ones((d, 1))
    answer = linprog(
        np.r_[np.zeros(d), np.ones(sizes)],
        A_ub=np.block([[np.eye(d), -one], [-np.eye(d), -one]]),
        b_ub=np.zeros(2 * d),
        A_eq=np.r_[weight, np.zeros(sizes)][None],
        b_eq=[offset - weight @ point],
        bounds=[*zip(-point, 1 - point, strict=True), *[(0, None)] * sizes],
    )
    assert answer.status == 0
    return float(answer.fun)


@pytest.mark.parametrize("norm", ["linf", "l1"])
@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_linf_and_l1_moves_are_as_long_as_the_linear_programs_optimum(norm: Norm, d: int) -> None:
    points, weight, offset = planes(25, d, seed=d)
    sizes = Threat(1.0, norm).size(onto_hyperplane(points, weight, offset, norm))
    rows = zip(points.numpy(), weight.numpy(), offset.tolist(), strict=True)
    expected = [least_move(point, row, number, norm) for point, row, number in rows]
    assert sizes.tolist() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_l2_moves_are_the_bisections(d: int) -> None:
    """A point moved along the weight by t and clipped comes ever nearer to the plane: halve t until they meet."""
    points, weight, offset = planes(200, d, seed=d)
    gap = (weight * points).sum(1) - offset
    low, high = torch.zeros(200, dtype=torch.float64), torch.full((200,), 1e6, dtype=torch.float64)
    for _ in range(120):
        middle = (low + high) / 2
        moved = (points - (gap.sign() * middle)[:, None] * weight).clamp(0, 1)
        crossed = ((weight * moved).sum(1) - offset) * gap.sign() <= 0
        low, high = torch.where(crossed, low, middle), torch.where(crossed, middle, high)
    expected = (points - (gap.sign() * high)[:, None] * weight).clamp(0, 1) - points
    assert torch.allclose(onto_hyperplane(points, weight, offset, "l2"), expected, atol=1e-9)


def test_l2_moves_are_no_longer_than_slsqps() -> None:
    points, weight, offset = planes(15, 5, seed=3)
    sizes = Threat(1.0, "l2").size(onto_hyperplane(points, weight, offset, "l2"))
    rows = zip(points.numpy(), weight.numpy(), offset.tolist(), sizes.tolist(), strict=True)
    for point, row, number, size in rows:
        answer = minimize(
            lambda z, point=point: ((z - point) ** 2).sum(),
            np.full(5, 0.5),
            method="SLSQP",
            bounds=[(0, 1)] * 5,
            constraints={"type": "eq", "fun": lambda z, row=row, number=number: row @ z - number},
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert size == pytest.approx(answer.fun**0.5, abs=1e-5)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 5e-4)])
def test_the_moved_point_is_on_the_plane_and_in_the_images(norm: Norm, dtype: torch.dtype, tolerance: float) -> None:
    points, weight, offset = (rows.to(dtype) for rows in planes(500, 50, seed=1))
    moved = points + onto_hyperplane(points, weight, offset, norm)
    assert moved.dtype == dtype
    assert moved.min() >= -tolerance
    assert moved.max() <= 1 + tolerance
    assert ((weight * moved).sum(1) - offset).abs().max() < tolerance


@pytest.mark.parametrize("norm", NORMS)
def test_a_plane_beyond_the_images_is_approached_to_their_nearest_corner(norm: Norm) -> None:
    points, weight, offset = planes(200, 12, seed=2, feasible=False)
    moved = points + onto_hyperplane(points, weight, offset, norm)
    toward = (offset - (weight * points).sum(1)).sign()[:, None] * weight
    corner = torch.where(toward == 0, points, (toward > 0).double())
    assert torch.allclose(moved, corner, atol=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_what_is_on_the_plane_or_has_no_slope_stays(norm: Norm) -> None:
    points, weight, _ = planes(50, 6, seed=4)
    onto = onto_hyperplane(points, weight, (weight * points).sum(1), norm)
    assert onto.abs().max() == 0
    flat = onto_hyperplane(points, torch.zeros_like(weight), torch.linspace(-1, 1, 50).double(), norm)
    assert flat.abs().max() == 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("d", [3, 11, 100, 784])
@pytest.mark.parametrize("feasible", [True, False])
def test_moves_equal_pyautoattacks(norm: Norm, d: int, feasible: bool) -> None:
    points, weight, offset = planes(500, d, d, feasible)
    weight = torch.where(weight.abs() < 1e-3, 1e-3, weight)  # at 0 the reference divides by it
    ours, theirs = onto_hyperplane(points, weight, offset, norm), REFERENCE[norm](points, weight, offset)
    assert torch.allclose(ours, theirs, atol=1e-9)


def test_weights_of_very_different_sizes_are_as_precise_in_float32_as_in_float64() -> None:
    generator = torch.Generator().manual_seed(5)
    points, weight, _ = planes(300, 60, seed=5)
    weight = weight * 10 ** (-4 * torch.rand(weight.shape, generator=generator, dtype=torch.float64))
    target = (points + 0.1 * torch.randn(points.shape, generator=generator, dtype=torch.float64)).clamp(0, 1)
    points, weight = points.float(), weight.float()
    offset = (weight * target.float()).sum(1)
    for norm in NORMS:
        single = Threat(1.0, norm).size(onto_hyperplane(points, weight, offset, norm))
        double = Threat(1.0, norm).size(onto_hyperplane(points.double(), weight.double(), offset.double(), norm))
        assert torch.allclose(single.double(), double, rtol=1e-3, atol=1e-4), norm
