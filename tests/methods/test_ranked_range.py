"""The ranked range: sorting, memory and min-max agree, and Theorem 1 holds."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import assert_refused_in_one_line
from torch import Tensor

from orat.core.errors import InputError
from orat.methods import ORAT
from orat.methods.base import Setting
from orat.methods.ranked_range import MinMaxLoss, RankedRangeLoss, count, minmax, ranked_range

ONES = torch.ones(10)


@st.composite
def losses_and_ranks(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    n = draw(st.integers(1, 12))
    values = draw(st.lists(st.floats(0, 20, width=32), min_size=n, max_size=n))
    k = draw(st.integers(1, n))
    m = draw(st.integers(0, k - 1))
    return torch.tensor(values, dtype=torch.float64), k, m


def best_over_width(losses: Tensor, lower: float, k: int, m: int) -> float:
    """The maximum over lambda-hat: the objective is piecewise linear and concave, so it lies at a kink."""
    widths = [0.0, *(loss - lower for loss in losses.tolist() if loss > lower)]
    at = torch.tensor(lower, dtype=torch.float64)
    return max(minmax(losses, at, torch.tensor(w, dtype=torch.float64), len(losses), k, m).item() for w in widths)


@given(st.lists(st.floats(0, 20, width=32), min_size=1, max_size=7), st.floats(-5, 25))
@settings(max_examples=100, deadline=None)
def test_the_min_max_optimum_of_theorem_1_is_the_sorted_mean_for_every_k_and_m(
    values: list[float], elsewhere: float
) -> None:
    losses, n = torch.tensor(values, dtype=torch.float64), len(values)
    for m in range(n):
        for k in range(m + 1, n + 1):
            target = ranked_range(losses, k, m).item() * (k - m) / n
            optimum = min(best_over_width(losses, lower, k, m) for lower in values)
            assert optimum == pytest.approx(target, abs=1e-9)
            assert best_over_width(losses, elsewhere, k, m) >= target - 1e-9


@given(losses_and_ranks())
@settings(max_examples=200, deadline=None)
def test_the_optimum_lies_at_the_losses_ranked_k_and_m(case: tuple[Tensor, int, int]) -> None:
    """lambda = l_[k], lambda-hat = l_[m] - l_[k]; "lambda-hat > lambda" of the paper is false (erratum)."""
    losses, k, m = case
    n = len(losses)
    ranked = losses.sort(descending=True).values
    lower, top = ranked[k - 1], ranked[max(m, 1) - 1]
    value = minmax(losses, lower, top - lower, n, k, m).item()
    assert value * n / (k - m) == pytest.approx(ranked_range(losses, k, m).item(), abs=1e-9)


@given(losses_and_ranks(), st.floats(0, 20, width=32), st.floats(0, 20, width=32), st.floats(0.01, 1))
@settings(max_examples=200, deadline=None)
def test_one_sgd_step_on_the_scalars_is_the_subgradient_of_the_paper(
    case: tuple[Tensor, int, int], lower: float, width: float, lr: float
) -> None:
    losses, k, m = case
    n = len(losses)
    solver = MinMaxLoss(n, k, m).double()
    solver.epochs = solver.burn_in
    with torch.no_grad():
        solver.lower.fill_(lower)
        solver.width.fill_(width)
    optimizer = torch.optim.SGD(solver.param_groups(lr), lr=lr)
    if k == n and m == 0:
        return  # the plain mean, without scalars
    solver(losses, torch.arange(n)).backward()
    optimizer.step()
    below_top = [width > max(0.0, loss - lower) for loss in losses.tolist()]  # appendix B
    kept = [b and loss > lower for b, loss in zip(below_top, losses.tolist(), strict=True)]
    assert solver.lower.item() == pytest.approx(lower - lr * ((k - m) / n - sum(kept) / n))
    assert solver.width.item() == pytest.approx(width + lr * ((n - m) / n - sum(below_top) / n))


@given(losses_and_ranks(), st.floats(-5, 20, width=32), st.floats(0.5, 20, width=32))
@settings(max_examples=200, deadline=None)
def test_a_step_moves_the_upper_cut_independently_of_m(
    case: tuple[Tensor, int, int], lower: float, width: float
) -> None:
    """By the rate times (n - k) / n less the share of losses up to lambda (erratum 13)."""
    losses, k, _ = case
    n = len(losses)
    for m in range(k):
        scalars = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (lower, width)]
        down, up = torch.autograd.grad(minmax(losses, *scalars, n, k, m), scalars)
        assert (up - down).item() == pytest.approx((n - k) / n - (losses <= lower).double().mean().item(), abs=1e-9)


@given(losses_and_ranks())
@settings(max_examples=100, deadline=None)
def test_the_gradient_for_the_losses_is_the_indicator_of_the_paper(case: tuple[Tensor, int, int]) -> None:
    losses, k, m = case
    n = len(losses)
    losses.requires_grad_()
    lower, width = torch.tensor(3.0, dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(minmax(losses, lower, width, n, k, m), losses)
    expected = [1 / n if loss > 3 and max(0.0, loss - 3) < 5 else 0.0 for loss in losses.tolist()]
    assert gradient.tolist() == pytest.approx(expected)


def test_memory_on_the_full_batch_equals_sorting_for_all_ranks() -> None:
    losses = torch.rand(9, dtype=torch.float64).requires_grad_()
    for k in range(1, 10):
        for m in range(k):
            folded = RankedRangeLoss(9, k, m)(losses)
            expected = ranked_range(losses, k, m)
            assert folded.item() == pytest.approx(expected.item())
            (ours,) = torch.autograd.grad(folded, losses)
            (theirs,) = torch.autograd.grad(expected, losses)
            assert torch.allclose(ours, theirs)


def test_memory_over_batches_cuts_at_the_ranks_of_the_whole_data_set() -> None:
    losses = torch.tensor([9.0, 8.0, 1.0, 2.0, 3.0, 4.0])
    fold = RankedRangeLoss(6, k=5, m=2)
    index = torch.arange(6)
    for part in index.split(2):
        fold(losses[part], part)
    fold.end_epoch()
    assert fold(losses[:2], index[:2]).item() == 0  # both losses are among the m largest
    assert fold(losses[2:4], index[2:4]).item() == pytest.approx(2.0 / 2 * 6 / 3)  # 1.0 is below rank k
    assert fold.decision().flagged(torch.zeros(6, dtype=torch.int64)).tolist() == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_the_fold_is_the_mean_until_every_sample_has_a_loss() -> None:
    fold = RankedRangeLoss(4, k=4, m=1)
    assert fold(torch.tensor([5.0, 1.0]), torch.tensor([0, 1])).item() == 3.0


def test_burn_in_keeps_the_mean_for_its_epochs() -> None:
    fold = RankedRangeLoss(2, k=2, m=1, burn_in=2)
    losses = torch.tensor([4.0, 2.0])
    values = []
    for _ in range(3):
        values.append(fold(losses).item())
        fold.end_epoch()
    assert values == [3.0, 3.0, 2.0]


def test_m_comes_in_over_the_ramp_in_equal_steps() -> None:
    """All of the losses 1 to 10 are kept, then 8, 6 and 4."""
    fold, losses = RankedRangeLoss(10, k=10, m=6, burn_in=1, ramp=2), torch.arange(10.0) + 1
    epochs = [(fold(losses).item(), fold.end_epoch()["cut"]) for _ in range(5)]
    assert epochs == [(5.5, 0), (pytest.approx(4.5), 2), (3.5, 4), (2.5, 6), (2.5, 6)]


def upper_cuts(solver: MinMaxLoss, losses: torch.Tensor, epochs: int, rate: float = 0.5) -> list[float]:
    """The sum of both scalars after each epoch of one step, once they have started."""
    optimizer = torch.optim.SGD(solver.param_groups(rate), lr=rate)
    sums = []
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = solver(losses, torch.arange(len(losses)))
        if loss.requires_grad:
            loss.backward()
            optimizer.step()
            sums.append((solver.lower + solver.width).item())
        solver.end_epoch()
    return sums


def test_with_k_below_n_the_upper_cut_of_min_max_rises_by_a_fixed_amount_with_a_warning() -> None:
    """On MNIST with k = 59,000, the cut rose past the losses of wrong labels in this way."""
    solver = MinMaxLoss(100, k=95, m=20)
    solver(torch.linspace(1, 3, 100), torch.arange(100))  # early losses
    solver.end_epoch()
    cuts = upper_cuts(solver, torch.cat([torch.linspace(0.1, 1, 60), torch.full((40,), 12.0)]), 100)
    rises = [after - before for before, after in itertools.pairwise(cuts)]
    assert rises[20:] == pytest.approx([0.5 * 5 / 100] * 79, abs=1e-5)
    assert solver.warning() is not None
    assert "rises, as k is less than n" in solver.warning()


def test_min_max_drifts_at_a_gap_in_the_losses_and_the_memory_does_not() -> None:
    """The gap is at rank 30, above m = 20: the scalars drift, and 30 samples are removed for good."""
    losses = torch.cat([torch.full((70,), 0.1), torch.full((30,), 5.0)])
    solver, memory = MinMaxLoss(100, k=100, m=20), RankedRangeLoss(100, k=100, m=20)
    cuts = upper_cuts(solver, losses, 200)
    for _ in range(200):
        memory(losses, torch.arange(100))
        memory.end_epoch()
    assert cuts == pytest.approx([4.65] * 199, abs=1e-3)
    assert solver.warning() is not None
    assert "drift" in solver.warning()
    assert "hardly moves, and 30 samples are removed, where m = 20" in solver.warning()
    assert memory.warning() is None
    low, high = memory.cut_values(20)
    assert (low.item(), high.item()) == pytest.approx((0.1, 5.0))


def test_the_scalars_start_at_the_ranks_of_the_losses_of_the_burn_in() -> None:
    solver = MinMaxLoss(8, k=8, m=2)
    solver(torch.arange(8.0) + 1, torch.arange(8))
    record = solver.end_epoch()
    assert (record["lambda"], record["lambda_hat"]) == (1.0, 6.0)  # l_[8], and l_[2] - l_[8]


def test_min_max_with_m_0_starts_from_the_largest_loss() -> None:
    solver = MinMaxLoss(4, k=3, m=0)
    solver(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.arange(4))
    solver.end_epoch()
    assert solver.lower.item() == 2.0
    assert solver.width.item() == 2.0


def test_a_state_dict_holds_scalars_memory_and_epochs() -> None:
    solver = MinMaxLoss(4, k=3, m=1)
    solver(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.arange(4))
    solver.end_epoch()
    other = MinMaxLoss(4, k=3, m=1)
    other.load_state_dict(solver.state_dict())
    assert (other.epochs, other.lower.item(), other.width.item()) == (1, 2.0, 2.0)
    assert torch.equal(other.last_losses, solver.last_losses)


def test_min_max_passes_gradcheck_away_from_its_kinks() -> None:
    losses = torch.tensor([0.3, 1.7, 2.9, 6.1], dtype=torch.float64, requires_grad=True)
    lower = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    width = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *a: minmax(*a, 4, 3, 1), (losses, lower, width))


@pytest.mark.parametrize(("n", "k", "m"), [(5, 3, 3), (5, 6, 0), (5, 5, 5), (5, 3, -1), (5, 2, 4)])
def test_ranks_that_keep_no_loss_are_refused_with_their_values(n: int, k: int, m: int) -> None:
    with pytest.raises(InputError, match=f"m = {m}"):
        ranked_range(torch.rand(n), k, m)


def test_a_part_of_the_losses_without_ids_is_refused() -> None:
    with pytest.raises(InputError, match="without ids"):
        RankedRangeLoss(10, 8, 2)(torch.rand(4))


def test_counts_are_scaled_to_the_training_part_and_fractions_are_shares_of_it() -> None:
    assert count(11_000, 57_000, 60_000) == 10_450
    assert count(60_000, 57_000, 60_000) == 57_000
    assert count(0.3, 57_000, 60_000) == 17_100
    assert count(1.0, 57_000, 60_000) == 57_000
    assert count(0, 57_000, 60_000) == 0
    with pytest.raises(InputError, match=r"1\.5"):
        count(1.5, 10)
    with pytest.raises(InputError, match="60001 among 60000"):
        count(60_001, 57_000, 60_000)


@pytest.mark.parametrize("kind", [RankedRangeLoss, MinMaxLoss])
@pytest.mark.parametrize(
    ("given", "expected"),
    [((1.0, 0.2), (10, 2)), ((10, 0.25), (10, 2)), ((0.9, 3), (9, 3)), ((10, 0.0), (10, 0)), ((10, 0), (10, 0))],
)
def test_floats_are_fractions_and_integers_are_counts(
    kind: type[RankedRangeLoss], given: tuple[float, float], expected: tuple[int, int]
) -> None:
    fold, losses = kind(10, *given), torch.arange(10.0).square()
    assert (fold.n, fold.k, fold.m) == (10, *expected)
    assert type(fold.k) is type(fold.m) is int
    ranked = losses.sort(descending=True).values[expected[1] : expected[0]]
    assert ranked_range(losses, *given).item() == pytest.approx(ranked.mean().item())
    if kind is RankedRangeLoss:
        assert fold(losses).item() == pytest.approx(ranked.mean().item())


def test_a_share_means_the_same_as_for_the_method() -> None:
    setting = Setting(50, 50, 10, 4, 8, (), 3, "uniform", torch.zeros(50, dtype=torch.long), None)
    for solver, kind in (("rank", RankedRangeLoss), ("minmax", MinMaxLoss)):
        state = ORAT(m=0.2, k=0.9, solver=solver).start(setting)
        own = kind(50, k=0.9, m=0.2)
        assert (state.k, state.m) == (own.k, own.m) == (45, 10)


@pytest.mark.parametrize(
    ("k", "m", "words"),
    [
        (10, 1.5, "1.5 is no fraction"),
        (10.0, 2, "10.0 is no fraction"),
        (10, -0.1, "-0.1 is no fraction"),
        (10, 1.0, "m = 10 of n = 10"),
        (0.2, 0.2, "k = 2, m = 2"),
        (11, 0.2, "k = 11"),
        (10, math.nan, "nan is no fraction"),
    ],
)
def test_shares_that_keep_no_loss_are_refused_in_one_line(k: float, m: float, words: str) -> None:
    for build in (lambda: RankedRangeLoss(10, k, m), lambda: MinMaxLoss(10, k, m), lambda: ranked_range(ONES, k, m)):
        assert_refused_in_one_line(build, words)


def test_ranked_range_of_known_losses() -> None:
    assert ranked_range(torch.tensor([5.0, 1.0, 4.0, 2.0]), k=3, m=1).item() == 3.0
    assert math.isclose(ranked_range(torch.tensor([5.0, 1.0]), k=2, m=0).item(), 3.0)


def test_the_decision_removes_the_samples_above_the_upper_cut_once_the_burn_in_is_over() -> None:
    fold, losses = RankedRangeLoss(5, k=5, m=2, burn_in=1), torch.tensor([1.0, 9.0, 3.0, 8.0, 2.0])
    removed = []
    for _ in range(2):
        fold(losses)
        fold.end_epoch()
        removed.append((~fold.decision().keep).tolist())
    assert removed == [[False] * 5, [False, True, False, True, False]]
    assert fold.decision().labels is None
