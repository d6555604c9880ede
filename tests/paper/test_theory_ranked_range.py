"""Theorem 1 against sorting, finite differences and brute force, with ties, and its errata."""

from __future__ import annotations

from math import inf

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from orat.core.errors import InputError
from orat.methods.ranked_range import minmax, ranked_range
from orat_paper.theory import (
    best_over_width,
    difference,
    gradients,
    hinge,
    logistic,
    objective,
    optimum,
    slopes,
    wrong_at_most,
)

quick = settings(max_examples=100, deadline=None)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    """Losses that are small whole numbers with many ties, and ranks."""
    n = draw(st.integers(1, 9))
    values = draw(st.lists(st.integers(-3, 6), min_size=n, max_size=n))
    k = draw(st.integers(1, n))
    return torch.tensor(values, dtype=torch.float64), k, draw(st.integers(0, k - 1))


@st.composite
def points(draw: st.DrawFn) -> tuple[Tensor, float, float, int, int]:
    """Losses and ranks with two scalars, half of them on losses."""
    losses, k, m = draw(cases())
    return losses, float(draw(st.integers(-4, 7))), float(draw(st.integers(-1, 8))), k, m


def kinks(losses: Tensor, lower: float) -> list[float]:
    return [0.0, *(loss - lower for loss in losses.tolist() if loss > lower)]


@given(cases())
@quick
def test_the_value_is_the_mean_of_the_sorted_losses(case: tuple[Tensor, int, int]) -> None:
    losses, k, m = case
    found = optimum(losses, k, m)
    assert found.value == pytest.approx(sum(sorted(losses.tolist(), reverse=True)[m:k]) / (k - m))
    assert objective(losses, found.lower, found.width, k, m).item() == pytest.approx(found.value)


@given(points())
@quick
def test_the_inner_maximum_is_that_of_all_kinks(case: tuple[Tensor, float, float, int, int]) -> None:
    losses, lower, width, k, m = case
    best = best_over_width(losses, lower, k, m).item()
    assert best == pytest.approx(max(objective(losses, lower, w, k, m).item() for w in kinks(losses, lower)))
    assert objective(losses, lower, width, k, m).item() <= best + 1e-9
    assert best >= optimum(losses, k, m).value - 1e-9


@given(cases(), st.floats(0, 1))
@quick
def test_every_pair_in_the_optimal_ranges_is_optimal_and_none_beside_them(
    case: tuple[Tensor, int, int], share: float
) -> None:
    losses, k, m = case
    found = optimum(losses, k, m)
    for (low, high), value_at, sign in (
        (found.lowers, lambda lower: best_over_width(losses, lower, k, m).item(), 1),
        (found.widths, lambda width: objective(losses, found.lower, width, k, m).item(), -1),
    ):
        start, end = max(low, -10.0), min(high, 20.0)
        assert value_at(start + share * (end - start)) == pytest.approx(found.value)
        if low > -inf:
            assert sign * (value_at(low - 0.25) - found.value) > 0
        if high < inf:
            assert sign * (value_at(high + 0.25) - found.value) > 0


def test_lambda_hat_is_not_above_lambda_at_any_optimum_as_theorem_1_claims() -> None:
    losses = torch.tensor([1.0, 0.9, 0.8, 0.7], dtype=torch.float64)
    found = optimum(losses, k=3, m=1)
    assert (found.lower, found.width) == pytest.approx((0.8, 0.2))
    assert found.lowers == pytest.approx((0.7, 0.8))
    widest = 1.0 - found.lowers[0]  # l_[m] less the least optimal lambda: no optimal lambda-hat is larger
    assert widest < found.lowers[0]


@given(cases(), st.floats(-5, 8), st.floats(-5, 8))
@quick
def test_in_the_difference_form_the_upper_scalar_is_not_below_the_lower(
    case: tuple[Tensor, int, int], lower: float, upper: float
) -> None:
    losses, k, m = case
    ranked = losses.sort(descending=True).values.tolist()
    low, high = ranked[k - 1], ranked[max(m, 1) - 1]
    value = optimum(losses, k, m).value
    assert difference(losses, low, high, k, m).item() == pytest.approx(value)
    assert high >= low
    assert difference(losses, lower, high, k, m).item() >= value - 1e-9
    assert difference(losses, low, upper, k, m).item() <= value + 1e-9


