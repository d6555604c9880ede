"""PGD against closed forms, foolbox and the definition of a ball."""

from __future__ import annotations

import math
from collections.abc import Callable

import foolbox
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import assert_refused_in_one_line
from torch import Tensor, nn

from orat.attacks import PGD, suite
from orat.attacks.balls import BALLS
from orat.attacks.pgd import frozen
from orat.core.losses import (
    boosted_cross_entropy,
    cross_entropy,
    cw,
    divergence,
    margin,
    mean_one,
    probability,
    probability_margin,
)

EPS = 0.2


def linear(weight: Tensor) -> nn.Module:
    """A two-class linear model whose loss against class 0 grows along `weight`."""
    model = nn.Linear(len(weight), 2, bias=False).to(weight.dtype)
    with torch.no_grad():
        model.weight.copy_(torch.stack([torch.zeros_like(weight), weight]))
    return model


WEIGHT = torch.tensor([0.5, -2.0, 1.0, 0.3], dtype=torch.float64)
CENTER = torch.full((3, 4), 0.5, dtype=torch.float64)
ZEROS = torch.zeros(3, dtype=torch.long)


@pytest.mark.parametrize("start", ["uniform", "gaussian", "none"])
def test_linf_pgd_on_a_linear_model_ends_at_the_corner(start: str) -> None:
    adv = PGD(EPS, 20, EPS / 4, start=start)(linear(WEIGHT), CENTER, ZEROS)
    assert torch.equal(adv, (CENTER + EPS * WEIGHT.sign()).clamp(0, 1))


@pytest.mark.parametrize("start", ["uniform", "none"])
def test_l2_pgd_on_a_linear_model_ends_along_the_weight(start: str) -> None:
    adv = PGD(EPS, 200, EPS / 4, "l2", start)(linear(WEIGHT), CENTER, ZEROS)
    assert torch.allclose(adv, CENTER + EPS * WEIGHT / WEIGHT.norm(), atol=1e-5)


def test_l1_pgd_on_a_linear_model_spends_all_on_the_largest_weight() -> None:
    adv = PGD(EPS, 50, EPS / 4, "l1", start="none")(linear(WEIGHT), CENTER, ZEROS)
    assert torch.allclose(adv, CENTER + EPS * torch.tensor([0.0, -1.0, 0.0, 0.0]), atol=1e-9)


def test_l1_pgd_moves_on_to_the_next_weight_at_the_border_of_the_images() -> None:
    adv = PGD(0.8, 400, 0.01, "l1", start="none")(linear(WEIGHT), CENTER, ZEROS)
    best = CENTER + torch.tensor([0.0, -0.5, 0.3, 0.0])  # the second-largest weight takes what the border leaves
    assert ((best - adv) @ WEIGHT).abs().max() < 0.02


def test_pgd_in_a_corner_of_the_images_stays_in_them() -> None:
    for norm in BALLS:
        adv = PGD(EPS, 20, EPS / 4, norm)(linear(WEIGHT), torch.zeros(2, 4, dtype=torch.float64), ZEROS[:2])
        assert adv.min() >= 0
        assert adv[:, 1].max() == 0  # its weight is negative


