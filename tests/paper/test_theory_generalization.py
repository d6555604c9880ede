"""Theorem 3: complexities against exact enumeration and draws, bounds by their terms, and the paper's slips."""

from __future__ import annotations

from itertools import product
from math import inf, log, sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from orat.core.errors import InputError
from orat_paper.theory import (
    Setting,
    attack_complexity,
    bound,
    linear_bound,
    linear_complexity,
    network_bound,
    network_complexity,
    samples_needed,
    worst_margins,
)
from orat_paper.theory.complexity import dual, input_reach, khintchine, random_signs, sampled_complexity, stretch

NORMS = (1.0, 1.2, 1.5, 2.0, 3.0, 8.0, inf)
SETTING = Setting(n=1000, nu=0.8, loss_max=2.0)

quick = settings(max_examples=60, deadline=None)


def points_of(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def all_signs(n: int) -> Tensor:
    return torch.tensor(list(product((-1, 1), repeat=n)))


@given(st.floats(1, 50))
def test_the_dual_exponents_add_up_to_one(p: float) -> None:
    assert 1 / p + 1 / dual(p) == pytest.approx(1)
    assert dual(dual(p)) == pytest.approx(p)
    assert (dual(1.0), dual(inf)) == (inf, 1)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("attack_norm", [1.0, 2.0, inf])
def test_the_stretch_is_the_largest_dual_norm_of_the_unit_ball(p: float, attack_norm: float) -> None:
    """The stretch is reached at a corner or at the even vector; random vectors stay below."""
    d = 5
    candidates = torch.cat(
        [torch.eye(d, dtype=torch.float64), torch.ones(1, d, dtype=torch.float64), points_of(200, d)]
    )
    sizes = (candidates / candidates.norm(p, dim=1, keepdim=True)).norm(dual(attack_norm), dim=1)
    assert sizes.max().item() == pytest.approx(stretch(d, p, attack_norm))


def test_the_papers_dimension_factor_is_that_of_the_l_infinity_attack_only() -> None:
    assert stretch(784, 2.0) == pytest.approx(784 ** (1 - 1 / 2))
    assert stretch(784, 2.0, attack_norm=2.0) == 1.0


@pytest.mark.parametrize("p", NORMS)
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_the_closed_form_bounds_the_exact_complexity_of_linear_functions(p: float, n: int, d: int, seed: int) -> None:
    points = points_of(n, d, seed)
    exact = sampled_complexity(points, 1.5, p, all_signs(n))
    assert exact <= linear_complexity(points, 1.5, p) + 1e-12
    if p == 2:  # Khintchine's lower constant is 1 / sqrt(2)
        assert linear_complexity(points, 1.5, p) <= sqrt(2) * exact + 1e-12


@pytest.mark.parametrize("p", NORMS)
def test_draws_of_signs_agree_with_all_signs_and_stay_below_the_closed_form(p: float) -> None:
    generator = torch.Generator().manual_seed(1)
    few, many = points_of(10, 4), points_of(300, 4)
    sampled = sampled_complexity(few, 1.0, p, random_signs(20_000, 10, generator))
    assert sampled == pytest.approx(sampled_complexity(few, 1.0, p, all_signs(10)), rel=0.02)
    ratio = linear_complexity(many, 1.0, p) / sampled_complexity(many, 1.0, p, random_signs(2000, 300, generator))
    assert 1 < ratio < 2.5


@given(st.floats(1.05, 2), st.integers(1, 30), st.integers(1, 8))
@quick
def test_the_closed_form_is_never_above_that_of_kakade_and_others(p: float, n: int, d: int) -> None:
    points, q = points_of(n, d), dual(p)
    theirs = points.norm(q, dim=1).max().item() * sqrt((q - 1) / n)
    assert linear_complexity(points, 1.0, p) <= theirs + 1e-12
    assert khintchine(q) <= sqrt(q - 1) + 1e-12


@pytest.mark.parametrize("p", [1.0, 2.0, inf])
def test_the_attack_adds_no_more_to_the_complexity_than_its_term(p: float) -> None:
    """Both complexities exactly, over all signs, with the supremum over a fine set of directions of the plane."""
    points, labels, eps = points_of(8, 2), torch.tensor([1.0, -1.0]).double().repeat(4), 0.3
    angles = torch.linspace(0, 6.2832, 721, dtype=torch.float64)
    circle = torch.stack([angles.cos(), angles.sin()], 1)
    functions = torch.cat([circle / circle.norm(p, dim=1, keepdim=True), torch.zeros(1, 2).double()])
    margins = torch.stack([worst_margins(weights, points, labels, eps) for weights in functions])
    attacked = (all_signs(8).double() @ margins.T).amax(1).mean().item() / 8
    natural = sampled_complexity(points, 1.0, p, all_signs(8))
    added = attack_complexity(8, 2, 1.0, p, eps)
    assert max(natural, added / sqrt(2)) - 1e-3 <= attacked <= natural + added


@given(st.floats(0, 1), st.sampled_from([1.0, 2.0, inf]), st.integers(0, 99))
@quick
def test_the_worst_margin_is_reached_on_the_ball_and_never_passed(eps: float, attack_norm: float, seed: int) -> None:
    weights, moves = points_of(1, 3, seed)[0], points_of(200, 3, seed + 1)
    corners = torch.cat([moves, torch.eye(3).double(), -torch.eye(3).double(), weights[None], weights.sign()[None]])
    ball = eps * torch.cat([corners, -corners])
    ball = ball / corners.repeat(2, 1).norm(attack_norm, dim=1, keepdim=True)
    point = points_of(1, 3, seed + 2)
    found = worst_margins(weights, point, torch.tensor([-1.0]).double(), eps, attack_norm).item()
    assert (-(point + ball) @ weights).min().item() == pytest.approx(found)


def test_each_term_of_theorem_3_is_as_its_proof_gives_it() -> None:
    terms = bound(0.05, SETTING).terms
    assert terms["complexity"] == pytest.approx(2 / 0.8 * 2 * 0.05)
    assert terms["scalars"] + terms["confidence"] == pytest.approx(
        2 / 0.8 * 2.0 * (2 * sqrt(2) + 3 * sqrt(log(4 / 0.05))) / sqrt(2000)
    )


def test_the_printed_theorem_has_half_the_probabilities_of_its_proof() -> None:
    printed, proven = bound(0.0, SETTING, printed=True), bound(0.0, SETTING)
    ratio = printed.terms["confidence"] / proven.terms["confidence"]
    assert ratio == pytest.approx(sqrt(log(40) / log(80)))
    doubled = Setting(SETTING.n, SETTING.nu, SETTING.loss_max, delta=0.1)  # what the printed bound holds with
    assert bound(0.0, doubled).value == pytest.approx(printed.value)


def test_the_printed_linear_example_has_half_the_attack_of_its_own_parts() -> None:
    """Theorem 3 with the complexity of the attacked class, computed by hand."""
    attack = attack_complexity(1000, 10, 3.0, 2.0, 0.1)
    whole = bound(0.2 + attack, SETTING)
    ours, printed = (linear_bound(0.2, 10, 3.0, 2.0, 0.1, SETTING, printed=p) for p in (False, True))
    assert ours.value == pytest.approx(whole.value)
    assert ours.terms["attack"] == pytest.approx(2 * printed.terms["attack"])
    assert printed.terms["attack"] == pytest.approx(2 / 0.8 * 0.1 * 3 * sqrt(10) / (2 * sqrt(1000)))


def test_the_network_example_as_printed_and_as_counted() -> None:
    setting = Setting(400, 0.5, 1.0)
    printed = network_bound(1.0, 6, 5, 2.0, 3.0, 2.0, 0.1, setting, printed=True).terms["complexity"]
    assert printed == pytest.approx(2 / 0.5 * 2 * 6 * sqrt(6) * 1.1 / 20 * (1 + sqrt(6 * 6 * log(36))))
    ours = network_bound(1.0, 6, 5, 2.0, 3.0, 2.0, 0.1, setting).terms["complexity"]
    assert ours == pytest.approx(2 / 0.5 * 2 * 6 * sqrt(6) * 1.1 / 20 * (1 + sqrt(5 * 7 * log(36 * 400))))


def test_the_network_complexity_scales_with_the_inputs_where_the_printed_one_stays() -> None:
    reaches = [input_reach(scale, 3, 2.0, 0.1 * scale) for scale in (0.2, 0.02)]
    ours = [network_complexity(100, 3, 4, 1.0, 1.0, reach) for reach in reaches]
    printed = [network_complexity(100, 3, 4, 1.0, 1.0, reach, printed=True) for reach in reaches]
    assert ours[0] == pytest.approx(10 * ours[1])
    assert printed[0] == printed[1]


@pytest.mark.parametrize("eps", [0.0, 0.2])
def test_no_network_that_was_tried_passes_the_bound_of_its_class(eps: float) -> None:
    """The attacked complexity of small networks on the line, from below, over all signs; the ball by its grid."""
    generator = torch.Generator().manual_seed(3)
    n, hidden = 8, 3
    points, labels = points_of(n, 1), torch.tensor([1.0, -1.0]).double().repeat(n // 2)
    ball = points + eps * torch.linspace(-1, 1, 21, dtype=torch.float64)
    inner = 2 * torch.rand(2000, hidden, generator=generator, dtype=torch.float64) - 1
    outer = torch.randn(2000, hidden, generator=generator, dtype=torch.float64)
    outer = outer / outer.norm(1, dim=1, keepdim=True)
    scores = torch.einsum("fh,fhnb->fnb", outer, (inner[:, :, None, None] * ball).relu())
    margins = (labels[:, None] * scores).amin(2)
    lower = (all_signs(n).double() @ margins.T).amax(1).mean().item() / n
    reach = input_reach(points.abs().max().item(), 1, 2.0, eps)
    assert 0 < lower <= network_complexity(n, 1, hidden, 1.0, 1.0, reach)


def total(n: int, nu: float, eps: float, p: float, delta: float = 0.05, network: bool = False) -> float:
    setting = Setting(n, nu, 1.0, delta=delta)
    if network:
        return network_bound(1.0, 20, 8, 1.0, 1.0, p, eps, setting).value
    return linear_bound(1 / sqrt(n), 20, 1.0, p, eps, setting).value


@given(
    st.integers(1, 10**6), st.floats(0.01, 0.9), st.floats(0, 1), st.sampled_from(NORMS), st.floats(0.01, 0.4),
    st.booleans(),
)  # fmt: skip
@quick
def test_bounds_fall_with_n_nu_and_delta_and_rise_with_eps(
    n: int, nu: float, eps: float, p: float, delta: float, network: bool
) -> None:
    here = total(n, nu, eps, p, delta, network)
    assert total(2 * n, nu, eps, p, delta, network) < here
    assert total(n, nu * 1.1, eps, p, delta, network) < here
    assert total(n, nu, eps + 0.1, p, delta, network) > here
    assert total(n, nu, eps, p, delta * 2, network) < here
    assert total(n, nu / 2, eps, p, delta, network) == pytest.approx(2 * here)


def test_linear_bounds_vanish_as_the_root_of_n_and_lose_the_attack_at_eps_zero() -> None:
    assert total(10**10, 0.5, 0.1, 2.0) == pytest.approx(total(10**6, 0.5, 0.1, 2.0) / 100)
    assert linear_bound(0.3, 20, 1.0, 2.0, 0.0, SETTING).value == pytest.approx(bound(0.3, SETTING).value)
    assert linear_bound(0.3, 20, 1.0, 2.0, 0.0, SETTING).terms["attack"] == 0


@given(st.floats(0.05, 1), st.floats(0.1, 5), st.floats(0.01, 1))
@quick
def test_the_samples_needed_are_the_first_with_which_the_bound_is_small(nu: float, loss_max: float, gap: float) -> None:
    n = samples_needed(gap, Setting(1, nu, loss_max))
    assert bound(0.0, Setting(n, nu, loss_max)).value <= gap * (1 + 1e-9)
    assert n == 1 or bound(0.0, Setting(n - 1, nu, loss_max)).value > gap * (1 - 1e-9)


def test_with_fewer_than_166_samples_theorem_3_says_nothing_of_any_class() -> None:
    assert samples_needed(1.0, Setting(1, nu=1.0, loss_max=1.0)) == 166
    assert bound(0.0, Setting(165, 1.0, 1.0)).is_vacuous
    assert not bound(0.0, Setting(166, 1.0, 1.0)).is_vacuous


@pytest.mark.parametrize("wrong", [{"n": 0}, {"nu": 0.0}, {"nu": 1.1}, {"delta": 1.0}, {"loss_max": 0.0}])
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="= "):
        Setting(**({"n": 10, "nu": 0.5, "loss_max": 1.0} | wrong))


def test_what_is_no_norm_and_what_no_sample_closes_is_refused() -> None:
    with pytest.raises(InputError, match="p = 0.5"):
        dual(0.5)
    with pytest.raises(InputError, match="gap = 0"):
        samples_needed(0.0, SETTING)