def test_the_min_and_the_max_do_not_commute() -> None:
    """At any lambda-hat, the value falls with lambda: there is no saddle point."""
    losses = torch.tensor([3.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    for width in (0.0, 1.0, 5.0, 50.0):
        assert objective(losses, -1000.0, width, k=3, m=1).item() < -900
    assert optimum(losses, k=3, m=1).value == 1.5


@given(points())
@quick
def test_slopes_are_finite_differences_on_either_side(case: tuple[Tensor, float, float, int, int]) -> None:
    losses, lower, width, k, m = case
    step = 0.25  # all kinks are whole numbers, so between them the function is straight

    def slope(towards: tuple[float, float]) -> float:
        there = objective(losses, lower + step * towards[0], width + step * towards[1], k, m)
        return sum(towards) * (there - objective(losses, lower, width, k, m)).item() / step

    found = slopes(losses, lower, width, k, m)
    assert found.lower == pytest.approx((slope((-1, 0)), slope((1, 0))))
    assert found.width == pytest.approx((slope((0, -1)), slope((0, 1))))
    assert found.width[0] >= found.width[1]  # concave in lambda-hat


@given(points())
@quick
def test_the_papers_gradients_are_those_of_autograd_and_a_supergradient_in_lambda_hat(
    case: tuple[Tensor, float, float, int, int],
) -> None:
    losses, lower, width, k, m = case
    n = len(losses)
    leaves = [losses.clone(), torch.tensor(lower).double(), torch.tensor(width).double()]
    for leaf in leaves:
        leaf.requires_grad_()
    expected = torch.autograd.grad(n / (k - m) * minmax(*leaves, n, k, m), leaves)
    found = gradients(losses, lower, width, k, m)
    assert torch.allclose(found.losses, expected[0])
    assert (found.lower, found.width) == pytest.approx((expected[1].item(), expected[2].item()))
    left, right = slopes(losses, lower, width, k, m).width
    assert right <= found.width <= left


@given(points())
@quick
def test_away_from_ties_the_papers_gradient_is_the_slope(case: tuple[Tensor, float, float, int, int]) -> None:
    losses, lower, width, k, m = case
    here = (losses, lower + 0.5, width + 0.25, k, m)
    found, sides = gradients(*here), slopes(*here)
    assert sides.lower == (found.lower, found.lower)
    assert sides.width == (found.width, found.width)


def test_at_the_optimum_the_papers_gradient_for_lambda_lies_outside_the_slopes() -> None:
    losses = torch.tensor([9.0, 6.0, 5.0, 3.0, 1.0], dtype=torch.float64)
    found = optimum(losses, k=4, m=1)
    here = (losses, found.lower, found.width, 4, 1)
    assert slopes(*here).lower == (0.0, 0.0)
    assert gradients(*here).lower == pytest.approx(1 / 3)
    assert gradients(*here).width == 0.0


@pytest.mark.parametrize("loss", [hinge, logistic])
@given(st.lists(st.floats(-4, 4), min_size=1, max_size=12), st.data())
@quick
def test_no_more_predictions_are_wrong_than_the_ranked_range_allows(loss, margins: list[float], data) -> None:
    n = len(margins)
    k = data.draw(st.integers(1, n))
    m = data.draw(st.integers(0, k - 1))
    at = torch.tensor(margins, dtype=torch.float64)
    value = ranked_range(loss(at), k, m).item()
    at_zero = loss(torch.zeros((), dtype=torch.float64)).item()
    wrong = (at <= 0).double().mean().item()
    assert wrong <= wrong_at_most(value, (k - m) / n, m / n, at_zero) + 1e-9


def test_a_ranked_range_of_zero_leaves_a_share_of_mu_wrong_against_the_remark_on_theorem_3() -> None:
    margins = torch.tensor([-5.0] + 9 * [5.0])
    assert ranked_range(hinge(margins), k=10, m=1).item() == 0
    assert wrong_at_most(0.0, nu=0.9, mu=0.1, loss_at_zero=1.0) == pytest.approx((margins <= 0).double().mean().item())


def test_impossible_shares_and_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="nu = 0.9, mu = 0.2"):
        wrong_at_most(0.1, 0.9, 0.2, 1.0)
    with pytest.raises(InputError, match="must be positive"):
        wrong_at_most(0.1, 0.9, 0.1, 0.0)
    for function in (gradients, slopes, objective):
        with pytest.raises(InputError, match="m = 3"):
            function(torch.rand(4), 0.0, 1.0, 2, 3)