@given(
    norm=st.sampled_from(sorted(BALLS)),
    eps=st.sampled_from([0.0, 1 / 255, 0.03, 0.3, 1.0]),
    shape=st.sampled_from([(2,), (1, 5, 5), (3, 4, 6)]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    start=st.sampled_from(["uniform", "gaussian", "none"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=150, deadline=None)
def test_every_perturbation_stays_in_its_ball_and_in_the_images(
    norm: str, eps: float, shape: tuple[int, ...], dtype: torch.dtype, start: str, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand((3, *shape), generator=generator, dtype=dtype)
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 3)).to(dtype)
    adv = PGD(eps, 3, eps / 2, norm, start)(model, x, torch.tensor([0, 1, 2]), generator)
    assert adv.dtype == dtype
    assert adv.min() >= 0
    assert adv.max() <= 1
    assert BALLS[norm].size(adv - x).max() <= eps * (1 + 1e-4) + 1e-6


@given(
    st.lists(st.tuples(st.floats(-3, 3, width=32), st.sampled_from([0.0, 0.2, 0.5, 1.0])), min_size=2, max_size=6),
    st.floats(0.05, 4),
)
@settings(max_examples=100, deadline=None)
def test_the_l1_projection_is_the_nearest_point_of_ball_and_images(rows: list[tuple[float, float]], eps: float) -> None:
    """Against bisection on the threshold, which is subtracted from every coordinate before it is clipped."""
    move, x = torch.tensor(rows, dtype=torch.float64).T[:, None]

    def after(threshold: float) -> Tensor:
        return (x + move.sign() * (move.abs() - threshold).clamp(min=0)).clamp(0, 1)

    low, high = 0.0, move.abs().max().item()
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if (after(middle) - x).abs().sum() > eps else (low, middle)
    expected = after(0.0) if (after(0.0) - x).abs().sum() <= eps else after(high)
    assert torch.allclose(BALLS["l1"].project(x + move, x, eps), expected, atol=1e-9)


@pytest.mark.parametrize("norm", sorted(BALLS))
def test_starts_fill_the_ball_and_not_only_its_center_or_rim(norm: str) -> None:
    """The radius of a uniform point in a ball of three dimensions, cubed, is itself uniform, in any norm."""
    noise = BALLS[norm].start(torch.zeros(4000, 3, dtype=torch.float64), torch.Generator().manual_seed(0))
    radii = BALLS[norm].size(noise).sort().values
    assert (radii**3 - torch.linspace(0, 1, 4000, dtype=torch.float64)).abs().max() < 0.03
    assert noise.mean(0).abs().max() < 0.03


def trained() -> tuple[nn.Module, Tensor, Tensor]:
    """A small network and the points it was fitted to, many of them near its border."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand((400, 6), generator=generator)
    y = (x.sum(1) > 3).long() + (x[:, 0] > 0.8).long()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval(), x, y


FOOLBOX = {
    "linf": foolbox.attacks.LinfPGD,
    "l2": foolbox.attacks.L2PGD,
}


@pytest.mark.parametrize("norm", sorted(FOOLBOX))
@pytest.mark.parametrize("eps", [0.03, 0.06])
def test_robust_accuracy_equals_foolboxs_on_the_same_model_and_start(norm: str, eps: float) -> None:
    model, x, y = trained()
    ours = PGD(eps, 20, eps / 4, norm, start="none")(model, x, y)
    theirs_attack = FOOLBOX[norm](abs_stepsize=eps / 4, steps=20, random_start=False)
    theirs, _, _ = theirs_attack(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=eps)
    accuracy = [(model(adv).argmax(1) == y).float().mean().item() for adv in (ours, theirs)]
    assert 0.2 < accuracy[0] < 0.95
    assert accuracy[0] == pytest.approx(accuracy[1], abs=0.005)


def test_the_l1_attack_is_no_weaker_than_foolboxs() -> None:
    model, x, y = trained()
    ours = PGD(0.2, 50, 0.05, "l1", start="none")(model, x, y)
    attack = foolbox.attacks.L1PGD(abs_stepsize=0.05, steps=50, random_start=False)
    theirs, _, _ = attack(foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu"), x, y, epsilons=0.2)
    accuracy = [(model(adv).argmax(1) == y).float().mean().item() for adv in (ours, theirs)]
    assert accuracy[0] <= accuracy[1] + 0.005


def test_an_attack_leaves_no_gradient_no_mode_and_no_flag_behind() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2)).train()
    model[0].weight.requires_grad_(False)
    model[1].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    PGD(0.1)(model, torch.rand(5, 4), torch.zeros(5, dtype=torch.long))
    assert [module.training for module in model] == [True, False, True, True]
    assert [p.requires_grad for p in model.parameters()] == [False, True, True, True, True, True]
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_an_attack_works_where_the_caller_wants_no_gradients() -> None:
    with torch.no_grad():
        adv = PGD(EPS, 20, EPS / 4)(linear(WEIGHT), CENTER, ZEROS)
    assert torch.equal(adv, CENTER + EPS * WEIGHT.sign())
    assert not adv.requires_grad


def test_train_mode_during_the_attack_is_a_choice() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()
    PGD(0.1, mode="train")(model, torch.rand(5, 4), torch.zeros(5, dtype=torch.long))
    assert model[1].num_batches_tracked == 11 - 1
    assert not model[1].training


def test_an_attack_that_breaks_restores_the_model_all_the_same() -> None:
    model = nn.Linear(4, 2).train()
    with pytest.raises(RuntimeError, match="on purpose"), frozen(model):
        raise RuntimeError("on purpose")
    assert model.training
    assert model.weight.requires_grad


def test_the_same_generator_gives_the_same_attack_and_the_global_one_is_left_alone() -> None:
    model, x, y = trained()
    before = torch.get_rng_state()
    one, two = (PGD(0.05, 3)(model, x, y, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(before, torch.get_rng_state())


def test_cw_is_the_authors_margin_up_to_a_constant() -> None:
    logits, labels = torch.randn(6, 5, dtype=torch.float64) * 30, torch.tensor([0, 1, 2, 3, 4, 0])
    one_hot = nn.functional.one_hot(labels, 5)
    real = (one_hot * logits).sum(1)
    other = (logits - one_hot * 1e6).amax(1)
    assert torch.allclose(cw(logits, labels) - 50, -(real - other + 50).clamp(min=0))
    assert torch.allclose(margin(logits, labels), other - real)


def test_losses_match_finite_differences() -> None:
    logits, labels = torch.randn(4, 5, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 2, 3])
    for loss in (cross_entropy, margin, cw, probability, probability_margin, boosted_cross_entropy):
        assert torch.autograd.gradcheck(lambda z, loss=loss: loss(z, labels), logits)
    others = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(divergence, (logits, others))  # by both of them


def test_losses_of_known_probabilities() -> None:
    """Of 0.5, 0.3, 0.2: the label's is 0.5 in the first row, 0.2 in the second."""
    p = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], dtype=torch.float64)
    logits, labels = p.log() + torch.tensor([[3.0], [-70.0]]), torch.tensor([0, 2])  # which no probability sees
    assert probability(logits, labels).tolist() == pytest.approx([0.5, 0.2])
    assert probability_margin(logits, labels).tolist() == pytest.approx([0.2, -0.3])
    boosted = [-math.log(0.5) - math.log(1.0001 - 0.3), -math.log(0.2) - math.log(1.0001 - 0.5)]
    assert boosted_cross_entropy(logits, labels).tolist() == pytest.approx(boosted)
    uniform = torch.zeros(2, 3, dtype=torch.float64)
    entropy = -sum(share * math.log(share) for share in (0.5, 0.3, 0.2))
    assert divergence(logits, uniform).tolist() == pytest.approx([math.log(3) - entropy] * 2)
    reverse = -math.log(3) - sum(math.log(share) for share in (0.5, 0.3, 0.2)) / 3
    assert divergence(uniform, logits).tolist() == pytest.approx([reverse] * 2)


