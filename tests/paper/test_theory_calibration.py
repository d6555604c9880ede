"""Theorem 2: its conditions, the calibration function by brute force, and two cases in which the theorem is false."""

from __future__ import annotations

from itertools import product
from math import inf, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from orat.core.errors import InputError
from orat.methods.ranked_range import ranked_range
from orat_paper.theory import (
    Hypotheses,
    OratLoss,
    all_functions,
    calibration_function,
    counterexample,
    error_at_most,
    failing,
    hinge,
    is_calibrated,
    is_calibrated_convex,
    linear_functions,
    logistic,
    needed_conditions,
    optimum,
    stated_conditions,
)

RAMP = OratLoss(hinge, 0.0, 1.0)  # the hinge loss cut at 1: the margin loss with rho = 1
AT_ZERO = {hinge: 1.0, logistic: log(2)}
EVERYTHING = all_functions()

quick = settings(max_examples=100, deadline=None)


def values(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@given(st.floats(-9, 9), st.floats(0, 2), st.floats(0, 3))
@quick
def test_phi_is_the_loss_cut_to_the_range_of_the_two_scalars(margin: float, lower: float, width: float) -> None:
    for loss in (hinge, logistic):
        expected = min(max(loss(values(margin)).item() - lower, 0), width)
        assert OratLoss(loss, lower, width).at(margin) == pytest.approx(expected)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.sampled_from([-1, 1]))
@quick
def test_the_adversarial_phi_is_phi_of_the_least_margin_on_the_ball(scores: list[float], label: int) -> None:
    phi = OratLoss(logistic, 0.2, 1.5)
    least = min(label * score for score in scores)
    assert phi.adversarial(values(*scores), label).item() == pytest.approx(phi.at(least))


def test_conditions_that_fail_are_named_with_their_numbers() -> None:
    assert failing(stated_conditions(OratLoss(hinge, 0.2, 0.5), nu=0.8, risk=0.1)) == []
    assert failing(stated_conditions(OratLoss(hinge, 0.2, 0.5), nu=0.1, risk=0.3)) == [
        "nu > min(lambda-hat, risk) (nu = 0.1, min = 0.3)"
    ]
    assert failing(stated_conditions(OratLoss(hinge, 0.6, 0.5), nu=0.8, risk=0.1)) == [
        "0 <= lambda < lambda-hat (lambda = 0.6, lambda-hat = 0.5)"
    ]
    assert "bounded" in failing(stated_conditions(OratLoss(hinge, 0.2, inf), nu=0.8, risk=0.1))[0]


@pytest.mark.parametrize(
    ("loss", "word"),
    [
        (lambda t: hinge(t) - 0.1, "non-negative"),
        (lambda t: (t <= 0).double(), "continuous"),
        (lambda t: t.square(), "non-increasing"),
    ],
)
def test_losses_outside_the_theorem_are_told(loss, word: str) -> None:
    (said,) = failing(stated_conditions(OratLoss(loss, 0.2, 0.5), nu=0.8, risk=0.1))
    assert word in said


def test_the_calibration_function_of_the_margin_loss_is_the_closed_form() -> None:
    for eta in (0.6, 0.75, 0.9, 1.0):
        for tau in (0.05, 2 * eta - 1):
            assert calibration_function(RAMP, tau, eta, EVERYTHING) == pytest.approx(2 * eta - 1, abs=1e-9)
        for tau in {2 * eta - 1 + 1e-3, eta} if eta < 1 else set():
            assert calibration_function(RAMP, tau, eta, EVERYTHING) == pytest.approx(eta, abs=1e-9)
        assert calibration_function(RAMP, eta + 1e-3, eta, EVERYTHING) == inf
    assert calibration_function(RAMP, 0.5, 0.5, EVERYTHING) == pytest.approx(0.5)