def test_divergence_is_torchs_and_0_between_equals() -> None:
    logits, others = torch.randn(2, 6, 5, dtype=torch.float64) * 5
    distributions = [torch.distributions.Categorical(logits=z) for z in (logits, others)]
    expected = torch.distributions.kl_divergence(*distributions)
    torch.testing.assert_close(divergence(logits, others), expected)
    assert divergence(logits, logits).abs().max() < 1e-12


def test_losses_and_their_gradients_stay_finite_where_the_network_is_sure() -> None:
    """Sure of the label, sure of another class, and of two at once; in single precision."""
    logits = torch.tensor([[500.0, 0.0, -500.0], [-500.0, 500.0, 0.0], [0.0, 300.0, 300.0]], requires_grad=True)
    labels, turned = torch.zeros(3, dtype=torch.long), logits.flip(1)
    for losses in (boosted_cross_entropy(logits, labels), divergence(logits, turned), divergence(turned, logits)):
        (gradient,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
        assert losses.isfinite().all()
        assert gradient.isfinite().all()
    sure_of_another = boosted_cross_entropy(logits, labels)[1].item()
    assert sure_of_another == pytest.approx(1000 - math.log(1e-4), rel=1e-4)


def test_mean_one_keeps_ratios_and_has_mean_1_however_small_the_weights() -> None:
    for offset in (0.0, -1000.0, 500.0):
        weights = mean_one(torch.tensor([0.0, math.log(2.0), math.log(5.0)]) + offset)
        assert weights.tolist() == pytest.approx([3 / 8, 6 / 8, 15 / 8], rel=1e-4)


def test_the_suite_is_the_papers_by_default() -> None:
    attacks = suite(0.1)
    assert list(attacks) == ["fgsm", "pgd20", "cw"]
    assert (attacks["fgsm"].steps, attacks["fgsm"].step_size, attacks["fgsm"].start) == (1, 0.1, "uniform")
    assert (attacks["pgd20"].steps, attacks["pgd20"].step_size) == (20, 0.025)
    assert (attacks["cw"].steps, attacks["cw"].loss) == (30, cw)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: PGD(8.0), "8/255"),
        (lambda: PGD(-0.1), "eps = -0.1"),
        (lambda: PGD(float("nan")), "nan"),
        (lambda: PGD(0.1, steps=-1), "steps = -1"),
        (lambda: PGD(0.1, step_size=-1.0), "step_size = -1"),
        (lambda: PGD(0.1, norm="l3"), "unknown norm 'l3'"),
        (lambda: PGD(0.1, start="unifrm"), "did you mean 'uniform'"),
        (lambda: PGD(0.1, mode="test"), "unknown attack mode"),
        (lambda: suite(0.1, names=["pdg20"]), "did you mean 'pgd20'"),
        (lambda: PGD(0.1)(nn.Linear(2, 2), torch.full((1, 2), 255.0), torch.zeros(1).long()), "divide pixels by 255"),
        (lambda: PGD(0.1)(nn.Linear(2, 2), torch.full((1, 2), -1.0), torch.zeros(1).long()), "inside the model"),
    ],
)
def test_nonsense_is_refused_in_one_line(build: Callable[[], object], words: str) -> None:
    assert_refused_in_one_line(build, words)