@pytest.mark.parametrize("eta", [0.0, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("phi", [RAMP, OratLoss(hinge, 0.0, 2.0), OratLoss(logistic, 0.1, 1.0)])
def test_least_and_largest_scores_do_for_all_functions_on_three_points(phi: OratLoss, eta: float) -> None:
    functions = values(*product((-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0), repeat=3))
    risk = eta * phi.adversarial(functions, 1) + (1 - eta) * phi.adversarial(functions, -1)
    error = eta * (functions <= 0).any(1).double() + (1 - eta) * (functions >= 0).any(1).double()
    reduced = Hypotheses(functions.amin(1), functions.amax(1))
    for tau in (0.1, 0.4, 0.6, 0.9):
        wrong = [r for r, e in zip(risk.tolist(), error.tolist(), strict=True) if e - error.min().item() >= tau - 1e-9]
        expected = min(wrong, default=inf) - risk.min().item()
        assert calibration_function(phi, tau, eta, reduced) == pytest.approx(expected)


@pytest.mark.parametrize("loss", [hinge, logistic])
@given(st.floats(0, 1.2), st.floats(0, 3))
@settings(max_examples=30, deadline=None)
def test_calibration_ends_where_the_middle_of_the_cuts_passes_the_loss_at_zero(
    loss, lower: float, width: float
) -> None:
    at_zero = AT_ZERO[loss]
    if min(abs(width - 2 * (at_zero - lower)), width) < 0.02:
        return  # too close for the grid
    phi = OratLoss(loss, lower, width)
    calibrated = is_calibrated_convex(phi, at_zero)
    assert calibrated == (lower + width / 2 < at_zero and width > 0)
    assert is_calibrated(phi) == calibrated
    assert (counterexample(phi, EVERYTHING) is None) == calibrated


@pytest.mark.parametrize(("lower", "width"), [(0.0, 2.0), (0.1, 0.5), (0.5, 1.2), (0.9, 0.1), (1.1, 0.4)])
@pytest.mark.parametrize("loss", [hinge, logistic])
def test_the_least_tau_decides_whether_there_is_a_counterexample(loss, lower: float, width: float) -> None:
    phi, functions, taus = OratLoss(loss, lower, width), all_functions(steps=41), [place / 40 for place in range(1, 41)]
    fails = False
    for eta in (0.2, 0.5, 0.8):
        deltas = [calibration_function(phi, tau, eta, functions) for tau in taus]
        assert deltas == sorted(deltas)
        found = counterexample(phi, functions, etas=[eta])
        assert (found is not None) == (min(deltas) < 1e-9)
        fails = fails or found is not None
    assert fails != is_calibrated_convex(phi, AT_ZERO[loss])


def test_theorem_2_is_false_for_the_hinge_loss_although_every_condition_holds() -> None:
    """One label in ten is wrong and one loss in ten is dropped: f = 1 is optimal, with losses 0 and 2."""
    losses = hinge(values(*9 * [1.0], -1.0))
    best = optimum(losses, k=9, m=1)
    assert (best.value, best.lower, best.width) == (0.0, 0.0, 2.0)
    scores = torch.linspace(-3, 3, 601, dtype=torch.float64)
    risk = (0.9 * hinge(scores) + 0.1 * hinge(-scores)).min().item()
    phi = OratLoss(hinge, best.lower, best.width)
    assert failing(stated_conditions(phi, nu=0.8, risk=risk)) == []
    found = counterexample(phi, EVERYTHING)
    assert found is not None
    assert (found.eta, found.tau, found.least, found.largest) == (0.5, 0.5, 0.0, 0.0)
    assert found.delta == pytest.approx(0)
    assert failing(needed_conditions(phi, nu=0.8, risk=risk)) == [
        "phi(t) + phi(-t) < 2 phi(0) for some t (it falls by 0 at most)"
    ]


def test_lemma_5_is_false_for_the_logistic_loss_because_it_lost_a_factor() -> None:
    """Coin-flip labels: each of 20 points carries both; nu = 0.75 lies above the risk log 2, nu log 2 below it."""
    k, m = 34, 4

    def ranked(scores: Tensor) -> Tensor:
        return logistic(torch.cat([scores, -scores]))

    best = values(*4 * [5.0], *16 * [0.0])
    found = optimum(ranked(best), k, m)
    assert found.value == pytest.approx(log(2))
    generator = torch.Generator().manual_seed(0)
    for scale in (0.01, 0.1, 1.0, 10.0):  # no function does better
        for _ in range(50):
            scores = scale * torch.randn(20, generator=generator, dtype=torch.float64)
            assert ranked_range(ranked(scores), k, m).item() >= log(2) - 1e-9
    assert found.lower == pytest.approx(log(2))  # the lemma says less than l(0) = log 2
    assert found.widths[0] < 1 < found.widths[1]
    phi = OratLoss(logistic, found.lower, 1.0)
    assert failing(stated_conditions(phi, nu=0.75, risk=log(2))) == []
    assert failing(needed_conditions(phi, nu=0.75, risk=log(2)))[0].startswith("nu l(0) > min(lambda-hat, risk)")
    assert counterexample(phi, EVERYTHING) is not None


def test_bounded_linear_functions_need_room_that_all_functions_have() -> None:
    """phi is flat up to a margin of 0.5; small weights stay below."""
    phi = OratLoss(hinge, 0.0, 0.5)
    assert counterexample(phi, EVERYTHING) is None
    assert counterexample(phi, linear_functions(norm=1.0, eps=0.1, radius=0.5)) is not None
    assert counterexample(phi, linear_functions(norm=1.0, eps=0.1, radius=3.0)) is None


def test_an_attack_that_reaches_the_origin_leaves_nothing_to_calibrate() -> None:
    """Every linear function is wrong somewhere on the ball, so all are equally bad."""
    assert counterexample(OratLoss(hinge, 0.0, 2.0), linear_functions(norm=0.1, eps=0.2, radius=1.0)) is None


@given(st.lists(st.floats(-4, 4), min_size=1, max_size=10), st.floats(0, 0.6), st.floats(0.1, 3))
@quick
def test_the_mean_of_phi_bounds_the_adversarial_error(margins: list[float], lower: float, width: float) -> None:
    phi = OratLoss(logistic, lower, width)
    at = values(*margins)
    assert (at <= 0).double().mean().item() <= error_at_most(phi, phi(at).mean().item()) + 1e-9


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="errors cost nothing"):
        error_at_most(OratLoss(hinge, 1.0, 1.0), 0.1)
    with pytest.raises(InputError, match="odd number"):
        all_functions(steps=10)
    with pytest.raises(InputError, match="lambda = -1"):
        is_calibrated_convex(OratLoss(hinge, -1.0, 1.0), 1.0)
